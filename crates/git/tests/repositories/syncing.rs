//! Bringing the target's commits into a branch.

use std::fs;

use roboco_git::{CommitProblem, GitError, Refusal, SyncOutcome, SyncRequest, Trailer};

use crate::world::{World, git, leaf, main, write};

fn sync(world: &World) -> SyncRequest {
    let request = world.request("unused");
    SyncRequest {
        project: world.project,
        branch: leaf(),
        target: main(),
        trailers: vec![Trailer::new("Task", "T-1")],
        author: request.author,
        at: request.at,
    }
}

async fn at_origin(world: &World, file: &str, text: &str) {
    write(&world.origin, file, text);
    git(&world.origin, &["add", "-A"]).await;
    git(&world.origin, &["commit", "-q", "-m", "Theirs"]).await;
}

#[tokio::test]
async fn a_clean_sync_is_a_merge_that_keeps_the_branchs_commits() {
    let world = World::new().await;
    let cut = world.cut().await;
    assert_eq!(world.repos.sync_branch(&sync(&world)).await.unwrap(), SyncOutcome::UpToDate);
    write(&cut.tree_path, "mine.txt", "mine\n");
    let mine = world.commit("r1").await.oid;
    at_origin(&world, "theirs.txt", "theirs\n").await;
    let theirs = git(&world.origin, &["rev-parse", "main"]).await;
    write(&cut.tree_path, "draft.txt", "draft\n");
    let error = world.repos.sync_branch(&sync(&world)).await.unwrap_err();
    assert!(matches!(error, GitError::Refused(Refusal::DirtyTree { .. })), "{error}");
    assert!(error.to_string().contains("(draft.txt): commit them first"), "{error}");
    fs::remove_file(cut.tree_path.join("draft.txt")).unwrap();
    let SyncOutcome::Merged(merge) = world.repos.sync_branch(&sync(&world)).await.unwrap() else { panic!() };
    assert_eq!(git(&world.store(), &["log", "-1", "--format=%P", merge.as_str()]).await, format!("{mine} {theirs}"));
    let state = world.repos.tree_state(world.project, &leaf()).await.unwrap();
    assert_eq!((state.head, state.dirty.len()), (merge, 0));
    assert_eq!(fs::read_to_string(cut.tree_path.join("theirs.txt")).unwrap(), "theirs\n");
    assert_eq!(world.repos.sync_branch(&sync(&world)).await.unwrap(), SyncOutcome::UpToDate);
    assert!(world.repos.is_up_to_date(world.project, &leaf(), &main()).await.unwrap());
}

#[tokio::test]
async fn a_conflict_is_shown_resolved_and_becomes_the_merge() {
    let mut world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "src/greet.txt", "one\nmine\nthree\n");
    let mine = world.commit("r1").await.oid;
    // What comes in with the merge was judged where it came from: a secret there is not this author's.
    let token = format!("ghp_{}", "a1B2c3D4e5f6".repeat(3));
    at_origin(&world, "theirs.txt", &format!("{token}\n")).await;
    at_origin(&world, "src/greet.txt", "one\ntheirs\nthree\n").await;
    let theirs = git(&world.origin, &["rev-parse", "main"]).await;
    for round in 0..2 {
        let SyncOutcome::Conflict(paths) = world.repos.sync_branch(&sync(&world)).await.unwrap() else { panic!() };
        assert_eq!(paths.iter().map(ToString::to_string).collect::<Vec<_>>(), ["src/greet.txt"], "round {round}");
        world.restart().await;
    }
    let shown = fs::read_to_string(cut.tree_path.join("src/greet.txt")).unwrap();
    assert!(shown.contains("<<<<<<< ") && shown.contains("mine\n=======\ntheirs\n>>>>>>> "), "{shown}");
    assert_eq!(world.repos.branch_head(world.project, &leaf()).unwrap(), Some(mine.clone()));
    let state = world.repos.tree_state(world.project, &leaf()).await.unwrap();
    assert_eq!(state.merging.unwrap().as_str(), theirs);

    let problems = world.refused(&world.request("r2")).await;
    assert!(matches!(problems.as_slice(), [CommitProblem::ConflictMarkers { line: 2, .. }]), "{problems:?}");
    write(&cut.tree_path, "src/greet.txt", "one\nboth\nthree\n");
    let done = world.commit("r2").await;
    assert_eq!(git(&world.store(), &["log", "-1", "--format=%P", done.oid.as_str()]).await, format!("{mine} {theirs}"));
    let state = world.repos.tree_state(world.project, &leaf()).await.unwrap();
    assert_eq!((state.merging, state.dirty.len()), (None, 0));
    assert_eq!(world.repos.sync_branch(&sync(&world)).await.unwrap(), SyncOutcome::UpToDate);
    // The next commit is an ordinary one again.
    write(&cut.tree_path, "more.txt", "x\n");
    let next = world.commit("r3").await;
    assert_eq!(git(&world.store(), &["log", "-1", "--format=%P", next.oid.as_str()]).await, done.oid.as_str());
}

#[tokio::test]
async fn a_conflict_can_be_given_up() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "src/greet.txt", "one\nmine\nthree\n");
    let mine = world.commit("r1").await.oid;
    at_origin(&world, "src/greet.txt", "one\ntheirs\nthree\n").await;
    assert_eq!(world.repos.abort_sync(world.project, &leaf()).await.unwrap(), None);
    assert!(matches!(world.repos.sync_branch(&sync(&world)).await.unwrap(), SyncOutcome::Conflict(_)));
    write(&cut.tree_path, "half.txt", "half resolved\n");
    let kept = world.repos.abort_sync(world.project, &leaf()).await.unwrap().unwrap();
    assert_eq!(git(&world.store(), &["show", &format!("{kept}:half.txt")]).await, "half resolved");
    let state = world.repos.tree_state(world.project, &leaf()).await.unwrap();
    assert_eq!((state.head, state.merging, state.dirty.len()), (mine, None, 0));
    assert_eq!(fs::read_to_string(cut.tree_path.join("src/greet.txt")).unwrap(), "one\nmine\nthree\n");
    assert!(!cut.tree_path.join("half.txt").exists());
}
