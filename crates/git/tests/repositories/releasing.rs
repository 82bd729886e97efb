//! Taking trees and branches away without losing anything.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, SystemTime};

use roboco_git::{Ended, Released, TreeName, Unsaved};

use crate::world::{World, git, leaf, write};

#[tokio::test]
async fn unsaved_work_is_in_a_ref_before_the_tree_goes() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "src/greet.txt", "changed\n");
    write(&cut.tree_path, "new.txt", "untracked\n");
    write(&cut.tree_path, ".gitignore", "build/\n");
    write(&cut.tree_path, "build/out.o", "ignored");
    let name = TreeName::Branch(leaf());
    let released = world.repos.release_tree(world.project, &name, Unsaved::Rescue).await.unwrap();
    assert_eq!((released.rescued.len(), &released.kept_at), (1, &None));
    let files = git(&world.store(), &["ls-tree", "-r", "--name-only", &released.rescued[0]]).await;
    assert_eq!(files, ".gitignore\nREADME.md\nnew.txt\nsrc/greet.txt");
    assert_eq!(git(&world.store(), &["show", &format!("{}:src/greet.txt", released.rescued[0])]).await, "changed");
    assert!(!cut.tree_path.exists() && !world.store().join("worktrees/feature+backend+t1").exists());
    assert_eq!(world.repos.branch_head(world.project, &leaf()).unwrap(), Some(cut.head.clone()));
    assert_eq!(world.repos.release_tree(world.project, &name, Unsaved::Rescue).await.unwrap(), Released::default());
    let again = world.cut().await;
    assert!(again.reused && !again.tree_path.join("new.txt").exists());
}

#[tokio::test]
async fn nothing_outside_the_tree_is_deleted() {
    let world = World::new().await;
    let cut = world.cut().await;
    let outside = world.dir.path().join("outside");
    write(&outside, "precious.txt", "precious");
    symlink(&outside, cut.tree_path.join("link")).unwrap();
    write(&cut.tree_path, "locked/deep/file.txt", "x");
    fs::set_permissions(cut.tree_path.join("locked/deep"), fs::Permissions::from_mode(0o555)).unwrap();
    let released = world.repos.release_tree(world.project, &TreeName::Branch(leaf()), Unsaved::Rescue).await.unwrap();
    assert_eq!(released.kept_at, None);
    assert_eq!(fs::read_to_string(outside.join("precious.txt")).unwrap(), "precious");
    assert_eq!(fs::read_dir(world.dir.path().join("data/trash")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_repository_inside_the_tree_stays_in_the_trash_until_its_time_is_over() {
    let world = World::new().await;
    let cut = world.cut().await;
    let nested = cut.tree_path.join("nested");
    fs::create_dir(&nested).unwrap();
    git(&nested, &["init", "-q"]).await;
    write(&nested, "work.txt", "hours of it\n");
    git(&nested, &["add", "-A"]).await;
    git(&nested, &["commit", "-q", "-m", "x"]).await;
    let released = world.repos.release_tree(world.project, &TreeName::Branch(leaf()), Unsaved::Rescue).await.unwrap();
    let kept = released.kept_at.unwrap();
    assert_eq!(fs::read_to_string(kept.join("nested/work.txt")).unwrap(), "hours of it\n");
    let (month, now) = (Duration::from_secs(30 * 86_400), SystemTime::now());
    assert_eq!(world.repos.empty_trash(month, now).await.unwrap(), 0);
    assert_eq!(world.repos.empty_trash(month, now + month + month).await.unwrap(), 1);
    assert!(!kept.exists());
}

#[tokio::test]
async fn a_removed_branch_keeps_its_commits_for_a_while() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    let head = world.commit("r1").await.oid;
    write(&cut.tree_path, "b.txt", "b\n");
    let ended = world.repos.remove_branch(world.project, &leaf()).await.unwrap();
    let tip_at = ended.tip_at.unwrap();
    assert_eq!(git(&world.store(), &["rev-parse", &tip_at]).await, head.as_str());
    assert_eq!(ended.released.rescued.len(), 1);
    assert_eq!(world.repos.branch_head(world.project, &leaf()).unwrap(), None);
    assert_eq!(world.repos.remove_branch(world.project, &leaf()).await.unwrap(), Ended::default());
    let (month, now) = (Duration::from_secs(30 * 86_400), SystemTime::now());
    assert_eq!(world.repos.forget_rescues(world.project, month, now).await.unwrap(), 0);
    assert_eq!(world.repos.forget_rescues(world.project, month, now + month + month).await.unwrap(), 2);
    let left = git(&world.store(), &["for-each-ref", "--format=%(refname)", "refs/roboco", "refs/heads"]).await;
    assert_eq!(left, "");
    // The name is free again.
    assert!(!world.cut().await.reused);
}

#[tokio::test]
async fn commits_made_by_hand_in_a_detached_tree_are_kept_even_when_changes_are_thrown_away() {
    let world = World::new().await;
    let cut = world.cut().await;
    let tree = world.repos.review_tree(world.project, "qa-1", &cut.head).await.unwrap();
    write(&tree, "found.txt", "a bug\n");
    git(&tree, &["add", "-A"]).await;
    git(&tree, &["commit", "-q", "-m", "By hand"]).await;
    write(&tree, "scratch.txt", "thrown away\n");
    let released = world.repos.release_tree(world.project, &TreeName::review("qa-1").unwrap(), Unsaved::Discard).await.unwrap();
    assert_eq!(released.rescued.len(), 1);
    assert_eq!(git(&world.store(), &["log", "-1", "--format=%s", &released.rescued[0]]).await, "By hand");
    assert!(!tree.exists());
}
