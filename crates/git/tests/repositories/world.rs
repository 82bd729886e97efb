//! An origin, a data directory, and short words for what tests do with them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use roboco_domain::effect::TreeFor;
use roboco_domain::id::ProjectId;
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::{Base, BranchName, Home, Oid};
use roboco_git::{
    CommitOutcome, CommitProblem, CommitRequest, Committed, Credential, Cut, Git, LandingRequest, Method, Origin, Person, Repos, Trailer,
};
use roboco_process::{OutputCap, Process};
use tempfile::TempDir;
use uuid::Uuid;

pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(crate) struct World {
    pub(crate) dir: TempDir,
    pub(crate) repos: Repos,
    pub(crate) project: ProjectId,
    pub(crate) origin: PathBuf,
}

/// Runs git like a user would, in a folder of the user.
pub(crate) async fn git(dir: &Path, args: &[&str]) -> String {
    let (code, text) = try_git(dir, &[], args).await;
    assert_eq!(code, 0, "git {args:?}: {text}");
    text
}

pub(crate) async fn try_git(dir: &Path, env: &[(&str, &str)], args: &[&str]) -> (i32, String) {
    let process = Process::new("git", dir, Duration::from_secs(60))
        .args(args.iter().map(OsString::from))
        .env("PATH", PATH)
        .env("HOME", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("LC_ALL", "C")
        .envs(["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|name| (name, "Ada")))
        .envs(["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"].map(|name| (name, "ada@example.com")))
        .envs(env.iter().copied());
    let output = process.output(OutputCap::head(1_000_000)).await.unwrap();
    let text = format!("{}{}", output.stdout.text(), output.stderr.text());
    (output.status.code().unwrap_or(-1), text.trim_end().to_owned())
}

pub(crate) fn write(dir: &Path, file: &str, text: impl AsRef<[u8]>) {
    let path = dir.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::new(name).unwrap()
}

pub(crate) fn main() -> Base {
    at_origin("main")
}

pub(crate) fn at_origin(name: &str) -> Base {
    Base { branch: branch(name), home: Home::Origin }
}

/// The branch of assembled work.
pub(crate) fn in_store(branch: &BranchName) -> Base {
    Base { branch: branch.clone(), home: Home::Store }
}

pub(crate) fn leaf() -> BranchName {
    branch("feature/backend/t1")
}

/// A user's folder with one commit on `main`.
pub(crate) async fn make_origin(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    git(dir, &["init", "-q", "-b", "main"]).await;
    write(dir, "README.md", "# Greeter\n");
    write(dir, "src/greet.txt", "one\ntwo\nthree\n");
    git(dir, &["add", "-A"]).await;
    git(dir, &["commit", "-q", "-m", "First commit"]).await;
}

pub(crate) async fn open(data: &Path) -> Repos {
    open_with(data, PATH).await
}

pub(crate) async fn open_with(data: &Path, path: &str) -> Repos {
    Repos::open(Git::discover(path.as_ref(), &data.join("cache/git-home")).await.unwrap(), data).unwrap()
}

impl World {
    /// A project whose origin is a folder with a checkout.
    pub(crate) async fn new() -> Self {
        let world = Self::empty().await;
        make_origin(&world.origin).await;
        world.add().await;
        world
    }

    /// The same before the origin exists.
    pub(crate) async fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let repos = open(&root.join("data")).await;
        Self { dir, repos, project: ProjectId::new(Uuid::from_u128(1)), origin: root.join("greeter") }
    }

    pub(crate) fn folder(&self) -> Origin {
        Origin::Folder(self.origin.clone())
    }

    pub(crate) async fn add(&self) {
        self.repos.add(self.project, &self.folder(), Credential::None).await.unwrap();
    }

    /// The server after a restart: nothing is remembered.
    pub(crate) async fn restart(&mut self) {
        self.repos = open(&self.dir.path().join("data")).await;
    }

    pub(crate) async fn cut(&self) -> Cut {
        self.repos.cut_branch(self.project, &leaf(), &main(), TreeFor::Author).await.unwrap()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.repos.store_path(self.project)
    }

    pub(crate) fn request(&self, key: &str) -> CommitRequest {
        CommitRequest {
            project: self.project,
            branch: leaf(),
            subject: "[T-1] feat(greet): say hello to everybody".to_owned(),
            body: String::new(),
            trailers: vec![Trailer::new("Task", "T-1"), Trailer::new("Agent", "be-dev-1")],
            author: Person::new("Bea", "be-dev-1@agents.invalid").unwrap(),
            at: Timestamp::from_millis(1_700_000_000_000),
            paths: None,
            protect: Vec::new(),
            granted: Vec::new(),
            waived: Vec::new(),
            key: key.to_owned(),
        }
    }

    pub(crate) async fn commit(&self, key: &str) -> Committed {
        match self.repos.commit(&self.request(key)).await.unwrap() {
            CommitOutcome::Committed(done) => done,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn refused(&self, request: &CommitRequest) -> Vec<CommitProblem> {
        match self.repos.commit(request).await.unwrap() {
            CommitOutcome::Refused(problems) => problems,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn landing(&self, head: &Oid) -> LandingRequest {
        LandingRequest {
            project: self.project,
            target: main(),
            head: head.clone(),
            subject: "Merge T-1: say hello".to_owned(),
            body: String::new(),
            trailers: vec![Trailer::new("Task", "T-1"), Trailer::new("Approved-by", "CEO")],
            author: Person::new("CEO", "ceo@agents.invalid").unwrap(),
            at: Timestamp::from_millis(1_700_000_100_000),
            method: Method::Merge,
        }
    }

    /// Every ref and every file of the origin's folder, its git directory included.
    pub(crate) fn origin_as_it_is(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn walk(dir: &Path, all: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, all);
                } else {
                    all.push((path.clone(), fs::read(&path).unwrap()));
                }
            }
        }
        let mut all = Vec::new();
        walk(&self.origin, &mut all);
        all.sort();
        all
    }
}
