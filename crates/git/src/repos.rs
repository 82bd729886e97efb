//! The directories, the locks and the names that every operation shares.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use roboco_domain::id::ProjectId;
use roboco_domain::limits::{GIT_CLONE, GIT_NETWORK};
use roboco_domain::vcs::{Base, BranchName, Home, Oid};
use sha2::{Digest, Sha256};

use crate::error::{GitError, OrIo, Refusal};
use crate::git::{Git, remove_lock};
use crate::locks::Locks;
use crate::origin::{Credential, Origin};
use crate::refs;

/// All repositories under one data directory. One value per data directory: its locks live in this process.
#[derive(Debug)]
pub struct Repos {
    pub(crate) git: Git,
    pub(crate) repos: PathBuf,
    pub(crate) trees: PathBuf,
    pub(crate) exports: PathBuf,
    pub(crate) trash: PathBuf,
    pub(crate) locks: Locks,
    credentials: Mutex<HashMap<ProjectId, Credential>>,
    /// Trees of commits that were seen lately; a commit never changes its tree.
    commit_trees: Mutex<HashMap<Oid, Oid>>,
    /// Per branch: its tip, and the commit requests that the commits below it carried out. Complete as long as the tip is that one.
    requests: Mutex<HashMap<String, (Oid, Requests)>>,
    unique: AtomicU64,
    /// The first number of `unique`; smaller ones were given out by earlier servers.
    pub(crate) first_unique: u64,
}

/// Commits and the keys of the requests that made them.
pub(crate) type Requests = Vec<(Oid, String)>;

/// Which tree of a project.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TreeName {
    /// The writable tree of a branch.
    Branch(BranchName),
    /// A detached tree for a reviewer; the key is letters, digits, `.`, `_` and `-`.
    Review(String),
}

impl TreeName {
    /// The name of a reviewer's tree.
    ///
    /// # Errors
    /// `Invalid` when the key has other characters than letters, digits, `.`, `_`, `-`, or more than 100 of them.
    pub fn review(key: &str) -> Result<Self, Refusal> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if (1..=100).contains(&key.len()) && key.chars().all(plain) {
            Ok(Self::Review(key.to_owned()))
        } else {
            Err(Refusal::Invalid(format!("{key:?} cannot name a review tree: use up to 100 letters, digits, dots, dashes and underscores")))
        }
    }

    /// The name of the tree's directory; two trees never share one.
    pub(crate) fn slug(&self) -> String {
        match self {
            Self::Review(key) => format!("@{key}"),
            Self::Branch(branch) => branch_slug(branch),
        }
    }
}

impl fmt::Display for TreeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Branch(branch) => write!(f, "branch {branch}"),
            Self::Review(key) => write!(f, "review {key}"),
        }
    }
}

fn branch_slug(branch: &BranchName) -> String {
    let mut slug = String::new();
    for byte in branch.as_str().bytes() {
        match byte {
            b'/' => slug.push('+'),
            b'.' | b'_' | b'-' => slug.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => slug.push(char::from(byte)),
            byte => slug.push_str(&format!("%{byte:02X}")),
        }
    }
    if slug.len() > 120 {
        // File names end at 255 bytes; `=` stands in no short slug.
        let digest: String = Sha256::digest(branch.as_str()).iter().take(16).map(|b| format!("{b:02x}")).collect();
        slug.truncate(80);
        slug = format!("{slug}={digest}");
    }
    slug
}

pub(crate) fn branch_ref(branch: &BranchName) -> String {
    format!("refs/heads/{branch}")
}

/// The ref of the store that tells where a base was last seen.
fn base_ref(base: &Base) -> String {
    match base.home {
        Home::Origin => format!("refs/remotes/origin/{}", base.branch),
        Home::Store => branch_ref(&base.branch),
    }
}

/// One project's bare store.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) project: ProjectId,
    pub(crate) dir: PathBuf,
    pub(crate) origin: Origin,
    pub(crate) default_branch: BranchName,
}

/// What a fetch brings.
pub(crate) enum Fetch<'a> {
    /// Every branch of the origin; branches that are gone there are forgotten.
    Everything,
    /// One branch; and, made in the same step when it does not exist yet, a branch of the store at its tip.
    One { branch: &'a BranchName, also_as: Option<&'a BranchName> },
}

impl Store {
    /// The tip of a base as it was last seen.
    pub(crate) fn tip(&self, base: &Base) -> Result<Oid, GitError> {
        let place = match base.home {
            Home::Origin => "at the origin",
            Home::Store => "in this project's repository",
        };
        refs::read(&self.dir, &base_ref(base))?.ok_or_else(|| Refusal::NoBranch { branch: base.branch.clone(), place }.into())
    }

    pub(crate) fn branch_tip(&self, branch: &BranchName) -> Result<Oid, GitError> {
        self.tip(&Base { branch: branch.clone(), home: Home::Store })
    }
}

impl Repos {
    /// Opens the repositories below `data` and creates the directories that are missing. What git processes of an earlier server still do
    /// is waited for; then lock files that are left belong to nobody and are removed. Only one process may have them open.
    ///
    /// # Errors
    /// `Io` when a directory cannot be made.
    pub fn open(git: Git, data: &Path) -> Result<Self, GitError> {
        std::fs::create_dir_all(data).or_io("creating", data)?;
        let data = data.canonicalize().or_io("resolving", data)?;
        let dir = |name: &str| {
            let dir = data.join(name);
            std::fs::create_dir_all(&dir).or_io("creating", &dir).map(|()| dir)
        };
        // In a container every process has the same number; the time of its start tells two of them apart.
        let first_unique = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let repos = Self {
            git,
            repos: dir("repos")?,
            trees: dir("trees")?,
            exports: dir("exports")?,
            trash: dir("trash")?,
            locks: Locks::default(),
            credentials: Mutex::default(),
            commit_trees: Mutex::default(),
            requests: Mutex::default(),
            unique: AtomicU64::new(first_unique),
            first_unique,
        };
        crate::orphans::await_end(repos.git.home());
        sweep_locks(&repos.repos, 0);
        sweep_parts(&repos.repos, ".probe-");
        for project in std::fs::read_dir(&repos.exports).or_io("reading", &repos.exports)?.flatten() {
            sweep_parts(&project.path(), crate::export::PART);
        }
        Ok(repos)
    }

    /// The git binary in use.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Sets what a project's origin is read and written with. Kept in memory only: set it again after a restart.
    pub fn set_credential(&self, project: ProjectId, credential: Credential) {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner).insert(project, credential);
    }

    /// Where a project's bare store lies; mounted read-only at the same path in sandboxes.
    pub fn store_path(&self, project: ProjectId) -> PathBuf {
        self.repos.join(format!("{project}.git"))
    }

    /// Where a tree lies, whether it exists or not.
    pub fn tree_path(&self, project: ProjectId, name: &TreeName) -> PathBuf {
        self.trees.join(project.to_string()).join(name.slug())
    }

    pub(crate) fn credential(&self, project: ProjectId) -> Credential {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner).get(&project).cloned().unwrap_or_default()
    }

    pub(crate) fn store(&self, project: ProjectId) -> Result<Store, GitError> {
        let dir = self.store_path(project);
        if !dir.is_dir() {
            return Err(Refusal::UnknownProject(project).into());
        }
        let (origin, default_branch) = crate::add::read_origin(&dir)?;
        Ok(Store { project, dir, origin, default_branch })
    }

    /// A name nobody else uses, for temporary files.
    pub(crate) fn unique(&self) -> u64 {
        self.unique.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) async fn fetch(&self, store: &Store, what: Fetch<'_>) -> Result<(), GitError> {
        let _one_at_a_time = self.locks.lock(store.project, "fetch").await;
        let answer = self.fetch_once(store, &what).await?;
        let Some(said) = answer else { return Ok(()) };
        // A branch `a` that became a folder `a/b` at the origin blocks its new name until the old one is forgotten.
        if said.contains("cannot lock ref") {
            self.fetch_once(store, &Fetch::Everything).await?;
            match self.fetch_once(store, &what).await? {
                None => return Ok(()),
                Some(said) => return Err(GitError::Command { doing: format!("fetching from {}", store.origin), said }),
            }
        }
        match what {
            Fetch::One { branch, .. } if said.contains("couldn't find remote ref") => {
                Err(Refusal::NoBranch { branch: branch.clone(), place: "at the origin" }.into())
            }
            Fetch::One { .. } | Fetch::Everything => Err(GitError::Command { doing: format!("fetching from {}", store.origin), said }),
        }
    }

    /// `None` on success, else what git said.
    async fn fetch_once(&self, store: &Store, what: &Fetch<'_>) -> Result<Option<String>, GitError> {
        // Old repositories carry these harmless slips; everything else that is malformed is refused.
        const HARMLESS: &[&str] = &[
            "zeroPaddedFilemode",
            "missingSpaceBeforeDate",
            "badTimezone",
            "missingEmail",
            "missingNameBeforeEmail",
            "badEmail",
            "multipleAuthors",
        ];
        let mut call = self.git.call(format!("fetching from {}", store.origin)).on(&store.dir).config("fetch.fsckObjects", "true");
        for name in HARMLESS {
            call = call.config(format!("fetch.fsck.{name}"), "ignore");
        }
        call = call.args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules"]);
        call = call.args(store.origin.upload_pack(&self.git));
        let specs = match what {
            Fetch::Everything => {
                call = call.arg("--prune").deadline(GIT_CLONE);
                vec!["+refs/heads/*:refs/remotes/origin/*".to_owned()]
            }
            Fetch::One { branch, also_as } => {
                call = call.arg("--atomic").deadline(GIT_NETWORK);
                let own = also_as.map(|own| format!("refs/heads/{branch}:refs/heads/{own}"));
                [Some(format!("+refs/heads/{branch}:refs/remotes/origin/{branch}")), own].into_iter().flatten().collect()
            }
        };
        let call = store.origin.open(call, &self.credential(store.project)).arg("--").arg(store.origin.location()).args(specs);
        let answer = call.answer().await?;
        Ok((answer.code != Some(0)).then_some(answer.said))
    }

    /// Asks the origin for a base's tip. One of the store is always known.
    pub(crate) async fn refresh(&self, store: &Store, base: &Base) -> Result<(), GitError> {
        match base.home {
            Home::Origin => self.fetch(store, Fetch::One { branch: &base.branch, also_as: None }).await,
            Home::Store => Ok(()),
        }
    }

    pub(crate) fn remember_tree(&self, commit: &Oid, tree: &Oid) {
        let mut trees = self.commit_trees.lock().unwrap_or_else(PoisonError::into_inner);
        if trees.len() > 10_000 {
            trees.clear();
        }
        trees.insert(commit.clone(), tree.clone());
    }

    pub(crate) fn known_tree(&self, commit: &Oid) -> Option<Oid> {
        self.commit_trees.lock().unwrap_or_else(PoisonError::into_inner).get(commit).cloned()
    }

    pub(crate) fn known_requests(&self, store: &Store, branch: &BranchName, head: &Oid) -> Option<Requests> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.get(&format!("{}/{branch}", store.project)).filter(|(tip, _)| tip == head).map(|(_, known)| known.clone())
    }

    pub(crate) fn set_known_requests(&self, store: &Store, branch: &BranchName, head: &Oid, known: Requests) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() > 1000 {
            requests.clear();
        }
        requests.insert(format!("{}/{branch}", store.project), (head.clone(), known));
    }

    pub(crate) fn remember_request(&self, store: &Store, branch: &BranchName, old: &Oid, new: &Oid, key: &str) {
        if let Some(mut known) = self.known_requests(store, branch, old) {
            known.push((new.clone(), key.to_owned()));
            self.set_known_requests(store, branch, new, known);
        }
    }

    /// The tree of a commit.
    pub(crate) async fn tree_of(&self, store: &Store, commit: &Oid) -> Result<Oid, GitError> {
        if let Some(tree) = self.known_tree(commit) {
            return Ok(tree);
        }
        let spec = format!("{commit}^{{tree}}");
        let call = self.git.call(format!("reading commit {}", commit.short())).on(&store.dir);
        let answer = call.args(["rev-parse", "--verify", "--quiet", &spec]).answer().await?;
        if answer.code != Some(0) {
            return Err(Refusal::NoCommit(commit.short().to_owned()).into());
        }
        let tree = crate::objects::oid(String::from_utf8_lossy(&answer.stdout.into_bytes()).trim())?;
        self.remember_tree(commit, &tree);
        Ok(tree)
    }
}

/// Removes directories that were being filled when the last server died.
fn sweep_parts(dir: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)) {
        if let Err(error) = std::fs::remove_dir_all(entry.path()) {
            tracing::warn!(%error, path = %entry.path().display(), "a half-made directory stays behind");
        }
    }
}

/// Removes lock files of dead gits below a directory, without walking into object folders.
fn sweep_locks(dir: &Path, depth: usize) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth < 12 && name != "objects" {
                sweep_locks(&path, depth + 1);
            }
        } else if path.extension().is_some_and(|end| end == "lock") {
            remove_lock(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_tree_has_a_directory_of_its_own() {
        let long = |end: &str| format!("feature/{}{end}", "x".repeat(200));
        let names =
            ["a/b", "a+b", "a%2Fb", "a", "A", "a.b", "ä/b", "@x", "a=b"].map(str::to_owned).into_iter().chain([long("1"), long("2")]);
        let mut slugs: Vec<String> = names.map(|name| TreeName::Branch(BranchName::new(name).unwrap()).slug()).collect();
        slugs.push(TreeName::review("x").unwrap().slug());
        assert!(slugs.iter().all(|slug| slug.len() < 200 && !slug.contains('/') && !slug.starts_with('.')), "{slugs:?}");
        assert_eq!(slugs.iter().collect::<HashSet<_>>().len(), slugs.len(), "{slugs:?}");
        for bad in ["", "a/b", "..x y", "ä"] {
            assert!(TreeName::review(bad).is_err());
        }
    }
}
