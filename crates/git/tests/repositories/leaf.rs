//! One leaf task from cut to clean-up, and how many git processes it takes.

use std::time::Duration;

use roboco_domain::effect::TreeFor;
use roboco_domain::limits::EVIDENCE_DIFF_CHARS;
use roboco_git::{Freshness, Landing, Pushed, TreeName, Unsaved};

use crate::world::{World, git, leaf, main, write};

#[tokio::test]
async fn a_leaf_takes_at_most_thirty_git_processes() {
    let world = World::new().await;
    let repos = &world.repos;
    let started = repos.git().processes();
    let mut last = started;
    let mut spent = Vec::new();
    let mut step = |name: &'static str| {
        let now = repos.git().processes();
        spent.push((name, now - last));
        last = now;
    };
    let cut = world.cut().await;
    step("cut");
    write(&cut.tree_path, "hello.txt", "hello\n");
    let code = world.commit("T-1/1").await;
    step("developer commit");
    let state = repos.tree_state(world.project, &leaf()).await.unwrap();
    assert_eq!(state.tree, code.tree);
    step("state");
    let export = repos.export_path(world.project, "gate");
    repos.export(world.project, &code.oid, &export).await.unwrap();
    assert!(export.join("hello.txt").exists() && !export.join(".git").exists());
    repos.remove_export(&export).await.unwrap();
    step("gate export");
    let pinned = repos.pin(world.project, &main(), &code.oid, Freshness::Fetch).await.unwrap();
    repos.review_tree(world.project, "T-1-qa", &code.oid).await.unwrap();
    step("QA pin and tree");
    repos.diff(world.project, &pinned.pin.base, &code.oid, EVIDENCE_DIFF_CHARS).await.unwrap();
    step("QA diff");
    repos.release_tree(world.project, &TreeName::review("T-1-qa").unwrap(), Unsaved::Discard).await.unwrap();
    write(&cut.tree_path, "docs/hello.md", "# Hello\n");
    let docs = world.commit("T-1/2").await;
    step("documenter commit");
    for reader in ["documenter diff", "PM diff"] {
        repos.diff(world.project, &pinned.pin.base, &docs.oid, EVIDENCE_DIFF_CHARS).await.unwrap();
        step(reader);
    }
    let pm = repos.pin(world.project, &main(), &docs.oid, Freshness::Cached).await.unwrap();
    step("PM pin");
    let Landing::Ready { base, commit, tree } = repos.prepare_landing(&world.landing(&docs.oid)).await.unwrap() else { panic!() };
    assert_eq!(Some(&tree), pm.pin.merge_tree.as_ref());
    assert_eq!(repos.push_landing(world.project, &main(), &commit, &base).await.unwrap(), Pushed::Landed);
    step("landing");
    repos.remove_branch(world.project, &leaf()).await.unwrap();
    step("clean-up");
    let total = repos.git().processes() - started;
    println!("{total} git processes: {spent:?}");
    assert!(total <= 30, "{total}: {spent:?}");
    assert_eq!(git(&world.origin, &["log", "--format=%s", "--first-parent"]).await, "Merge T-1: say hello\nFirst commit");
}

#[tokio::test]
async fn agents_of_one_project_do_not_disturb_each_other() {
    let world = std::sync::Arc::new(World::new().await);
    let work = (0..6).map(|n| {
        let world = std::sync::Arc::clone(&world);
        tokio::spawn(async move {
            let own = crate::world::branch(&format!("feature/backend/t{n}"));
            let cut = world.repos.cut_branch(world.project, &own, &main(), TreeFor::Author).await.unwrap();
            write(&cut.tree_path, &format!("{n}.txt"), "x\n");
            let mut request = world.request(&format!("r{n}"));
            request.branch = own.clone();
            let outcome = world.repos.commit(&request).await.unwrap();
            let roboco_git::CommitOutcome::Committed(done) = outcome else { panic!("{outcome:?}") };
            world.repos.pin(world.project, &main(), &done.oid, Freshness::Fetch).await.unwrap();
            world.repos.remove_branch(world.project, &own).await.unwrap();
        })
    });
    for task in work.collect::<Vec<_>>() {
        tokio::time::timeout(Duration::from_secs(120), task).await.unwrap().unwrap();
    }
}
