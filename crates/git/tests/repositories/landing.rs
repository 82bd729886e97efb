//! Landing on the origin: what moves, what is refused, and that nothing moves before.

use std::fs;
use std::time::{Duration, Instant};

use roboco_domain::effect::TreeFor;
use roboco_domain::vcs::Oid;
use roboco_git::{Landing, Method, PushRefusal, Pushed};

use crate::world::{World, at_origin, branch, git, in_store, leaf, main, make_origin, write};

/// A world whose leaf has one commit, and a landing that is ready.
async fn ready(world: &World) -> (Oid, Oid, Oid) {
    let cut = world.cut().await;
    write(&cut.tree_path, "src/greet.txt", "one\ntwo\nthree\nfour\n");
    write(&cut.tree_path, "hello.txt", "hello\n");
    let head = world.commit("r1").await.oid;
    match world.repos.prepare_landing(&world.landing(&head)).await.unwrap() {
        Landing::Ready { base, commit, .. } => (head, base, commit),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nothing_at_the_origin_changes_before_the_push_and_then_branch_and_files_do() {
    let world = World::empty().await;
    make_origin(&world.origin).await;
    let before = world.origin_as_it_is();
    world.add().await;
    let (head, base, commit) = ready(&world).await;
    assert!(world.origin_as_it_is() == before);
    write(&world.origin, "notes.txt", "untracked, mine\n");
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
    assert_eq!(git(&world.origin, &["rev-parse", "main"]).await, commit.as_str());
    assert_eq!(git(&world.origin, &["status", "--porcelain"]).await, "?? notes.txt");
    assert_eq!(fs::read_to_string(world.origin.join("hello.txt")).unwrap(), "hello\n");
    assert_eq!(fs::read_to_string(world.origin.join("notes.txt")).unwrap(), "untracked, mine\n");
    let shown = git(&world.origin, &["log", "-1", "--format=%P|%an <%ae>|%cn|%B"]).await;
    let text = "Merge T-1: say hello\n\nTask: T-1\nApproved-by: CEO";
    assert_eq!(shown, format!("{base} {head}|CEO <ceo@agents.invalid>|RoboCo|{text}"));
    assert_eq!(git(&world.origin, &["for-each-ref", "--format=%(refname)"]).await, "refs/heads/main", "no other ref appears there");
}

#[tokio::test]
async fn a_dirty_checkout_is_refused_and_left_as_it_was() {
    let world = World::new().await;
    let (_, base, commit) = ready(&world).await;
    for (what, file, text) in [("unstaged", "README.md", "mine\n"), ("staged", "README.md", "mine too\n")] {
        write(&world.origin, file, text);
        if what == "staged" {
            git(&world.origin, &["add", "-A"]).await;
        }
        let Pushed::Refused(refusal) = world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap() else {
            panic!("{what}")
        };
        assert_eq!(refusal.to_string(), "your checkout has uncommitted changes (README.md): commit or stash them, then approve again");
        assert_eq!(git(&world.origin, &["rev-parse", "main"]).await, base.as_str());
        assert_eq!(fs::read_to_string(world.origin.join(file)).unwrap(), text);
        assert!(!world.origin.join("hello.txt").exists());
    }
    git(&world.origin, &["stash", "-q"]).await;
    write(&world.origin, "hello.txt", "in the way\n");
    let pushed = world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap();
    let Pushed::Refused(PushRefusal::InTheWay { paths }) = pushed else { panic!("{pushed:?}") };
    assert_eq!(paths.iter().map(ToString::to_string).collect::<Vec<_>>(), ["hello.txt"]);
    assert_eq!(fs::read_to_string(world.origin.join("hello.txt")).unwrap(), "in the way\n");
    assert_eq!(git(&world.origin, &["rev-parse", "main"]).await, base.as_str());
    fs::remove_file(world.origin.join("hello.txt")).unwrap();
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
}

#[tokio::test]
async fn a_branch_that_is_not_checked_out_moves_alone() {
    let world = World::new().await;
    let (_, base, commit) = ready(&world).await;
    git(&world.origin, &["checkout", "-q", "-b", "mine"]).await;
    write(&world.origin, "README.md", "dirty, but elsewhere\n");
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
    assert_eq!(git(&world.origin, &["rev-parse", "main"]).await, commit.as_str());
    assert_eq!(git(&world.origin, &["status", "--porcelain"]).await, " M README.md");
    assert!(!world.origin.join("hello.txt").exists());
}

#[tokio::test]
async fn a_bare_origin_moves_its_branch() {
    let mut world = World::empty().await;
    let source = world.origin.with_file_name("source");
    make_origin(&source).await;
    world.origin = world.origin.with_file_name("bare.git");
    git(&source, &["clone", "-q", "--bare", ".", world.origin.to_str().unwrap()]).await;
    world.add().await;
    let (_, base, commit) = ready(&world).await;
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
    assert_eq!(git(&world.origin, &["rev-parse", "main"]).await, commit.as_str());
}

#[tokio::test]
async fn a_moved_target_is_noticed_forwards_and_backwards() {
    let world = World::new().await;
    git(&world.origin, &["commit", "-q", "--allow-empty", "-m", "Second"]).await;
    let (head, base, commit) = ready(&world).await;
    git(&world.origin, &["commit", "-q", "--allow-empty", "-m", "Meanwhile"]).await;
    let moved = git(&world.origin, &["rev-parse", "main"]).await;
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Moved);
    assert_eq!(git(&world.origin, &["rev-parse", "main"]).await, moved);
    git(&world.origin, &["reset", "-q", "--hard", "HEAD~2"]).await;
    assert_eq!(
        world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(),
        Pushed::Moved,
        "a commit that was taken back does not return"
    );
    let Landing::Ready { base, commit, .. } = world.repos.prepare_landing(&world.landing(&head)).await.unwrap() else { panic!() };
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
}

#[tokio::test]
async fn a_conflict_names_its_paths_and_changes_nothing() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "src/greet.txt", "one\nmine\nthree\n");
    let head = world.commit("r1").await.oid;
    write(&world.origin, "src/greet.txt", "one\ntheirs\nthree\n");
    git(&world.origin, &["commit", "-q", "-a", "-m", "Theirs"]).await;
    let tip = git(&world.origin, &["rev-parse", "main"]).await;
    let Landing::Conflict { base, paths } = world.repos.prepare_landing(&world.landing(&head)).await.unwrap() else { panic!() };
    assert_eq!((base.as_str(), paths[0].to_string().as_str(), paths.len()), (tip.as_str(), "src/greet.txt", 1));
    assert_eq!(git(&world.origin, &["rev-parse", "main"]).await, tip);
}

#[tokio::test]
async fn a_squash_has_one_parent_and_is_adopted_too() {
    let world = World::new().await;
    let (head, base, _) = ready(&world).await;
    let mut request = world.landing(&head);
    request.method = Method::Squash;
    let Landing::Ready { commit, tree, .. } = world.repos.prepare_landing(&request).await.unwrap() else { panic!() };
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
    assert_eq!(git(&world.origin, &["log", "-1", "--format=%P", "main"]).await, base.as_str());
    assert_eq!(world.repos.prepare_landing(&request).await.unwrap(), Landing::AlreadyLanded { commit, tree });
}

#[tokio::test]
async fn another_tasks_merge_of_the_same_commit_is_not_adopted() {
    let world = World::new().await;
    let (head, base, commit) = ready(&world).await;
    world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap();
    let mut other = world.landing(&head);
    other.trailers = vec![roboco_git::Trailer::new("Task", "T-2")];
    assert!(matches!(world.repos.prepare_landing(&other).await.unwrap(), Landing::Ready { .. }));
}

#[tokio::test]
async fn work_lands_on_a_parents_branch_with_its_tree() {
    let world = World::new().await;
    let parent = branch("feature/main_pm/t9");
    let on_parent = in_store(&parent);
    let origin = world.origin_as_it_is();
    let above = world.repos.cut_branch(world.project, &parent, &main(), TreeFor::Author).await.unwrap();
    let cut = world.repos.cut_branch(world.project, &leaf(), &on_parent, TreeFor::Author).await.unwrap();
    assert_eq!(cut.base, above.head);
    write(&cut.tree_path, "hello.txt", "hello\n");
    let head = world.commit("r1").await.oid;
    let mut request = world.landing(&head);
    request.target = on_parent.clone();
    let Landing::Ready { base, commit, .. } = world.repos.prepare_landing(&request).await.unwrap() else { panic!() };
    write(&above.tree_path, "draft.txt", "x");
    let pushed = world.repos.push_landing(world.project, &on_parent, &commit, &base).await.unwrap();
    assert!(matches!(pushed, Pushed::Refused(PushRefusal::DirtyCheckout { .. })), "{pushed:?}");
    fs::remove_file(above.tree_path.join("draft.txt")).unwrap();
    assert_eq!(world.repos.push_landing(world.project, &on_parent, &commit, &base).await.unwrap(), Pushed::Landed);
    assert_eq!(world.repos.push_landing(world.project, &on_parent, &commit, &base).await.unwrap(), Pushed::Landed);
    assert_eq!(world.repos.branch_head(world.project, &parent).unwrap(), Some(commit.clone()));
    assert_eq!(fs::read_to_string(above.tree_path.join("hello.txt")).unwrap(), "hello\n");
    assert!(world.repos.tree_state(world.project, &parent).await.unwrap().dirty.is_empty());
    assert_eq!(
        world.repos.push_landing(world.project, &on_parent, &base, &head).await.unwrap(),
        Pushed::Landed,
        "what it holds has landed"
    );
    assert_eq!(
        world
            .repos
            .push_landing(
                world.project,
                &on_parent,
                &Oid::new(git(&world.store(), &["commit-tree", "-p", head.as_str(), "-m", "x", &format!("{head}^{{tree}}")]).await)
                    .unwrap(),
                &head
            )
            .await
            .unwrap(),
        Pushed::Moved
    );
    assert!(world.origin_as_it_is() == origin);
}

#[tokio::test]
async fn a_target_that_is_gone_is_named() {
    let world = World::new().await;
    let gone = at_origin("release/9");
    let error = world.repos.cut_branch(world.project, &leaf(), &gone, TreeFor::Author).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no branch release/9 at the origin: create it there, or choose another branch");
    assert!(!error.is_retryable());
    // A branch that became a folder of branches does not block the new ones.
    git(&world.origin, &["branch", "release"]).await;
    world.repos.cut_branch(world.project, &branch("x"), &at_origin("release"), TreeFor::Author).await.unwrap();
    git(&world.origin, &["branch", "-D", "release"]).await;
    git(&world.origin, &["branch", "release/9"]).await;
    world.repos.cut_branch(world.project, &leaf(), &gone, TreeFor::Author).await.unwrap();
}

#[tokio::test]
async fn a_landing_that_nobody_waits_for_is_still_whole() {
    let world = World::new().await;
    let cut = world.cut().await;
    for n in 0..200 {
        write(&cut.tree_path, &format!("many/{n}.txt"), format!("{n}\n"));
    }
    let head = world.commit("r1").await.oid;
    let Landing::Ready { base, commit, .. } = world.repos.prepare_landing(&world.landing(&head)).await.unwrap() else { panic!() };
    // The caller gives up the moment it has begun.
    let target = main();
    let push = world.repos.push_landing(world.project, &target, &commit, &base);
    assert!(tokio::time::timeout(Duration::from_millis(5), push).await.is_err());
    let started = Instant::now();
    while git(&world.origin, &["rev-parse", "main"]).await != commit.as_str() {
        assert!(started.elapsed() < Duration::from_secs(30), "the push was torn off");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(git(&world.origin, &["status", "--porcelain"]).await, "");
    assert_eq!(world.repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
}
