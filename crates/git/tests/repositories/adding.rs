//! Adding a project.

use std::fs;
use std::path::Path;

use roboco_git::{Access, Credential, GitError, Origin, Refusal, Warning};

use crate::world::{World, branch, git, main, make_origin, open, write};

async fn refusal(world: &World, path: &Path) -> String {
    let error = world.repos.add(world.project, &Origin::Folder(path.to_owned()), Credential::None).await.unwrap_err();
    assert!(matches!(error, GitError::Refused(_)) && !error.is_retryable(), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn unusable_origins_are_refused_with_the_way_out() {
    let world = World::empty().await;
    let root = world.origin.parent().unwrap();
    let plain = root.join("plain");
    write(&plain, "a.txt", "a");
    assert!(refusal(&world, &plain).await.contains("is not a git repository: give the top folder"));

    let empty = root.join("empty");
    fs::create_dir_all(&empty).unwrap();
    git(&empty, &["init", "-q"]).await;
    assert!(refusal(&world, &empty).await.contains("has no commit yet: make a first one there (`git add -A && git commit"));

    make_origin(&world.origin).await;
    assert!(refusal(&world, &world.origin.join("src")).await.contains("is not a git repository"));
    git(&world.origin, &["checkout", "-q", "--detach"]).await;
    assert!(refusal(&world, &world.origin).await.contains("is not on a branch"));
    git(&world.origin, &["checkout", "-q", "--orphan", "unborn"]).await;
    assert!(refusal(&world, &world.origin).await.contains("is not on a branch"));

    git(&world.origin, &["checkout", "-q", "-f", "main"]).await;
    let shallow = root.join("shallow");
    git(root, &["clone", "-q", "--depth=1", &format!("file://{}", world.origin.display()), "shallow"]).await;
    assert!(refusal(&world, &shallow).await.contains("git fetch --unshallow"));
    assert_eq!(fs::read_dir(world.store().parent().unwrap()).unwrap().count(), 0, "a refused project leaves nothing behind");
}

#[tokio::test]
async fn a_folder_is_copied_and_left_alone() {
    let world = World::empty().await;
    make_origin(&world.origin).await;
    git(&world.origin, &["branch", "release/1"]).await;
    git(&world.origin, &["symbolic-ref", "HEAD", "refs/heads/main"]).await;
    let before = world.origin_as_it_is();
    let added = world.repos.add(world.project, &world.folder(), Credential::None).await.unwrap();
    assert_eq!((added.probe.default_branch, added.probe.access, added.warnings), (branch("main"), Access::Write, vec![]));
    assert_eq!(world.repos.default_branch(world.project).unwrap(), branch("main"));
    let refs = git(&world.store(), &["for-each-ref", "--format=%(refname)"]).await;
    assert_eq!(refs, "refs/remotes/origin/main\nrefs/remotes/origin/release/1", "the store has no branch of its own");
    assert!(!world.store().join("objects/info/alternates").exists(), "the copy does not depend on the user's folder");
    assert!(world.origin_as_it_is() == before);
    assert!(world.repos.log_graph(world.project, &main(), 10).await.unwrap().contains("First commit (Ada)"));
}

#[tokio::test]
async fn adding_again_refreshes_and_another_origin_is_refused() {
    let world = World::new().await;
    git(&world.origin, &["commit", "-q", "--allow-empty", "-m", "Second"]).await;
    let tip = git(&world.origin, &["rev-parse", "main"]).await;
    // What a killed first try leaves behind is in nobody's way.
    fs::create_dir_all(world.store().parent().unwrap().join(".new-00000000-0000-0000-0000-000000000001/refs")).unwrap();
    let added = world.repos.add(world.project, &world.folder(), Credential::None).await.unwrap();
    assert_eq!(added.probe.tip.as_str(), tip);

    let other = world.origin.with_file_name("other");
    make_origin(&other).await;
    let error = world.repos.add(world.project, &Origin::Folder(other), Credential::None).await.unwrap_err();
    assert!(matches!(error, GitError::Refused(Refusal::OtherOrigin(_))), "{error}");
}

#[tokio::test]
async fn bare_folders_linked_trees_and_new_hashes_work() {
    let world = World::empty().await;
    make_origin(&world.origin).await;
    let root = world.origin.parent().unwrap().to_owned();
    git(&root, &["clone", "-q", "--bare", "greeter", "bare.git"]).await;
    git(&world.origin, &["worktree", "add", "-q", "-b", "side", "../linked"]).await;
    let sha256 = root.join("new");
    fs::create_dir(&sha256).unwrap();
    git(&sha256, &["init", "-q", "-b", "trunk", "--object-format=sha256"]).await;
    git(&sha256, &["commit", "-q", "--allow-empty", "-m", "x"]).await;
    for (n, (folder, default)) in [("bare.git", "main"), ("linked", "side"), ("new", "trunk")].into_iter().enumerate() {
        let project = roboco_domain::id::ProjectId::new(uuid::Uuid::from_u128(10 + n as u128));
        let added = world.repos.add(project, &Origin::Folder(root.join(folder)), Credential::None).await.unwrap();
        assert_eq!((added.probe.default_branch, added.probe.access), (branch(default), Access::Write), "{folder}");
    }
}

#[tokio::test]
async fn submodules_and_lfs_are_warned_about() {
    let world = World::empty().await;
    make_origin(&world.origin).await;
    let sub = world.origin.with_file_name("sub");
    make_origin(&sub).await;
    git(&world.origin, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../sub", "lib"]).await;
    write(&world.origin, "assets/.gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    git(&world.origin, &["add", "-A"]).await;
    git(&world.origin, &["commit", "-q", "-m", "Odd"]).await;
    let added = world.repos.add(world.project, &world.folder(), Credential::None).await.unwrap();
    assert_eq!(added.warnings, [Warning::Submodules, Warning::Lfs]);
    let cut = world.cut().await;
    assert!(fs::read_dir(cut.tree_path.join("lib")).unwrap().next().is_none(), "content of submodules is not fetched");
    assert!(world.repos.tree_state(world.project, &crate::world::leaf()).await.unwrap().dirty.is_empty());
}

#[tokio::test]
async fn an_unreachable_address_is_a_refusal_that_names_it() {
    let world = World::empty().await;
    let origin = Origin::parse("https://127.0.0.1:9/acme/x.git", Path::new("/")).unwrap();
    let error = world.repos.probe(&origin, &Credential::Token("s3cretword".to_owned().into())).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, GitError::Refused(Refusal::Unreadable { .. })), "{text}");
    assert!(text.contains("https://127.0.0.1:9/acme/x.git") && !format!("{text}{error:?}").contains("s3cretword"), "{text}");
}

#[tokio::test]
async fn a_store_survives_a_restart_and_a_missing_one_is_named() {
    let mut world = World::new().await;
    world.restart().await;
    assert_eq!(world.repos.default_branch(world.project).unwrap(), branch("main"));
    let other = open(&world.dir.path().join("elsewhere")).await;
    assert!(other.default_branch(world.project).unwrap_err().to_string().contains("add the project first"));
}
