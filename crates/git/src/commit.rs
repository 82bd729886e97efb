//! Committing what is in a branch's tree, in the name of an agent.
//!
//! Everything is prepared in an index of its own and judged as git would store it; only then does the branch move, by
//! compare-and-swap. A refusal leaves branch, index and files as they were.

use std::collections::HashSet;

use roboco_domain::id::ProjectId;
use roboco_domain::time::Timestamp;
use roboco_domain::vcs::{BranchName, Oid};

use crate::error::GitError;
use crate::glob::PathGlob;
use crate::guard::{Changes, CommitProblem, DIFF_ARGS, Rules, Sizes};
use crate::objects::{NewCommit, Person, Trailer, message, oid, write_commit};
use crate::path::RepoPath;
use crate::refs::{self, Expected};
use crate::repos::{Repos, Store, TreeName, branch_ref};
use crate::tree::{Step, Tree, promote_draft, remove_optional};

/// Bytes of a change that are checked; more is refused.
const CHECKED_BYTES: usize = 64 * 1024 * 1024;
/// Commits that are searched for a request that was already carried out.
const SEARCHED: &str = "100";
const REQUEST_KEY: &str = "Request-Id";

/// What to commit, and how.
#[derive(Debug, Clone)]
pub struct CommitRequest {
    /// The project.
    pub project: ProjectId,
    /// The branch whose tree is committed.
    pub branch: BranchName,
    /// First line of the message.
    pub subject: String,
    /// The rest of the message, may be empty. Lines that look like one of the trailers are dropped.
    pub body: String,
    /// Lines the server adds at the end.
    pub trailers: Vec<Trailer>,
    /// Who made the change. The committer is always this program.
    pub author: Person,
    /// When it was asked for; becomes the date of the commit, in whole seconds.
    pub at: Timestamp,
    /// Only these paths, as the agent wrote them; `None` commits everything that is not ignored.
    pub paths: Option<Vec<String>>,
    /// Paths that need a grant.
    pub protect: Vec<PathGlob>,
    /// Paths for which there is a grant.
    pub granted: Vec<PathGlob>,
    /// Fingerprints of secret findings that a person has waived.
    pub waived: Vec<String>,
    /// The same request has the same key: repeated, it finds its commit instead of making a second one.
    pub key: String,
}

/// How a commit went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The branch now ends in this commit.
    Committed(Committed),
    /// The tree holds nothing that the branch does not.
    NothingToCommit,
    /// Nothing was changed anywhere, for these reasons.
    Refused(Vec<CommitProblem>),
}

/// A commit that was made, now or by an earlier try of the same request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The commit.
    pub oid: Oid,
    /// Its tree.
    pub tree: Oid,
    /// Changed paths.
    pub files: Vec<RepoPath>,
    /// Added lines.
    pub insertions: u64,
    /// Removed lines.
    pub deletions: u64,
}

impl Repos {
    /// Commits the tree of a branch.
    ///
    /// # Errors
    /// `NoTree` when the branch has no tree, `Invalid` for an unusable key, and faults of git. What the agent can put right is not an
    /// error but `CommitOutcome::Refused`.
    pub async fn commit(&self, request: &CommitRequest) -> Result<CommitOutcome, GitError> {
        check_key(&request.key)?;
        let store = self.store(request.project)?;
        let _lock = self.locks.lock(request.project, &TreeName::Branch(request.branch.clone()).slug()).await;
        let tree = self.ready_tree(&store, &request.branch).await?;
        let head = store.branch_tip(&request.branch)?;
        if let Some(done) = self.earlier_commit(&store, &request.branch, &head, &request.key).await? {
            return self.describe(&store, done).await.map(CommitOutcome::Committed);
        }
        let outcome = self.commit_on(&store, &tree, &head, request).await;
        if !matches!(outcome, Ok(CommitOutcome::Committed(_))) {
            remove_optional(&tree.draft_index())?;
        }
        outcome
    }

    async fn commit_on(&self, store: &Store, tree: &Tree, head: &Oid, request: &CommitRequest) -> Result<CommitOutcome, GitError> {
        let problems = self.stage(tree, request.paths.as_deref()).await?;
        if !problems.is_empty() {
            return Ok(CommitOutcome::Refused(problems));
        }
        let written = oid(&self
            .git
            .call("writing the tree")
            .on_tree(&tree.admin, &tree.path)
            .index(&tree.draft_index())
            .arg("write-tree")
            .line()
            .await?)?;
        let merging = tree.merging()?;
        if merging.is_none() && self.known_tree(head).as_ref() == Some(&written) {
            return Ok(CommitOutcome::NothingToCommit);
        }
        let call = self.git.call("checking the changes").on(&store.dir).args(DIFF_ARGS).args([head.as_str(), written.as_str()]);
        let answer = call.keep(CHECKED_BYTES).answer().await?;
        if answer.code != Some(0) {
            return Err(GitError::Command { doing: "checking the changes".to_owned(), said: answer.said });
        }
        let cut = answer.stdout.is_truncated();
        let changes = Changes::read(&answer.stdout.into_bytes())?;
        if changes.files.is_empty() && merging.is_none() {
            return Ok(CommitOutcome::NothingToCommit);
        }
        let only = match &merging {
            Some(theirs) => Some(self.changed_paths(store, theirs, &written).await?),
            None => None,
        };
        let rules = Rules { protect: &request.protect, granted: &request.granted, waived: &request.waived, only: only.as_ref() };
        let mut problems = changes.problems(&Sizes::of(&self.git, &store.dir, &changes).await?, &rules);
        if cut && !problems.iter().any(|problem| matches!(problem, CommitProblem::TooLarge { .. })) {
            problems.push(CommitProblem::TooMuch);
        }
        if !problems.is_empty() {
            return Ok(CommitOutcome::Refused(problems));
        }
        let mut trailers = request.trailers.clone();
        trailers.push(Trailer::new(REQUEST_KEY, &request.key));
        let parents: Vec<&Oid> = std::iter::once(head).chain(&merging).collect();
        let commit = NewCommit {
            tree: &written,
            parents: &parents,
            author: &request.author,
            at: Some(request.at),
            message: message(&request.subject, &request.body, &trailers),
        };
        let new = write_commit(&self.git, store, commit).await?;
        self.settle(store, tree, &request.branch, head, &new).await?;
        self.remember_tree(&new, &written);
        self.remember_request(store, &request.branch, head, &new, &request.key);
        let files = changes.files.into_iter().map(|change| change.path).collect();
        Ok(CommitOutcome::Committed(Committed {
            oid: new,
            tree: written,
            files,
            insertions: changes.insertions,
            deletions: changes.deletions,
        }))
    }

    /// Moves the branch and makes the draft the index of the tree.
    async fn settle(&self, store: &Store, tree: &Tree, branch: &BranchName, old: &Oid, new: &Oid) -> Result<(), GitError> {
        tree.announce(&Step::Commit { new: new.clone() })?;
        refs::set(&self.git, &store.dir, &branch_ref(branch), new, Expected::At(old), "commit").await?;
        promote_draft(tree)?;
        tree.end_merging()?;
        tree.step_done()
    }

    /// Brings the draft index up to date with the files.
    async fn stage(&self, tree: &Tree, paths: Option<&[String]>) -> Result<Vec<CommitProblem>, GitError> {
        let mut problems = Vec::new();
        let mut list = Vec::new();
        for path in paths.unwrap_or_default() {
            match RepoPath::parse(path) {
                Ok(path) => {
                    list.extend_from_slice(path.as_bytes());
                    list.push(0);
                }
                Err(error) => problems.push(CommitProblem::BadPath { path: error.path, why: error.why.to_owned() }),
            }
        }
        if paths.is_some() && list.is_empty() && problems.is_empty() {
            let why = "the list of paths is empty; leave it out to commit everything".to_owned();
            problems.push(CommitProblem::BadPath { path: String::new(), why });
        }
        if !problems.is_empty() {
            return Ok(problems);
        }
        let draft = tree.draft()?;
        let call = self.git.call("staging the changes").on_tree(&tree.admin, &tree.path).index(&draft).args(["add", "--all"]);
        let call =
            if paths.is_some() { call.args(["--pathspec-from-file=-", "--pathspec-file-nul"]).stdin(list) } else { call.args(["--", "."]) };
        let answer = call.answer().await?;
        if answer.code == Some(0) {
            return Ok(Vec::new());
        }
        if answer.said.contains(".lock': File exists") || answer.code.is_none() {
            return Err(GitError::Command { doing: "staging the changes".to_owned(), said: answer.said });
        }
        let path = paths.map_or_else(|| ".".to_owned(), |paths| paths.join(" ")).chars().take(200).collect();
        Ok(vec![CommitProblem::BadPath { path, why: answer.said }])
    }

    pub(crate) async fn changed_paths(&self, store: &Store, from: &Oid, to: &Oid) -> Result<HashSet<RepoPath>, GitError> {
        let call = self.git.call("comparing two commits").on(&store.dir);
        let args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none", from.as_str(), to.as_str()];
        let bytes = call.args(args).run().await?;
        Ok(bytes.split(|b| *b == 0).filter(|path| !path.is_empty()).map(RepoPath::from_git).collect())
    }

    /// The commit that an earlier try of this request made.
    async fn earlier_commit(&self, store: &Store, branch: &BranchName, head: &Oid, key: &str) -> Result<Option<Oid>, GitError> {
        if let Some(known) = self.known_requests(store, branch, head) {
            return Ok(known.into_iter().find(|(_, request)| request == key).map(|(commit, _)| commit));
        }
        let format = format!("--format=%H %T %(trailers:key={REQUEST_KEY},valueonly,separator=%x20)");
        let call = self.git.call("looking for an earlier try").on(&store.dir).args(["log", "-n", SEARCHED, &format, head.as_str(), "--"]);
        let text = String::from_utf8_lossy(&call.run().await?).into_owned();
        let mut requests = Vec::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            if let (Some(commit), Some(tree)) = (words.next(), words.next()) {
                let commit = oid(commit)?;
                self.remember_tree(&commit, &oid(tree)?);
                requests.extend(words.next().filter(|word| !word.is_empty()).map(|word| (commit, word.to_owned())));
            }
        }
        let earlier = requests.iter().find(|(_, request)| request == key).map(|(commit, _)| commit.clone());
        self.set_known_requests(store, branch, head, requests);
        Ok(earlier)
    }

    async fn describe(&self, store: &Store, commit: Oid) -> Result<Committed, GitError> {
        let call = self.git.call("reading a commit").on(&store.dir).args(DIFF_ARGS);
        let answer = call.args([format!("{commit}^"), commit.to_string()]).keep(CHECKED_BYTES).answer().await?;
        let changes = Changes::read(&answer.stdout.into_bytes())?;
        Ok(Committed {
            tree: self.tree_of(store, &commit).await?,
            oid: commit,
            files: changes.files.into_iter().map(|change| change.path).collect(),
            insertions: changes.insertions,
            deletions: changes.deletions,
        })
    }
}

fn check_key(key: &str) -> Result<(), GitError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    if (1..=100).contains(&key.len()) && key.chars().all(plain) {
        return Ok(());
    }
    Err(crate::Refusal::Invalid("the key of a commit request must be 1 to 100 letters, digits, - _ . / :".to_owned()).into())
}
