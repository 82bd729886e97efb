//! Work in parts: branches that live in the store, what is cut from them and what lands on them, and that the origin sees only the whole.

use std::fs;
use std::sync::Arc;

use roboco_domain::effect::TreeFor;
use roboco_domain::vcs::{Base, BranchName, Home, Oid};
use roboco_git::{
    CommitOutcome, Cut, Freshness, GitError, Landing, LandingRequest, Method, Pushed, Refusal, SyncOutcome, SyncRequest, Trailer,
};

use crate::world::{World, branch, git, in_store, main, make_origin, write};

/// How often a landing is built again; each round that fails was won by somebody else.
const ROUNDS: usize = 5;

fn root() -> BranchName {
    branch("feature/main_pm/greet--t1")
}

fn cell() -> BranchName {
    branch("feature/backend/greet--t2")
}

fn part(number: usize) -> BranchName {
    branch(&format!("feature/backend/greet--t{number}"))
}

impl World {
    async fn assemble(&self, own: &BranchName, from: &Base) -> Cut {
        self.repos.cut_branch(self.project, own, from, TreeFor::Assembly).await.unwrap()
    }

    async fn author(&self, own: &BranchName, from: &BranchName) -> Cut {
        self.repos.cut_branch(self.project, own, &in_store(from), TreeFor::Author).await.unwrap()
    }

    async fn commit_on(&self, own: &BranchName, key: &str) -> Oid {
        let mut request = self.request(key);
        request.branch = own.clone();
        match self.repos.commit(&request).await.unwrap() {
            CommitOutcome::Committed(done) => done.oid,
            other => panic!("{other:?}"),
        }
    }

    /// A part with one file of its own, committed.
    async fn written(&self, number: usize, from: &BranchName) -> Oid {
        let cut = self.author(&part(number), from).await;
        write(&cut.tree_path, &format!("parts/{number}.txt"), format!("{number}\n"));
        self.commit_on(&part(number), "r1").await
    }

    fn landing_on(&self, number: usize, target: &Base, head: &Oid) -> LandingRequest {
        LandingRequest {
            target: target.clone(),
            subject: format!("[T-{number}] greet"),
            trailers: vec![Trailer::new("Task", &format!("T-{number}"))],
            ..self.landing(head)
        }
    }

    fn sync_of(&self, own: &BranchName, target: &Base) -> SyncRequest {
        let request = self.request("unused");
        SyncRequest {
            project: self.project,
            branch: own.clone(),
            target: target.clone(),
            trailers: Vec::new(),
            author: request.author,
            at: request.at,
        }
    }

    async fn prepared(&self, request: &LandingRequest) -> (Oid, Oid) {
        match self.repos.prepare_landing(request).await.unwrap() {
            Landing::Ready { base, commit, .. } => (base, commit),
            other => panic!("{other:?}"),
        }
    }

    async fn push(&self, request: &LandingRequest, (base, commit): &(Oid, Oid)) -> Pushed {
        self.repos.push_landing(self.project, &request.target, commit, base).await.unwrap()
    }

    /// Lands as the company does: built again when the target moved, adopted when it is there.
    async fn land(&self, request: &LandingRequest) -> Oid {
        for _ in 0..ROUNDS {
            let (base, commit) = match self.repos.prepare_landing(request).await.unwrap() {
                Landing::Ready { base, commit, .. } => (base, commit),
                Landing::AlreadyLanded { commit, .. } => return commit,
                other => panic!("{other:?}"),
            };
            match self.repos.push_landing(self.project, &request.target, &commit, &base).await.unwrap() {
                Pushed::Landed => return commit,
                Pushed::Moved => {}
                other => panic!("{other:?}"),
            }
        }
        panic!("the target moved {ROUNDS} times")
    }

    fn tip(&self, own: &BranchName) -> Oid {
        self.repos.branch_head(self.project, own).unwrap().unwrap()
    }

    /// What was landed on a branch since `from`, the oldest first.
    async fn landed_on(&self, own: &BranchName, from: &Oid) -> Vec<String> {
        let range = format!("{from}..refs/heads/{own}");
        let parents = git(&self.store(), &["log", "--first-parent", "--reverse", "--format=%P", &range]).await;
        parents.lines().map(|line| line.split(' ').nth(1).unwrap_or("no merge").to_owned()).collect()
    }

    async fn refs(&self) -> String {
        git(&self.store(), &["for-each-ref"]).await
    }

    async fn changed(&self, target: &Base, head: &Oid) -> Vec<String> {
        let base = self.repos.pin(self.project, target, head, Freshness::Fetch).await.unwrap().pin.base;
        let diff = self.repos.diff(self.project, &base, head, 20_000).await.unwrap();
        diff.files.iter().map(|file| file.path.to_string()).collect()
    }
}

/// A root and one cell of it.
async fn assembled() -> (World, Oid) {
    let world = World::new().await;
    world.assemble(&root(), &main()).await;
    let cut = world.assemble(&cell(), &in_store(&root())).await;
    (world, cut.head)
}

#[tokio::test]
async fn parts_are_assembled_in_the_store_and_only_the_whole_reaches_the_origin() {
    let world = World::empty().await;
    make_origin(&world.origin).await;
    let untouched = world.origin_as_it_is();
    world.add().await;
    let first = world.assemble(&root(), &main()).await;
    assert!(!first.reused && !first.tree_path.exists() && first.tree.is_none());

    // From here to the landing of the whole there is no origin: whoever asks for it fails.
    let away = world.origin.with_file_name("away");
    fs::rename(&world.origin, &away).unwrap();
    let (backend, frontend) = (cell(), branch("feature/frontend/greet--t3"));
    for own in [&backend, &frontend] {
        let cut = world.assemble(own, &in_store(&root())).await;
        assert_eq!((&cut.base, &cut.head), (&first.head, &first.head));
        assert!(!cut.tree_path.exists());
    }
    let on_backend = in_store(&backend);
    let (four, five, six) = (world.written(4, &backend).await, world.written(5, &backend).await, part(6));
    let tree = world.author(&six, &backend).await.tree_path;
    write(&tree, "parts/4.txt", "six\n");
    let mine = world.commit_on(&six, "r1").await;
    let seven = world.written(7, &frontend).await;

    // Two are built on the same tip; the second finds it moved and is built again.
    let [of_four, of_five] = [(4, &four), (5, &five)].map(|(number, head)| world.landing_on(number, &on_backend, head));
    let (early, late) = (world.prepared(&of_four).await, world.prepared(&of_five).await);
    assert_eq!(world.push(&of_four, &early).await, Pushed::Landed);
    assert_eq!(world.push(&of_five, &late).await, Pushed::Moved);
    assert_eq!(world.tip(&backend), early.1);
    world.land(&of_five).await;

    // Siblings that disagree: nothing moves, the author brings the other in, resolves and lands.
    let before = world.refs().await;
    let Landing::Conflict { base, paths } = world.repos.prepare_landing(&world.landing_on(6, &on_backend, &mine)).await.unwrap() else {
        panic!()
    };
    assert_eq!((base, paths.iter().map(ToString::to_string).collect::<Vec<_>>()), (world.tip(&backend), vec!["parts/4.txt".to_owned()]));
    assert_eq!(world.repos.pin(world.project, &on_backend, &mine, Freshness::Fetch).await.unwrap().pin.merge_tree, None);
    assert_eq!(world.refs().await, before);
    let sync = world.sync_of(&six, &on_backend);
    let SyncOutcome::Conflict(paths) = world.repos.sync_branch(&sync).await.unwrap() else { panic!() };
    assert_eq!(paths.len(), 1);
    assert!(fs::read_to_string(tree.join("parts/4.txt")).unwrap().contains("<<<<<<< "));
    assert_eq!(fs::read_to_string(tree.join("parts/5.txt")).unwrap(), "5\n", "what merges is there");
    write(&tree, "parts/4.txt", "four and six\n");
    let both = world.commit_on(&six, "r2").await;
    assert_eq!(world.repos.sync_branch(&sync).await.unwrap(), SyncOutcome::UpToDate);
    assert_eq!(world.changed(&on_backend, &both).await, ["parts/4.txt"], "what siblings did is not its own");
    world.land(&world.landing_on(6, &on_backend, &both)).await;
    assert_eq!(world.landed_on(&backend, &first.head).await, [&four, &five, &both].map(ToString::to_string));

    // Cells land on the root, the root at the origin.
    world.land(&world.landing_on(7, &in_store(&frontend), &seven)).await;
    let cells = [world.tip(&backend), world.tip(&frontend)];
    for (number, head) in [2, 3].into_iter().zip(&cells) {
        world.land(&world.landing_on(number, &in_store(&root()), head)).await;
    }
    assert_eq!(world.landed_on(&root(), &first.head).await, cells.each_ref().map(ToString::to_string));
    fs::rename(&away, &world.origin).unwrap();
    assert!(world.origin_as_it_is() == untouched);
    let whole = world.tip(&root());
    assert_eq!(world.changed(&main(), &whole).await, ["parts/4.txt", "parts/5.txt", "parts/7.txt"]);
    let landed = world.land(&world.landing_on(1, &main(), &whole)).await;
    assert_eq!(git(&world.origin, &["rev-parse", "main"]).await, landed.as_str());
    assert_eq!(git(&world.origin, &["for-each-ref", "--format=%(refname)"]).await, "refs/heads/main");
    assert_eq!(fs::read_to_string(world.origin.join("parts/4.txt")).unwrap(), "four and six\n");
    let all = git(&world.origin, &["log", "--format=%H"]).await;
    for head in [&four, &five, &both, &seven] {
        assert_eq!(all.lines().filter(|line| *line == head.as_str()).count(), 1, "{head}");
    }
}

#[tokio::test]
async fn a_landing_in_the_store_that_stopped_anywhere_is_done_once() {
    for sibling in [None, Some(9)] {
        let (mut world, from) = assembled().await;
        let head = world.written(4, &cell()).await;
        let other = world.written(9, &cell()).await;
        let (request, meanwhile) = (world.landing_on(4, &in_store(&cell()), &head), world.landing_on(9, &in_store(&cell()), &other));
        // Between the merge commit and the move of the branch.
        let built = world.prepared(&request).await;
        world.restart().await;
        if sibling.is_some() {
            world.land(&meanwhile).await;
            assert_eq!(world.push(&request, &built).await, Pushed::Moved);
        } else {
            assert_eq!(world.prepared(&request).await, built, "the same values give the same commit");
        }
        let built = world.prepared(&request).await;
        assert_eq!(world.push(&request, &built).await, Pushed::Landed);
        // Between the move of the branch and the answer; the branch may be further by now.
        world.restart().await;
        if sibling.is_none() {
            world.land(&meanwhile).await;
        }
        let before = world.refs().await;
        assert_eq!(world.push(&request, &built).await, Pushed::Landed);
        assert_eq!(world.land(&request).await, built.1);
        assert_eq!(world.refs().await, before);
        let landed = world.landed_on(&cell(), &from).await;
        let order = if sibling.is_some() { [&other, &head] } else { [&head, &other] };
        assert_eq!(landed, order.map(ToString::to_string));
    }
}

#[tokio::test]
async fn whatever_the_order_each_part_is_in_the_whole_once() {
    let (mut world, from) = assembled().await;
    let mut heads = Vec::new();
    for number in 4..7 {
        heads.push(world.written(number, &cell()).await);
    }
    for (round, order) in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]].into_iter().enumerate() {
        // The same parts, given to a whole of their own each time.
        let whole = part(100 + round);
        world.assemble(&whole, &in_store(&root())).await;
        let target = in_store(&whole);
        let requests: Vec<LandingRequest> = (0..3).map(|n| world.landing_on(n + 4, &target, &heads[n])).collect();
        let mut built = Vec::new();
        for request in &requests {
            built.push(world.prepared(request).await);
        }
        for (place, index) in order.into_iter().enumerate() {
            let expected = if place == 0 { Pushed::Landed } else { Pushed::Moved };
            assert_eq!(world.push(&requests[index], &built[index]).await, expected, "{order:?}");
            let first = world.land(&requests[index]).await;
            if round % 2 == 0 {
                world.restart().await;
            }
            // Every answer is lost, of this landing and of those before it.
            assert_eq!(world.land(&requests[index]).await, first, "{order:?}");
            world.land(&requests[order[0]]).await;
        }
        let expected: Vec<String> = order.iter().map(|index| heads[*index].to_string()).collect();
        assert_eq!(world.landed_on(&whole, &from).await, expected, "{order:?}");
        let files = git(&world.store(), &["ls-tree", "-r", "--name-only", &format!("refs/heads/{whole}"), "parts/"]).await;
        assert_eq!(files, "parts/4.txt\nparts/5.txt\nparts/6.txt");
    }
}

#[tokio::test]
async fn parts_that_land_at_once_all_get_in() {
    let (world, from) = assembled().await;
    let mut heads = Vec::new();
    for number in 4..4 + ROUNDS {
        heads.push((number, world.written(number, &cell()).await));
    }
    let world = Arc::new(world);
    let landings = heads.iter().cloned().map(|(number, head)| {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.land(&world.landing_on(number, &in_store(&cell()), &head)).await })
    });
    for landing in landings.collect::<Vec<_>>() {
        landing.await.unwrap();
    }
    let mut landed = world.landed_on(&cell(), &from).await;
    let mut expected: Vec<String> = heads.iter().map(|(_, head)| head.to_string()).collect();
    landed.sort();
    expected.sort();
    assert_eq!(landed, expected);
}

#[tokio::test]
async fn a_branch_of_assembled_work_is_never_squashed_to() {
    let (world, from) = assembled().await;
    let head = world.written(4, &cell()).await;
    let mut request = world.landing_on(4, &in_store(&cell()), &head);
    request.method = Method::Squash;
    let landed = world.land(&request).await;
    assert_eq!(git(&world.store(), &["log", "-1", "--format=%P", landed.as_str()]).await, format!("{from} {head}"));
    assert_eq!(world.land(&request).await, landed);
    // The whole may be squashed where it leaves the company.
    let mut whole = world.landing_on(2, &main(), &landed);
    whole.method = Method::Squash;
    let squashed = world.land(&whole).await;
    assert_eq!(git(&world.origin, &["log", "-1", "--format=%H %P", "main"]).await, format!("{squashed} {from}"));
    assert_eq!(world.land(&whole).await, squashed);
}

#[tokio::test]
async fn a_branch_that_is_cut_again_keeps_what_was_merged_into_it() {
    let (mut world, from) = assembled().await;
    let head = world.written(4, &cell()).await;
    let landed = world.land(&world.landing_on(4, &in_store(&cell()), &head)).await;
    let sideways = world.written(5, &root()).await;
    world.land(&world.landing_on(5, &in_store(&root()), &sideways)).await;
    world.restart().await;
    let again = world.assemble(&cell(), &in_store(&root())).await;
    assert_eq!((&again.base, &again.head, again.reused), (&from, &landed, true));
    let tree = git(&world.store(), &["rev-parse", &format!("{landed}^{{tree}}")]).await;
    assert_eq!(again.tree.unwrap().as_str(), tree);
    assert!(!again.tree_path.exists());
    // An author who takes it over gets a tree of it, which then moves with it.
    let taken = world.author(&cell(), &root()).await;
    assert_eq!((&taken.base, &taken.head, taken.reused), (&from, &landed, true));
    assert_eq!(fs::read_to_string(taken.tree_path.join("parts/4.txt")).unwrap(), "4\n");
    let head = world.written(6, &cell()).await;
    world.land(&world.landing_on(6, &in_store(&cell()), &head)).await;
    assert_eq!(fs::read_to_string(taken.tree_path.join("parts/6.txt")).unwrap(), "6\n");
    // And asking for none takes away none.
    write(&taken.tree_path, "draft.txt", "mine\n");
    world.assemble(&cell(), &in_store(&root())).await;
    assert_eq!(fs::read_to_string(taken.tree_path.join("draft.txt")).unwrap(), "mine\n");
}

#[tokio::test]
async fn a_base_that_is_cleaned_up_takes_no_part_with_it() {
    let (mut world, from) = assembled().await;
    let (own, base) = (part(4), in_store(&cell()));
    let head = world.written(4, &cell()).await;
    let sibling = world.written(5, &cell()).await;
    let landed = world.land(&world.landing_on(5, &base, &sibling)).await;
    let tree = world.repos.tree_path(world.project, &roboco_git::TreeName::Branch(own.clone()));
    write(&tree, "draft.txt", "mine\n");
    let ended = world.repos.remove_branch(world.project, &cell()).await.unwrap();
    assert_eq!(git(&world.store(), &["rev-parse", &ended.tip_at.unwrap()]).await, landed.as_str());
    assert_eq!(world.repos.remove_branch(world.project, &cell()).await.unwrap().tip_at, None);
    world.restart().await;

    // What needs the base says so and changes nothing.
    let before = world.refs().await;
    let (repos, project) = (&world.repos, world.project);
    let landing = world.landing_on(4, &base, &head);
    let errors = [
        ("sync", repos.sync_branch(&world.sync_of(&own, &base)).await.unwrap_err()),
        ("pin", repos.pin(project, &base, &head, Freshness::Fetch).await.unwrap_err()),
        ("prepare", repos.prepare_landing(&landing).await.unwrap_err()),
        ("land", repos.push_landing(project, &base, &landed, &from).await.unwrap_err()),
        ("cut", repos.cut_branch(project, &part(6), &base, TreeFor::Author).await.unwrap_err()),
        ("cut again", repos.cut_branch(project, &own, &base, TreeFor::Author).await.unwrap_err()),
    ];
    for (what, error) in errors {
        let gone = matches!(&error, GitError::Refused(Refusal::NoBranch { branch, .. }) if *branch == cell());
        assert!(gone && !error.is_retryable(), "{what}: {error}");
    }
    assert_eq!(world.refs().await, before);
    // What does not need it goes on.
    let state = repos.tree_state(project, &own).await.unwrap();
    assert_eq!((&state.head, state.dirty.len()), (&head, 1));
    let next = world.commit_on(&own, "r2").await;
    let diff = repos.diff(project, &landed, &next, 20_000).await.unwrap();
    assert_eq!(diff.files.len(), 2, "{}", diff.stat);
    // It can still be brought to what is above.
    world.land(&world.landing_on(4, &in_store(&root()), &next)).await;
    assert_eq!(world.landed_on(&root(), &from).await, [next.to_string()]);
}

#[tokio::test]
async fn parts_that_brought_in_the_same_news_show_only_their_own_changes() {
    let (world, from) = assembled().await;
    let target = in_store(&cell());
    let (four, five) = (part(4), part(5));
    // The cell has something of its own before both are cut.
    let early = world.written(9, &cell()).await;
    world.land(&world.landing_on(9, &target, &early)).await;
    for (own, number) in [(&four, 4), (&five, 5)] {
        world.written(number, &cell()).await;
        assert_ne!(world.tip(own), from);
    }
    write(&world.origin, "news.txt", "news\n");
    git(&world.origin, &["add", "-A"]).await;
    git(&world.origin, &["commit", "-q", "-m", "News"]).await;
    for own in [&four, &five] {
        let synced = world.repos.sync_branch(&world.sync_of(own, &main())).await.unwrap();
        assert!(matches!(synced, SyncOutcome::Merged(_)), "{synced:?}");
    }
    world.land(&world.landing_on(4, &target, &world.tip(&four))).await;
    let bases = git(&world.store(), &["merge-base", "--all", world.tip(&cell()).as_str(), world.tip(&five).as_str()]).await;
    assert_eq!(bases.lines().count(), 2, "otherwise this shows nothing");
    assert_eq!(world.changed(&target, &world.tip(&five)).await, ["parts/5.txt"]);
    world.land(&world.landing_on(5, &target, &world.tip(&five))).await;
}

#[tokio::test]
async fn a_base_of_the_store_and_one_of_the_origin_may_share_a_name() {
    let world = World::new().await;
    let own = branch("main");
    let at_first = world.assemble(&own, &main()).await.head;
    let head = world.written(4, &own).await;
    let landed = world.land(&world.landing_on(4, &in_store(&own), &head)).await;
    assert_eq!(world.tip(&own), landed);
    assert_eq!(git(&world.origin, &["rev-parse", "main"]).await, at_first.as_str());
    let pin = |home| {
        let base = Base { branch: own.clone(), home };
        let (world, head) = (&world, &head);
        async move { world.repos.pin(world.project, &base, head, Freshness::Fetch).await.unwrap().pin.base }
    };
    assert_eq!((pin(Home::Store).await, pin(Home::Origin).await), (landed, at_first));
}
