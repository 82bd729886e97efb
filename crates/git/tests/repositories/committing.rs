//! Committing a tree, and what is refused.

use std::ffi::OsStr;
use std::fs::{self, FileTimes, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use roboco_git::{CommitOutcome, CommitProblem, GitError, PathGlob, Refusal, SecretKind};

use crate::world::{PATH, World, git, leaf, open_with, write};

#[tokio::test]
async fn everything_in_the_tree_becomes_one_commit_in_the_agents_name() {
    let world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "src/greet.txt", "one\nTWO\nthree\nfour\n");
    write(&cut.tree_path, "src/new.txt", "new\n");
    fs::remove_file(cut.tree_path.join("README.md")).unwrap();
    let mut request = world.request("r1");
    request.body = "Because it is polite.\n\nTask: T-666".to_owned();
    let CommitOutcome::Committed(done) = world.repos.commit(&request).await.unwrap() else { panic!() };
    let names: Vec<String> = done.files.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["README.md", "src/greet.txt", "src/new.txt"]);
    assert_eq!((done.insertions, done.deletions), (3, 2));
    let shown = git(&world.store(), &["log", "-1", "--format=%an <%ae> %at|%cn <%ce>|%P|%T|%B", done.oid.as_str()]).await;
    let expected = format!(
        "Bea <be-dev-1@agents.invalid> 1700000000|RoboCo <roboco@agents.invalid>|{}|{}|[T-1] feat(greet): say hello to everybody\n\n\
         Because it is polite.\n\nTask: T-1\nAgent: be-dev-1\nRequest-Id: r1",
        cut.head, done.tree
    );
    assert_eq!(shown, expected);
    let state = world.repos.tree_state(world.project, &leaf()).await.unwrap();
    assert_eq!((state.head, state.tree, state.dirty), (done.oid, done.tree, vec![]));
    assert_eq!(world.repos.commit(&world.request("r2")).await.unwrap(), CommitOutcome::NothingToCommit);
    assert_eq!(git(&cut.tree_path, &["status", "--porcelain"]).await, "", "git in the tree agrees");
}

#[tokio::test]
async fn a_change_in_the_same_second_and_of_the_same_size_is_seen() {
    let world = World::new().await;
    let cut = world.cut().await;
    let file = cut.tree_path.join("src/greet.txt");
    write(&cut.tree_path, "src/greet.txt", "one\ntwo\nthr0e\n");
    world.commit("r0").await;
    // The second write leaves no trace in size or time; the commit comes when that second is over.
    let at = fs::metadata(&file).unwrap().modified().unwrap();
    write(&cut.tree_path, "src/greet.txt", "one\ntwo\nthr1e\n");
    OpenOptions::new().write(true).open(&file).unwrap().set_times(FileTimes::new().set_modified(at)).unwrap();
    let second = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let written = second(SystemTime::now());
    while second(SystemTime::now()) == written {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(world.commit("r1").await.files.len(), 1);
}

#[tokio::test]
async fn only_the_asked_paths_are_committed() {
    let world = World::new().await;
    let cut = world.cut().await;
    for file in ["a.txt", "dir/b.txt", "dir/c.txt", ":(glob)x", "*"] {
        write(&cut.tree_path, file, "text\n");
    }
    let mut request = world.request("r1");
    request.paths = Some(vec!["dir".to_owned(), ":(glob)x".to_owned(), "*".to_owned()]);
    let CommitOutcome::Committed(done) = world.repos.commit(&request).await.unwrap() else { panic!() };
    let names: Vec<String> = done.files.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["*", ":(glob)x", "dir/b.txt", "dir/c.txt"], "patterns are names");
    let dirty = world.repos.tree_state(world.project, &leaf()).await.unwrap().dirty;
    assert_eq!(dirty.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a.txt"]);

    write(&cut.tree_path, ".gitignore", "ignored.txt\n");
    write(&cut.tree_path, "ignored.txt", "x");
    for path in ["--all", "../x", ".git/config", ".GIT/hooks/a", "/etc/passwd", "missing.txt", "ignored.txt", ""] {
        request.paths = Some(vec![path.to_owned()]);
        request.key = "r2".to_owned();
        let problems = world.refused(&request).await;
        assert!(matches!(problems.as_slice(), [CommitProblem::BadPath { .. }]), "{path}: {problems:?}");
    }
    request.paths = Some(Vec::new());
    assert!(matches!(world.refused(&request).await.as_slice(), [CommitProblem::BadPath { .. }]));
    request.key = "not a key".to_owned();
    assert!(matches!(world.repos.commit(&request).await, Err(GitError::Refused(Refusal::Invalid(_)))));
}

#[tokio::test]
async fn secrets_are_refused_by_place_and_never_echoed() {
    let world = World::new().await;
    let cut = world.cut().await;
    let token = format!("ghp_{}", "a1B2c3D4e5f6".repeat(3));
    write(&cut.tree_path, "src/greet.txt", format!("one\ntwo\nthree\ntoken = {token}\n"));
    // Neither attributes nor a zero byte hide a file from the scan.
    write(&cut.tree_path, ".gitattributes", "*.dat binary -diff\n");
    write(&cut.tree_path, "x.dat", format!("\0\n{token}\n"));
    let before =
        fs::read(cut.tree_path.join("../../../repos").join(format!("{}.git/worktrees/feature+backend+t1/index", world.project))).unwrap();
    let mut request = world.request("r1");
    let problems = world.refused(&request).await;
    let [CommitProblem::Secret { path, line, kind, fingerprint }, CommitProblem::Secret { path: other, line: at, .. }] =
        problems.as_slice()
    else {
        panic!("{problems:?}")
    };
    assert_eq!(
        (path.to_string().as_str(), *line, *kind, other.to_string().as_str(), *at),
        ("src/greet.txt", 4, SecretKind::ForgeToken, "x.dat", 2)
    );
    assert!(!format!("{problems:?} {}", problems[0]).contains(&token[4..12]));

    let store = world.store();
    assert_eq!(fs::read(store.join("worktrees/feature+backend+t1/index")).unwrap(), before, "a refusal leaves the index alone");
    assert!(!store.join("worktrees/feature+backend+t1/roboco-index").exists());
    assert_eq!(world.repos.branch_head(world.project, &leaf()).unwrap(), Some(cut.head));
    request.waived = vec![fingerprint.clone()];
    assert!(matches!(world.repos.commit(&request).await.unwrap(), CommitOutcome::Committed(_)));

    // What was there before is nobody's fault now.
    write(&cut.tree_path, "src/greet.txt", format!("one\ntwo\nthree\ntoken = {token}\nfour\n"));
    world.commit("r2").await;
}

#[tokio::test]
async fn every_guard_names_its_path_and_a_grant_opens_one() {
    let world = World::new().await;
    let cut = world.cut().await;
    let tree = &cut.tree_path;
    write(tree, ".github/workflows/ci.yml", "on: push\n");
    write(tree, "big.bin", vec![7; 6 * 1024 * 1024]);
    write(tree, "web/.env", "A=1\n");
    symlink("/etc/passwd", tree.join("out")).unwrap();
    symlink("../../x", tree.join("src/up")).unwrap();
    symlink("greet.txt", tree.join("src/fine")).unwrap();
    git(tree, &["init", "-q", "nested"]).await;
    git(&tree.join("nested"), &["commit", "-q", "--allow-empty", "-m", "x"]).await;
    write(tree, "merge.txt", "a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n");
    write(tree, "titles.md", "Title\n=======\n\n<<<<<<< not a conflict\n");
    let mut request = world.request("r1");
    request.protect = [".github/workflows/**", "CODEOWNERS"].map(|glob| PathGlob::new(glob).unwrap()).to_vec();
    let said: Vec<String> = world.refused(&request).await.iter().map(ToString::to_string).collect();
    for (n, start) in [
        ".github/workflows/ci.yml is protected by `.github/workflows/**`",
        "big.bin has 6291456 bytes",
        "nested is a repository of its own",
        "web/.env does not belong",
        "merge.txt:2 still has conflict markers",
        "out is a link that leads out",
        "src/up is a link that leads out",
    ]
    .iter()
    .enumerate()
    {
        assert!(said.get(n).is_some_and(|text| text.starts_with(start)), "{start}: {said:#?}");
    }
    assert_eq!(said.len(), 7, "{said:#?}");

    for away in ["big.bin", "web/.env", "out", "src/up", "merge.txt"] {
        fs::remove_file(tree.join(away)).unwrap();
    }
    fs::remove_dir_all(tree.join("nested")).unwrap();
    request.granted = vec![PathGlob::new(".github/workflows/ci.yml").unwrap()];
    let CommitOutcome::Committed(done) = world.repos.commit(&request).await.unwrap() else { panic!() };
    assert_eq!(done.files.len(), 3, "{:?}", done.files);
    fs::remove_file(tree.join(".github/workflows/ci.yml")).unwrap();
    request.key = "r2".to_owned();
    request.granted.clear();
    assert!(matches!(world.refused(&request).await.as_slice(), [CommitProblem::Protected { .. }]), "removing is changing");
}

#[tokio::test]
async fn a_file_made_small_after_it_was_stored_is_still_too_large() {
    let mut world = World::new().await;
    let cut = world.cut().await;
    write(&cut.tree_path, "big.bin", vec![7; 6 * 1024 * 1024]);
    // A git that lets the file shrink as soon as it is stored, as an agent that watches for it could.
    let bin = world.dir.path().join("bin");
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in write-tree) : > '{}';; esac\nPATH={PATH}\nexec git \"$@\"\n",
        cut.tree_path.join("big.bin").display()
    );
    write(&bin, "git", script);
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    world.repos = open_with(&world.dir.path().join("data"), &format!("{}:{PATH}", bin.display())).await;
    let problems = world.refused(&world.request("r1")).await;
    assert_eq!(fs::metadata(cut.tree_path.join("big.bin")).unwrap().len(), 0, "the story did not happen");
    assert!(matches!(problems.as_slice(), [CommitProblem::TooLarge { bytes: 6_291_456, .. }]), "{problems:?}");
}

#[tokio::test]
async fn names_that_are_no_text_are_bytes_inside_and_escaped_outside() {
    let world = World::new().await;
    let cut = world.cut().await;
    fs::write(cut.tree_path.join(OsStr::from_bytes(b"caf\xe9 \x1b[31m.txt")), "x\n").unwrap();
    let dirty = world.repos.tree_state(world.project, &leaf()).await.unwrap().dirty;
    assert_eq!(dirty[0].as_bytes(), b"caf\xe9 \x1b[31m.txt");
    let done = world.commit("r1").await;
    assert_eq!(done.files[0].to_string(), "caf\\xe9 \\u{1b}[31m.txt");
    let diff = world.repos.diff(world.project, &cut.head, &done.oid, 10_000).await.unwrap();
    assert_eq!(diff.files[0].path, done.files[0]);
    assert!(!diff.text.contains('\x1b') && !diff.stat.contains('\x1b'));
    let read = world.repos.read_file(world.project, &done.oid, &done.files[0], 100).await.unwrap();
    assert_eq!(read.as_deref(), Some(&b"x\n"[..]));
}

#[tokio::test]
async fn a_line_of_ten_megabytes_is_refused_quickly_and_shown_shortly() {
    let world = World::new().await;
    write(&world.origin, "min.js", "x".repeat(10_000_000));
    git(&world.origin, &["add", "-A"]).await;
    git(&world.origin, &["commit", "-q", "-m", "Minified"]).await;
    let cut = world.cut().await;
    let base = git(&world.origin, &["rev-parse", "main~"]).await;
    let diff = world.repos.diff(world.project, &roboco_domain::vcs::Oid::new(base).unwrap(), &cut.head, 20_000).await.unwrap();
    assert!(diff.truncated && diff.text.len() < 3000, "{}", diff.text.len());
    assert_eq!(diff.stat, "min.js  +1 -0\n1 files, +1 -0");
    write(&cut.tree_path, "min.js", "y".repeat(10_000_000));
    assert!(matches!(world.refused(&world.request("r1")).await.as_slice(), [CommitProblem::TooLarge { .. }]));
}
