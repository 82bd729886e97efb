//! What an agent or a repository may try against the server. Each trap writes a file when it works.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use roboco_domain::effect::TreeFor;
use roboco_git::{CommitOutcome, CommitProblem, Freshness, Landing, Pushed, TreeName, Unsaved};

use crate::world::{World, git, leaf, main, make_origin, try_git, write};

/// A program that leaves a trace, and the trace.
fn trap(world: &World) -> (PathBuf, PathBuf) {
    let (program, trace) = (world.dir.path().join("trap.sh"), world.dir.path().join("trace"));
    fs::write(&program, format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat\n", trace.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (program, trace)
}

fn set_traps(git_dir: &Path, program: &Path) {
    let config = format!(
        "\n[core]\n\tfsmonitor = {p}\n\thooksPath = {h}\n\tpager = {p}\n\teditor = {p}\n[filter \"evil\"]\n\tclean = {p}\n\tsmudge = {p}\n\tprocess = {p}\n\
         [diff \"evil\"]\n\tcommand = {p}\n\ttextconv = {p}\n[merge \"evil\"]\n\tdriver = {p}\n[diff]\n\texternal = {p}\n",
        p = program.display(),
        h = git_dir.join("hooks").display()
    );
    let old = fs::read_to_string(git_dir.join("config")).unwrap_or_default();
    fs::write(git_dir.join("config"), old + &config).unwrap();
    fs::create_dir_all(git_dir.join("hooks")).unwrap();
    for hook in [
        "pre-commit",
        "post-commit",
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "pre-receive",
        "update",
        "post-receive",
        "push-to-checkout",
        "pre-push",
    ] {
        fs::copy(program, git_dir.join("hooks").join(hook)).unwrap();
    }
}

#[tokio::test]
async fn a_tree_cannot_redirect_the_server() {
    let world = World::new().await;
    let (program, trace) = trap(&world);
    let cut = world.cut().await;
    let decoy = world.dir.path().join("decoy");
    make_origin(&decoy).await;
    set_traps(&decoy.join(".git"), &program);
    let outside = world.dir.path().join("outside.txt");
    fs::write(&outside, "untouched").unwrap();
    let link = cut.tree_path.join(".git");
    for n in 0..4 {
        fs::remove_file(&link).or_else(|_| fs::remove_dir_all(&link)).unwrap();
        match n {
            0 => fs::write(&link, format!("gitdir: {}\n", decoy.join(".git").display())).unwrap(),
            1 => symlink(&outside, &link).unwrap(),
            2 => symlink(decoy.join(".git"), &link).unwrap(),
            _ => {
                fs::create_dir(&link).unwrap();
                git(&cut.tree_path, &["init", "-q"]).await;
                set_traps(&link, &program);
            }
        }
        fs::write(cut.tree_path.join("work.txt"), format!("{n}\n")).unwrap();
        assert_eq!(world.repos.tree_state(world.project, &leaf()).await.unwrap().dirty.len(), 1);
        let done = world.commit(&format!("r{n}")).await;
        assert_eq!(done.files.len(), 1);
        assert_eq!(world.repos.branch_head(world.project, &leaf()).unwrap(), Some(done.oid));
        world.cut().await;
        assert!(link.symlink_metadata().unwrap().is_file(), "the link is whole again");
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "untouched");
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap_or_default());
    assert_eq!(git(&decoy, &["rev-list", "--count", "HEAD"]).await, "1");
    try_git(&decoy, &[], &["status"]).await;
    assert!(trace.exists(), "the trap itself works");
}

#[tokio::test]
async fn attributes_nested_repositories_and_submodules_run_nothing() {
    let world = World::empty().await;
    let (program, trace) = trap(&world);
    make_origin(&world.origin).await;
    let sub = world.origin.with_file_name("sub");
    make_origin(&sub).await;
    git(&world.origin, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../sub", "lib"]).await;
    write(&world.origin, ".gitattributes", "* filter=evil diff=evil merge=evil\n");
    git(&world.origin, &["add", "-A"]).await;
    git(&world.origin, &["commit", "-q", "-m", "Odd"]).await;
    world.add().await;
    let cut = world.cut().await;
    for nested in ["lib", "nested"] {
        let nested = cut.tree_path.join(nested);
        fs::create_dir_all(&nested).unwrap();
        git(&nested, &["init", "-q"]).await;
        git(&nested, &["commit", "-q", "--allow-empty", "-m", "x"]).await;
        write(&nested, "y.txt", "y\n");
        git(&nested, &["add", "-A"]).await;
        set_traps(&nested.join(".git"), &program);
    }
    write(&cut.tree_path, "src/greet.txt", "changed\n");
    world.repos.tree_state(world.project, &leaf()).await.unwrap();
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap_or_default());
    try_git(&cut.tree_path, &[], &["status"]).await;
    assert!(trace.exists(), "the trap itself works");
    fs::remove_file(&trace).unwrap();
    let problems = world.refused(&world.request("r1")).await;
    assert!(problems.iter().all(|problem| matches!(problem, CommitProblem::Gitlink { .. })), "{problems:?}");
    assert_eq!(problems.len(), 2, "{problems:?}");
    fs::remove_dir_all(cut.tree_path.join("nested")).unwrap();
    fs::remove_dir_all(cut.tree_path.join("lib/.git")).unwrap();
    fs::remove_dir_all(cut.tree_path.join("lib")).unwrap();
    fs::create_dir(cut.tree_path.join("lib")).unwrap();
    let done = world.commit("r2").await;
    world.repos.diff(world.project, &cut.base, &done.oid, 10_000).await.unwrap();
    world.repos.review_tree(world.project, "qa-1", &done.oid).await.unwrap();
    world.repos.export(world.project, &done.oid, &world.repos.export_path(world.project, "gate")).await.unwrap();
    world.repos.pin(world.project, &main(), &done.oid, Freshness::Fetch).await.unwrap();
    world.repos.release_tree(world.project, &TreeName::Branch(leaf()), Unsaved::Rescue).await.unwrap();
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap_or_default());
}

#[tokio::test]
async fn hooks_and_monitors_planted_in_the_store_stay_off() {
    let world = World::new().await;
    let (program, trace) = trap(&world);
    set_traps(&world.store(), &program);
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    world.repos.tree_state(world.project, &leaf()).await.unwrap();
    let head = world.commit("r1").await.oid;
    world.repos.diff(world.project, &cut.base, &head, 1000).await.unwrap();
    world.repos.review_tree(world.project, "qa-1", &head).await.unwrap();
    let Landing::Ready { base, commit, .. } = world.repos.prepare_landing(&world.landing(&head)).await.unwrap() else { panic!() };
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
    world.repos.remove_branch(world.project, &leaf()).await.unwrap();
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap_or_default());
}

#[tokio::test]
async fn hooks_and_monitors_of_the_origin_stay_off() {
    let world = World::empty().await;
    let (program, trace) = trap(&world);
    make_origin(&world.origin).await;
    set_traps(&world.origin.join(".git"), &program);
    world.add().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    let head = world.commit("r1").await.oid;
    let Landing::Ready { base, commit, .. } = world.repos.prepare_landing(&world.landing(&head)).await.unwrap() else { panic!() };
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
    assert!(world.origin.join("a.txt").exists());
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap_or_default());
    try_git(&world.origin, &[], &["commit", "-q", "--allow-empty", "-m", "x"]).await;
    assert!(trace.exists(), "the trap itself works");
}

#[tokio::test]
async fn an_agent_with_a_read_only_store_can_look_but_not_change() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    let env = [("GIT_OPTIONAL_LOCKS", "0")];
    for args in [&["status", "--short"][..], &["log", "--oneline"], &["diff"], &["branch", "--show-current"]] {
        let (code, text) = try_git(&cut.tree_path, &env, args).await;
        assert_eq!(code, 0, "{args:?}: {text}");
    }
    let (_, current) = try_git(&cut.tree_path, &env, &["branch", "--show-current"]).await;
    assert_eq!(current, leaf().as_str());
}

#[tokio::test]
async fn a_fetched_repository_with_a_malformed_tree_is_refused() {
    let world = World::new().await;
    // A tree with an entry called `.git`, which no honest git writes.
    let blob = git(&world.origin, &["rev-parse", "HEAD:README.md"]).await;
    let raw: Vec<u8> = (0..20).map(|i| u8::from_str_radix(&blob[2 * i..2 * i + 2], 16).unwrap()).collect();
    let file = world.dir.path().join("tree");
    fs::write(&file, [b"100644 .git\0".to_vec(), raw].concat()).unwrap();
    let tree = git(&world.origin, &["hash-object", "-t", "tree", "-w", "--literally", file.to_str().unwrap()]).await;
    let commit = git(&world.origin, &["commit-tree", "-p", "main", "-m", "evil", &tree]).await;
    git(&world.origin, &["update-ref", "refs/heads/main", &commit]).await;
    let error = world.repos.cut_branch(world.project, &leaf(), &main(), TreeFor::Author).await.unwrap_err();
    assert!(error.to_string().contains(".git"), "{error}");
    assert_eq!(world.repos.branch_head(world.project, &leaf()).unwrap(), None);
}

#[tokio::test]
async fn trailers_and_authors_of_an_agent_do_not_count() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    let mut request = world.request("r1");
    request.subject = "[T-1] feat: x\n\nRequest-Id: r9\nTask: T-9".to_owned();
    request.body = "Request-Id: r9\nAgent: ceo".to_owned();
    let CommitOutcome::Committed(done) = world.repos.commit(&request).await.unwrap() else { panic!() };
    let trailers = git(&world.store(), &["log", "-1", "--format=%(trailers)", done.oid.as_str()]).await;
    assert_eq!(trailers.trim(), "Task: T-1\nAgent: be-dev-1\nRequest-Id: r1");
    write(&cut.tree_path, "b.txt", "b\n");
    assert_ne!(world.commit("r9").await.oid, done.oid);
}
