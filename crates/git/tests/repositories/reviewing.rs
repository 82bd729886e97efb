//! What reviewers and gates get to see.

use std::fs;

use roboco_domain::vcs::Oid;
use roboco_git::{CommitOutcome, Freshness, GitError, Refusal, RepoPath};

use crate::world::{World, git, leaf, main, write};

#[tokio::test]
async fn a_pin_names_base_head_and_merged_tree() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    let head = world.commit("r1").await.oid;
    write(&world.origin, "b.txt", "b\n");
    git(&world.origin, &["add", "-A"]).await;
    git(&world.origin, &["commit", "-q", "-m", "B"]).await;
    let tip = git(&world.origin, &["rev-parse", "main"]).await;
    let cached = world.repos.pin(world.project, &main(), &head, Freshness::Cached).await.unwrap();
    assert_eq!(cached.pin.base, cut.base, "a cached answer is the old one");
    let fresh = world.repos.pin(world.project, &main(), &head, Freshness::Fetch).await.unwrap();
    assert_eq!((fresh.pin.base.as_str(), &fresh.pin.head, fresh.conflicts.len()), (tip.as_str(), &head, 0));
    let files = git(&world.store(), &["ls-tree", "-r", "--name-only", fresh.pin.merge_tree.unwrap().as_str()]).await;
    assert_eq!(files, "README.md\na.txt\nb.txt\nsrc/greet.txt");
    assert!(!world.repos.is_up_to_date(world.project, &leaf(), &main()).await.unwrap());

    write(&world.origin, "a.txt", "other\n");
    git(&world.origin, &["add", "-A"]).await;
    git(&world.origin, &["commit", "-q", "-m", "A"]).await;
    let clash = world.repos.pin(world.project, &main(), &head, Freshness::Fetch).await.unwrap();
    assert_eq!(clash.pin.merge_tree, None);
    assert_eq!(clash.conflicts.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.txt"]);
    let missing = Oid::new("1".repeat(40)).unwrap();
    let error = world.repos.pin(world.project, &main(), &missing, Freshness::Cached).await.unwrap_err();
    assert!(matches!(error, GitError::Refused(Refusal::NoCommit(_))), "{error}");
}

#[tokio::test]
async fn a_review_tree_is_detached_and_reaches_no_branch() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    let head = world.commit("r1").await.oid;
    let tree = world.repos.review_tree(world.project, "T-1-qa-1", &head).await.unwrap();
    assert_eq!(git(&tree, &["rev-parse", "HEAD"]).await, head.as_str());
    assert_eq!(git(&tree, &["branch", "--show-current"]).await, "");
    write(&tree, "a.txt", "what a test wrote\n");
    assert_eq!(world.repos.review_tree(world.project, "T-1-qa-1", &head).await.unwrap(), tree);
    assert_eq!(fs::read_to_string(tree.join("a.txt")).unwrap(), "what a test wrote\n", "asking again changes nothing");
    assert_eq!(world.repos.branch_head(world.project, &leaf()).unwrap(), Some(head));
    assert!(world.repos.tree_state(world.project, &leaf()).await.unwrap().dirty.is_empty());
    world.repos.review_tree(world.project, "T-1-qa-1", &cut.head).await.unwrap();
    assert!(!tree.join("a.txt").exists(), "another commit makes a fresh tree");
    let missing = Oid::new("1".repeat(40)).unwrap();
    let error = world.repos.review_tree(world.project, "T-1-qa-2", &missing).await.unwrap_err();
    assert!(matches!(error, GitError::Refused(Refusal::NoCommit(_))), "{error}");
}

#[tokio::test]
async fn an_export_is_the_exact_commit_and_appears_whole() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "a.txt", "a\n");
    let head = world.commit("r1").await.oid;
    write(&cut.tree_path, "a.txt", "not committed\n");
    let dest = world.repos.export_path(world.project, "T-1 gate/../x");
    world.repos.export(world.project, &head, &dest).await.unwrap();
    assert_eq!(fs::read_to_string(dest.join("a.txt")).unwrap(), "a\n");
    assert!(!dest.join(".git").exists());
    let exists = world.repos.export(world.project, &head, &dest).await.unwrap_err();
    assert!(matches!(exists, GitError::Refused(Refusal::Exists(_))));
    for bad in [world.origin.clone(), dest.join("../../../trees/x"), world.dir.path().join("data/exports")] {
        assert!(matches!(world.repos.export(world.project, &head, &bad).await, Err(GitError::Refused(Refusal::Invalid(_)))), "{bad:?}");
        assert!(world.repos.remove_export(&bad).await.is_err());
    }
    let other = world.repos.export_path(world.project, "none");
    let error = world.repos.export(world.project, &Oid::new("1".repeat(40)).unwrap(), &other).await.unwrap_err();
    assert!(matches!(error, GitError::Refused(Refusal::NoCommit(_))), "{error}");
    assert_eq!(fs::read_dir(dest.parent().unwrap()).unwrap().count(), 1, "a failed export leaves nothing");
    world.repos.remove_export(&dest).await.unwrap();
    world.repos.remove_export(&dest).await.unwrap();
    assert!(!dest.exists());
}

#[tokio::test]
async fn a_diff_shows_what_the_branch_added_and_is_cut_honestly() {
    let world = World::new().await;
    let cut = world.cut().await;
    git(&cut.tree_path, &["mv", "README.md", "READ.md"]).await;
    write(&cut.tree_path, "logo.png", b"\x89PNG\0\0\xff");
    write(&cut.tree_path, "src/greet.txt", "one\n2\nthree\n");
    let head = world.commit("r1").await.oid;
    git(&world.origin, &["commit", "-q", "--allow-empty", "-m", "Unrelated"]).await;
    let base = world.repos.pin(world.project, &main(), &head, Freshness::Fetch).await.unwrap().pin.base;
    let diff = world.repos.diff(world.project, &base, &head, 20_000).await.unwrap();
    assert_eq!(diff.stat, "READ.md (was README.md)  +0 -0\nlogo.png  binary\nsrc/greet.txt  +1 -1\n3 files, +1 -1");
    assert!(diff.text.contains("-two\n+2\n") && diff.text.contains("Binary files /dev/null and b/logo.png differ") && !diff.truncated);
    let short = world.repos.diff(world.project, &base, &head, 100).await.unwrap();
    assert_eq!((short.text.chars().count(), short.truncated, short.files), (100, true, diff.files));
    let same = world.repos.diff(world.project, &head, &head, 100).await.unwrap();
    assert_eq!((same.text.as_str(), same.stat.as_str(), same.truncated), ("", "0 files, +0 -0", false));

    let commits = world.repos.commits(world.project, &cut.base, &head).await.unwrap();
    assert_eq!(commits.len(), 1);
    assert_eq!(
        (commits[0].author.as_str(), commits[0].parents.as_slice(), commits[0].at.millis()),
        ("Bea", &[cut.base][..], 1_700_000_000_000)
    );
    let missing = RepoPath::parse("no/such.txt").unwrap();
    assert_eq!(world.repos.read_file(world.project, &head, &missing, 100).await.unwrap(), None);
}

#[tokio::test]
async fn lfs_pointers_are_ordinary_text() {
    let world = World::new().await;
    write(&world.origin, ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
    write(&world.origin, "a.bin", pointer);
    git(&world.origin, &["add", "-A"]).await;
    git(&world.origin, &["commit", "-q", "-m", "LFS"]).await;
    let cut = world.cut().await;
    assert_eq!(fs::read_to_string(cut.tree_path.join("a.bin")).unwrap(), pointer);
    write(&cut.tree_path, "a.bin", pointer.replace("12345", "54321"));
    assert!(matches!(world.repos.commit(&world.request("r1")).await.unwrap(), CommitOutcome::Committed(_)));
}
