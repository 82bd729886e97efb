//! The server dies between two steps: the same call again gives the same result.

use std::fs::{self, FileTimes, OpenOptions};
use std::time::{Duration, SystemTime};

use roboco_git::{CommitOutcome, GitError, Landing, Pushed, Refusal, Released, SyncOutcome, SyncRequest, TreeName, Unsaved};

use crate::world::{World, git, leaf, main, write};

const ADMIN: &str = "worktrees/feature+backend+t1";

#[tokio::test]
async fn a_cut_is_finished_wherever_it_stopped() {
    let mut world = World::new().await;
    let first = world.cut().await;
    assert!(!first.reused && first.base == first.head);
    // The origin moves on; the branch stays where it was cut.
    git(&world.origin, &["commit", "-q", "--allow-empty", "-m", "Later"]).await;
    let admin = world.store().join(ADMIN);
    type Undo<'a> = Box<dyn Fn() + 'a>;
    let undone: [(&str, Undo<'_>); 6] = [
        ("nothing", Box::new(|| {})),
        (
            "half the files, no index",
            Box::new(|| {
                fs::remove_file(first.tree_path.join("README.md")).unwrap();
                fs::remove_file(admin.join("index")).unwrap();
                fs::remove_file(admin.join("roboco-ready")).unwrap();
            }),
        ),
        ("no files", Box::new(|| fs::remove_dir_all(&first.tree_path).unwrap())),
        ("no administration", Box::new(|| fs::remove_dir_all(&admin).unwrap())),
        (
            "only the branch",
            Box::new(|| {
                fs::remove_dir_all(&admin).unwrap();
                fs::remove_dir_all(&first.tree_path).unwrap();
            }),
        ),
        ("no link", Box::new(|| fs::remove_file(first.tree_path.join(".git")).unwrap())),
    ];
    for (what, undo) in &undone {
        undo();
        let again = world.cut().await;
        assert_eq!(
            (&again.base, &again.head, &again.tree_path, again.reused),
            (&first.base, &first.head, &first.tree_path, true),
            "{what}"
        );
        let state = world.repos.tree_state(world.project, &leaf()).await.unwrap();
        assert_eq!((&state.head, state.dirty.len()), (&first.head, 0), "{what}");
        assert_eq!(git(&first.tree_path, &["status", "--porcelain"]).await, "", "{what}");
    }
    drop(undone);
    // Work that is under way survives another cut.
    write(&first.tree_path, "draft.txt", "mine\n");
    world.restart().await;
    world.cut().await;
    assert_eq!(fs::read_to_string(first.tree_path.join("draft.txt")).unwrap(), "mine\n");
}

#[tokio::test]
async fn a_tree_whose_files_were_lost_is_made_anew_and_never_a_commit_that_deletes_everything() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "mine.txt", "mine\n");
    let mine = world.commit("r1").await.oid;
    type Remake<'a> = Box<dyn Fn() + 'a>;
    let remade: [(&str, Remake<'_>); 3] = [
        ("no folder", Box::new(|| {})),
        ("a new folder", Box::new(|| fs::create_dir(&cut.tree_path).unwrap())),
        ("a new folder with places to mount on", Box::new(|| fs::create_dir_all(cut.tree_path.join("target/cache")).unwrap())),
    ];
    for (what, remake) in &remade {
        fs::remove_dir_all(&cut.tree_path).unwrap();
        remake();
        let error = world.repos.commit(&world.request("r2")).await.unwrap_err();
        assert!(matches!(&error, GitError::Refused(Refusal::NoTree(_))), "{what}: {error}");
        assert_eq!(world.cut().await.head, mine, "{what}");
        assert_eq!(fs::read_to_string(cut.tree_path.join("mine.txt")).unwrap(), "mine\n", "{what}");
        assert_eq!(world.repos.commit(&world.request("r2")).await.unwrap(), CommitOutcome::NothingToCommit, "{what}");
        assert_eq!(world.repos.branch_head(world.project, &leaf()).unwrap().as_ref(), Some(&mine), "{what}");
    }
    drop(remade);
    // Nothing is rescued from a tree that holds nothing.
    fs::remove_dir_all(&cut.tree_path).unwrap();
    fs::create_dir(&cut.tree_path).unwrap();
    let released = world.repos.release_tree(world.project, &TreeName::Branch(leaf()), Unsaved::Rescue).await.unwrap();
    assert_eq!(released, Released::default());
}

#[tokio::test]
async fn an_agent_that_deletes_its_git_file_keeps_its_work_and_one_that_deletes_its_files_may() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "draft.txt", "mine\n");
    fs::remove_file(cut.tree_path.join("src/greet.txt")).unwrap();
    fs::remove_file(cut.tree_path.join(".git")).unwrap();
    world.cut().await;
    assert_eq!(fs::read_to_string(cut.tree_path.join("draft.txt")).unwrap(), "mine\n");
    assert!(!cut.tree_path.join("src/greet.txt").exists(), "a deletion is work as well");
    for file in ["draft.txt", "README.md"] {
        fs::remove_file(cut.tree_path.join(file)).unwrap();
    }
    world.cut().await;
    assert_eq!(world.commit("r1").await.files.len(), 2);
}

#[tokio::test]
async fn a_merge_whose_tree_was_lost_is_begun_again_and_not_recorded_without_its_content() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "src/greet.txt", "one\nmine\nthree\n");
    world.commit("r1").await;
    write(&world.origin, "src/greet.txt", "one\ntheirs\nthree\n");
    write(&world.origin, "theirs.txt", "theirs\n");
    git(&world.origin, &["add", "-A"]).await;
    git(&world.origin, &["commit", "-q", "-m", "Theirs"]).await;
    let request = world.request("x");
    let sync =
        SyncRequest { project: world.project, branch: leaf(), target: main(), trailers: vec![], author: request.author, at: request.at };
    assert!(matches!(world.repos.sync_branch(&sync).await.unwrap(), SyncOutcome::Conflict(_)));
    fs::remove_dir_all(&cut.tree_path).unwrap();
    fs::create_dir(&cut.tree_path).unwrap();
    world.cut().await;
    assert_eq!(world.repos.tree_state(world.project, &leaf()).await.unwrap().merging, None);
    assert_eq!(world.repos.commit(&world.request("r2")).await.unwrap(), CommitOutcome::NothingToCommit);
    assert!(matches!(world.repos.sync_branch(&sync).await.unwrap(), SyncOutcome::Conflict(_)));
    assert!(cut.tree_path.join("theirs.txt").exists());
}

#[tokio::test]
async fn a_repeated_commit_finds_the_first_one() {
    let mut world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    let first = world.commit("r1").await;
    // The answer was lost, and the agent has already changed something else.
    write(&cut.tree_path, "b.txt", "b\n");
    assert_eq!(world.commit("r1").await, first);
    world.restart().await;
    assert_eq!(world.commit("r1").await, first, "also without memory");
    assert_ne!(world.commit("r2").await.oid, first.oid);
    assert_eq!(world.commit("r1").await, first, "also when it is not the last");
    assert_eq!(git(&world.store(), &["rev-list", "--count", &format!("{}..refs/heads/{}", cut.head, leaf())]).await, "2");
}

#[tokio::test]
async fn a_commit_that_stopped_before_its_index_does_not_undo_itself() {
    let mut world = World::new().await;
    let cut = world.cut().await;
    let admin = world.store().join(ADMIN);
    let old_index = fs::read(admin.join("index")).unwrap();
    write(&cut.tree_path, "a.txt", "a\n");
    let done = world.commit("r1").await;
    // As it was after the branch had moved: the new index still waits under its other name.
    fs::rename(admin.join("index"), admin.join("roboco-index")).unwrap();
    fs::write(admin.join("index"), old_index).unwrap();
    fs::write(admin.join("roboco-step"), format!("commit {}\n", done.oid)).unwrap();
    world.restart().await;
    write(&cut.tree_path, "b.txt", "b\n");
    let mut request = world.request("r2");
    request.paths = Some(vec!["b.txt".to_owned()]);
    let CommitOutcome::Committed(next) = world.repos.commit(&request).await.unwrap() else { panic!() };
    assert_eq!(next.files.len(), 1, "{:?}", next.files);
    assert!(!admin.join("roboco-step").exists());

    // As it was before the branch had moved: nothing happened.
    fs::write(admin.join("roboco-step"), format!("commit {}\n", "1".repeat(40))).unwrap();
    fs::write(admin.join("roboco-index"), "torn").unwrap();
    write(&cut.tree_path, "c.txt", "c\n");
    assert_eq!(world.commit("r3").await.files.len(), 1);
}

#[tokio::test]
async fn a_sync_that_stopped_is_finished_and_not_reversed() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "mine.txt", "mine\n");
    let mine = world.commit("r1").await;
    write(&world.origin, "theirs.txt", "theirs\n");
    git(&world.origin, &["add", "-A"]).await;
    git(&world.origin, &["commit", "-q", "-m", "Theirs"]).await;
    let request = world.request("x");
    let sync =
        SyncRequest { project: world.project, branch: leaf(), target: main(), trailers: vec![], author: request.author, at: request.at };
    let SyncOutcome::Merged(merge) = world.repos.sync_branch(&sync).await.unwrap() else { panic!() };
    let admin = world.store().join(ADMIN);
    // As it was when the branch had moved and the files had not.
    fs::write(admin.join("roboco-step"), format!("advance {} {merge}\n", mine.oid)).unwrap();
    git(&cut.tree_path, &["read-tree", "--reset", "-u", mine.oid.as_str()]).await;
    assert!(!cut.tree_path.join("theirs.txt").exists());
    assert_eq!(world.repos.sync_branch(&sync).await.unwrap(), SyncOutcome::UpToDate);
    assert!(cut.tree_path.join("theirs.txt").exists());
    assert!(world.repos.tree_state(world.project, &leaf()).await.unwrap().dirty.is_empty());
}

#[tokio::test]
async fn a_landing_whose_answer_was_lost_is_adopted() {
    let mut world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    let head = world.commit("r1").await.oid;
    let request = world.landing(&head);
    let Landing::Ready { base, commit, tree } = world.repos.prepare_landing(&request).await.unwrap() else { panic!() };
    assert_eq!(
        world.repos.prepare_landing(&request).await.unwrap(),
        Landing::Ready { base: base.clone(), commit: commit.clone(), tree: tree.clone() }
    );
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
    git(&world.origin, &["commit", "-q", "--allow-empty", "-m", "Later"]).await;
    world.restart().await;
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
    assert_eq!(world.repos.prepare_landing(&request).await.unwrap(), Landing::AlreadyLanded { commit, tree });
}

#[tokio::test]
async fn locks_of_dead_gits_are_cleared_and_young_ones_respected() {
    let mut world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    let lock = world.store().join("refs/heads/feature/backend/t1.lock");
    fs::write(&lock, "").unwrap();
    let error = world.repos.commit(&world.request("r1")).await.unwrap_err();
    assert!(error.is_retryable() && lock.exists(), "{error}");
    let age = |secs| {
        let times = FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(secs));
        OpenOptions::new().write(true).open(&lock).unwrap().set_times(times).unwrap();
    };
    age(3600);
    world.commit("r1").await;
    assert!(!lock.exists());
    fs::write(&lock, "").unwrap();
    age(3600);
    world.restart().await;
    assert!(!lock.exists());
}
