//! Origins behind an address. Programs found before the real ones stand in for the network and watch what git is started with.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use roboco_domain::effect::TreeFor;
use roboco_domain::vcs::Oid;
use roboco_git::{Access, Credential, Git, GitError, Landing, Origin, PushRefusal, Pushed, Refusal};

use crate::world::{PATH, World, git, main, make_origin, open_with, write};

fn program(dir: &Path, name: &str, script: &str) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).unwrap();
}

/// An ssh that runs the command here, and a bare repository to run it on.
async fn over_ssh() -> (World, Origin, PathBuf) {
    let mut world = World::empty().await;
    let bin = world.dir.path().join("bin");
    program(&bin, "ssh", "for last; do :; done\nexec sh -c \"$last\"");
    world.repos = open_with(&world.dir.path().join("data"), &format!("{}:{PATH}", bin.display())).await;
    let source = world.origin.with_file_name("source");
    make_origin(&source).await;
    world.origin = world.origin.with_file_name("bare.git");
    git(&source, &["clone", "-q", "--bare", ".", world.origin.to_str().unwrap()]).await;
    let origin = Origin::parse(&format!("git@host.invalid:{}", world.origin.display()), Path::new("/")).unwrap();
    (world, origin, bin)
}

async fn ready(world: &World) -> (Oid, Oid) {
    let cut = world.cut().await;
    write(&cut.tree_path, "hello.txt", "hello\n");
    let head = world.commit("r1").await.oid;
    match world.repos.prepare_landing(&world.landing(&head)).await.unwrap() {
        Landing::Ready { base, commit, .. } => (base, commit),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_remote_origin_is_read_and_landed_on() {
    let (world, origin, _) = over_ssh().await;
    let before = world.origin_as_it_is();
    let added = world.repos.add(world.project, &origin, Credential::SshAgent("/run/agent.sock".into())).await.unwrap();
    assert_eq!((added.probe.access, added.warnings), (Access::Write, vec![]));
    let (base, commit) = ready(&world).await;
    assert!(world.origin_as_it_is() == before, "nothing changes there before the push, the question for write access included");
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
    assert_eq!(git(&world.origin, &["rev-parse", "main"]).await, commit.as_str());
}

#[tokio::test]
async fn an_origin_without_write_access_is_read_only_with_a_sentence() {
    let (world, origin, bin) = over_ssh().await;
    let denied = "case \"$last\" in *receive-pack*) echo 'git@host.invalid: Permission denied (publickey).' >&2; exit 255;; esac";
    program(&bin, "ssh", &format!("for last; do :; done\n{denied}\nexec sh -c \"$last\""));
    let added = world.repos.add(world.project, &origin, Credential::None).await.unwrap();
    let Access::ReadOnly(why) = added.probe.access else { panic!() };
    assert!(why.contains("Permission denied") && why.contains("cannot land"), "{why}");
    let (base, commit) = ready(&world).await;
    let pushed = world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap();
    assert!(matches!(pushed, Pushed::Refused(PushRefusal::NoAccess(_))), "{pushed:?}");

    program(&bin, "ssh", "echo 'ssh: connect to host host.invalid port 22: Connection refused' >&2; exit 255");
    let error = world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("Connection refused"), "an outage is no refusal: {error}");
    let error = world.repos.cut_branch(world.project, &crate::world::branch("x"), &main(), TreeFor::Author).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
}

#[tokio::test]
async fn a_protected_branch_keeps_its_reason() {
    let (world, origin, _) = over_ssh().await;
    world.repos.add(world.project, &origin, Credential::None).await.unwrap();
    let (base, commit) = ready(&world).await;
    program(&world.origin.join("hooks"), "pre-receive", "echo 'main needs two reviews' >&2; exit 1");
    let pushed = world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap();
    let Pushed::Refused(refusal @ PushRefusal::Protected(_)) = pushed else { panic!("{pushed:?}") };
    assert!(refusal.to_string().contains("main needs two reviews"), "{refusal}");
    assert_eq!(git(&world.origin, &["rev-parse", "main"]).await, base.as_str());
}

#[tokio::test]
async fn a_token_travels_by_environment_to_its_host_only() {
    let mut world = World::empty().await;
    let (bin, log) = (world.dir.path().join("bin"), world.dir.path().join("log"));
    let real = roboco_process::find_program("git".as_ref(), PATH.as_ref()).unwrap();
    let script = format!("echo \"ARGV $*\" >> {log}\nenv | sed 's/^/ENV /' >> {log}\nexec {} \"$@\"", real.display(), log = log.display());
    program(&bin, "git", &script);
    world.repos = open_with(&world.dir.path().join("data"), &format!("{}:{PATH}", bin.display())).await;
    let origin = Origin::parse("https://127.0.0.1:9/acme/x.git", Path::new("/")).unwrap();
    let token = Credential::Token("s3cretword".to_owned().into());
    assert!(world.repos.probe(&origin, &token).await.is_err());
    let seen = fs::read_to_string(&log).unwrap();
    // Base64 of "x-access-token:s3cretword".
    let encoded = "eC1hY2Nlc3MtdG9rZW46czNjcmV0d29yZA==";
    let (argv, env): (Vec<&str>, Vec<&str>) = seen.lines().partition(|line| line.starts_with("ARGV"));
    assert!(argv.iter().any(|line| line.contains("ls-remote")));
    assert!(!argv.iter().any(|line| line.contains("s3cretword") || line.contains(encoded)), "{argv:?}");
    let value = env.iter().find(|line| line.contains(encoded)).unwrap();
    let number = value.strip_prefix("ENV GIT_CONFIG_VALUE_").unwrap().split('=').next().unwrap();
    let key = format!("ENV GIT_CONFIG_KEY_{number}=http.https://127.0.0.1:9/.extraHeader");
    assert!(env.contains(&key.as_str()), "{env:?}");
    let foreign: Vec<&&str> = env.iter().filter(|line| line.starts_with("ENV CARGO")).collect();
    assert!(foreign.is_empty(), "the server's own environment does not reach git: {foreign:?}");

    fs::remove_file(&log).unwrap();
    make_origin(&world.origin).await;
    world.repos.probe(&world.folder(), &Credential::Token("s3cretword".to_owned().into())).await.unwrap();
    assert!(!fs::read_to_string(&log).unwrap().contains(encoded), "a folder needs no token");
}

#[tokio::test]
async fn a_missing_or_old_git_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = Git::discover("/nonexistent".as_ref(), &dir.path().join("home")).await.unwrap_err();
    assert!(matches!(error, GitError::Refused(Refusal::NoGit)), "{error}");
    program(dir.path(), "git", "echo git version 2.34.1");
    let error = Git::discover(dir.path().as_os_str(), &dir.path().join("home")).await.unwrap_err();
    assert_eq!(error.to_string(), "git 2.34.1 is too old: install git 2.38 or newer");
}
