//! What is forgotten, removed and packed when nobody looks, and what never is.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use roboco_domain::id::ProjectId;
use roboco_git::{GitError, Housekept, Landing, Packing, Refusal};
use uuid::Uuid;

use crate::world::{PATH, World, git, leaf, open_with, try_git, write};

const DAY: Duration = Duration::from_secs(86_400);

async fn housekeep(world: &World, now: SystemTime) -> Housekept {
    world.repos.housekeep(world.project, now).await.unwrap()
}

async fn count(store: &Path, what: &str) -> u64 {
    let listed = git(store, &["count-objects", "-v"]).await;
    let line = listed.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(": "));
    line.unwrap().parse().unwrap()
}

async fn has(store: &Path, object: &str) -> bool {
    try_git(store, &[], &["cat-file", "-e", object]).await.0 == 0
}

#[tokio::test]
async fn rescued_work_is_kept_for_a_month_and_then_leaves_the_disk() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    let head = world.commit("r1").await.oid;
    world.repos.remove_branch(world.project, &leaf()).await.unwrap();
    let now = SystemTime::now();
    let nothing = Housekept { forgotten: 0, copies_removed: 0, packing: Packing::NotNeeded };
    assert_eq!(housekeep(&world, now).await, nothing);
    let week = Housekept { packing: Packing::Everything, ..nothing };
    assert_eq!(housekeep(&world, now + 29 * DAY).await, week);
    assert!(has(&world.store(), head.as_str()).await);
    assert_eq!(housekeep(&world, now + 29 * DAY).await, nothing, "everything is packed once a week");
    let month = Housekept { forgotten: 1, ..week };
    assert_eq!(housekeep(&world, now + 40 * DAY).await, month);
    assert!(!has(&world.store(), head.as_str()).await, "a commit without a name takes no room");
    git(&world.store(), &["fsck", "--strict"]).await;
    assert!(has(&world.store(), cut.head.as_str()).await && !world.cut().await.reused);
}

#[tokio::test]
async fn what_no_branch_holds_yet_survives_the_packing() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    let head = world.commit("r1").await.oid;
    let Landing::Ready { base, commit, .. } = world.repos.prepare_landing(&world.landing(&head)).await.unwrap() else { panic!() };
    write(&cut.tree_path, "draft.txt", "mine\n");
    let now = SystemTime::now();
    housekeep(&world, now).await;
    assert_eq!(housekeep(&world, now + 8 * DAY).await.packing, Packing::Everything);
    assert_eq!((count(&world.store(), "count").await, count(&world.store(), "packs").await), (0, 2));
    world.repos.push_landing(world.project, &crate::world::main(), &commit, &base).await.unwrap();
    assert_eq!(git(&world.origin, &["rev-parse", "main"]).await, commit.as_str());
    assert_eq!(world.commit("r2").await.files.len(), 1);
}

#[tokio::test]
async fn many_loose_objects_become_one_pack() {
    let world = World::new().await;
    let cut = world.cut().await;
    for n in 0..2000 {
        write(&cut.tree_path, &format!("many/{n}.txt"), format!("{n}\n"));
    }
    let head = world.commit("r1").await.oid;
    assert!(count(&world.store(), "count").await >= 2000);
    let now = SystemTime::now();
    // What a git that was stopped had begun is young, then old.
    let (torn, export) = (world.store().join("objects/pack/.tmp-1-pack-x.pack"), world.store().join("roboco-export-1"));
    for file in [&torn, &export] {
        fs::write(file, "torn").unwrap();
    }
    assert_eq!(housekeep(&world, now).await.packing, Packing::Joined);
    assert!(torn.exists() && export.exists());
    assert_eq!(count(&world.store(), "count").await, 0);
    assert_eq!(git(&world.store(), &["show", &format!("{head}:many/1999.txt")]).await, "1999");
    assert_eq!(housekeep(&world, now).await.packing, Packing::NotNeeded);
    housekeep(&world, now + 8 * DAY).await;
    assert!(!torn.exists() && !export.exists());
}

#[tokio::test]
async fn copies_of_a_dead_server_are_removed_and_those_of_a_running_check_are_not() {
    let mut world = World::new().await;
    let head = world.cut().await.head;
    let copy = async |world: &World| {
        let copy = world.repos.export_path(world.project, "gate-1");
        world.repos.export(world.project, &head, &copy).await.unwrap();
        copy
    };
    let old = copy(&world).await;
    fs::create_dir(old.join("locked")).unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o555)).unwrap();
    world.restart().await;
    let live = copy(&world).await;
    let now = SystemTime::now();
    assert_eq!(housekeep(&world, now).await.copies_removed, 1);
    assert!(!old.exists() && live.join("README.md").exists());
    assert_eq!(housekeep(&world, now).await.copies_removed, 0);
    // No check runs for two days: whoever made this copy has forgotten it.
    assert_eq!(housekeep(&world, now + 2 * DAY).await.copies_removed, 1);
    assert!(!live.exists());
}

#[tokio::test]
async fn nothing_is_packed_while_an_operation_of_the_project_is_under_way() {
    let mut world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    // A git that stages only when it is allowed to.
    let (bin, waits, go) = (world.dir.path().join("bin"), world.dir.path().join("waits"), world.dir.path().join("go"));
    let wait = format!("case \"$1\" in add) : > '{}'; until [ -e '{}' ]; do sleep 0.01; done;; esac", waits.display(), go.display());
    write(&bin, "git", format!("#!/bin/sh\nPATH={PATH}\n{wait}\nexec git \"$@\"\n"));
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    world.repos = open_with(&world.dir.path().join("data"), &format!("{}:{PATH}", bin.display())).await;
    let now = SystemTime::now();
    housekeep(&world, now).await;
    let request = world.request("r1");
    let commit = world.repos.commit(&request);
    let meanwhile = async {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        while !waits.exists() {
            assert!(tokio::time::Instant::now() < deadline, "nothing was staged");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let packing = housekeep(&world, now + 8 * DAY).await.packing;
        fs::write(&go, "").unwrap();
        packing
    };
    let (done, packing) = tokio::join!(commit, meanwhile);
    assert_eq!(packing, Packing::Busy);
    done.unwrap();
    assert_eq!(housekeep(&world, now + 8 * DAY).await.packing, Packing::Everything);
}

#[tokio::test]
async fn a_project_that_was_never_added_has_no_house() {
    let world = World::new().await;
    let error = world.repos.housekeep(ProjectId::new(Uuid::from_u128(9)), SystemTime::now()).await.unwrap_err();
    assert!(matches!(error, GitError::Refused(Refusal::UnknownProject(_))), "{error}");
}
