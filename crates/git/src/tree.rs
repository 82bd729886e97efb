//! Working trees: a directory for the worker, and its administration inside the store, which only the server writes.
//!
//! A tree is made by hand in the form of a linked worktree, so that plain `git status`, `log` and `diff` work in it for an agent that
//! sees the store read-only. The server always names the administration and the tree itself; what an agent does to the `.git` file in
//! the tree has no effect on the server.
//!
//! A change of several files on disk is announced in a *step* file first. Whoever touches the tree next finishes or forgets the step.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use roboco_domain::vcs::{BranchName, Oid};

use crate::error::{GitError, OrIo, Refusal};
use crate::objects::oid;
use crate::refs::{self, Expected};
use crate::repos::{Repos, Store, TreeName, branch_ref};

/// One working tree.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) name: TreeName,
    /// Its administration inside the store.
    pub(crate) admin: PathBuf,
    /// The files.
    pub(crate) path: PathBuf,
}

/// What a tree's HEAD names.
pub(crate) enum Head<'a> {
    Branch(&'a BranchName),
    Detached(&'a Oid),
}

/// A change of a tree that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The branch moves to a commit of the tree's own content; then the prepared index becomes the index.
    Commit { new: Oid },
    /// The branch moves; then the files follow.
    Advance { old: Oid, new: Oid },
    /// The files show a merge with conflicts; then `merging` is noted as second parent of the next commit.
    Conflict { head: Oid, shown: Oid, merging: Oid },
}

impl Step {
    fn write(&self) -> String {
        match self {
            Self::Commit { new } => format!("commit {new}\n"),
            Self::Advance { old, new } => format!("advance {old} {new}\n"),
            Self::Conflict { head, shown, merging } => format!("conflict {head} {shown} {merging}\n"),
        }
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let kind = words.next()?;
        let mut next = || Oid::new(words.next()?).ok();
        match kind {
            "commit" => Some(Self::Commit { new: next()? }),
            "advance" => Some(Self::Advance { old: next()?, new: next()? }),
            "conflict" => Some(Self::Conflict { head: next()?, shown: next()?, merging: next()? }),
            _ => None,
        }
    }
}

impl Tree {
    /// Whether it can be worked with: made whole once, and its files are still its own.
    pub(crate) fn exists(&self) -> bool {
        self.is_known() && !self.is_emptied()
    }

    /// Whether it was made whole once, whatever became of its files.
    pub(crate) fn is_known(&self) -> bool {
        self.admin.is_dir() && self.ready_mark().exists()
    }

    /// Whether the files were taken away together with the `.git` file that stands beside them; the folder itself may be there, made anew
    /// by somebody who needs one. An agent that deletes its files leaves `.git`; one that deletes only `.git` leaves its files.
    pub(crate) fn is_emptied(&self) -> bool {
        self.link().symlink_metadata().is_err() && !holds_a_file(&self.path)
    }

    fn link(&self) -> PathBuf {
        self.path.join(".git")
    }

    pub(crate) fn ready_mark(&self) -> PathBuf {
        self.admin.join("roboco-ready")
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.admin.join("index")
    }

    /// The index that a commit is prepared in.
    pub(crate) fn draft_index(&self) -> PathBuf {
        self.admin.join("roboco-index")
    }

    pub(crate) fn conflicts_file(&self) -> PathBuf {
        self.admin.join("roboco-conflicts")
    }

    fn step_file(&self) -> PathBuf {
        self.admin.join("roboco-step")
    }

    fn merge_head(&self) -> PathBuf {
        self.admin.join("MERGE_HEAD")
    }

    /// The commit being merged in, while a merge with conflicts waits to be resolved.
    pub(crate) fn merging(&self) -> Result<Option<Oid>, GitError> {
        match read_optional(&self.merge_head())? {
            Some(text) => oid(text.trim()).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn end_merging(&self) -> Result<(), GitError> {
        remove_optional(&self.merge_head())?;
        remove_optional(&self.conflicts_file())
    }

    pub(crate) fn announce(&self, step: &Step) -> Result<(), GitError> {
        write_atomically(&self.step_file(), step.write().as_bytes())
    }

    pub(crate) fn step_done(&self) -> Result<(), GitError> {
        remove_optional(&self.step_file())
    }

    fn step(&self) -> Result<Option<Step>, GitError> {
        Ok(read_optional(&self.step_file())?.and_then(|text| Step::read(&text)))
    }

    /// Copies the index to the draft. The copy keeps the time of the original: git compares it with the times of files to know which
    /// of them it must read again, and a younger copy would hide a change made in the same second.
    pub(crate) fn draft(&self) -> Result<PathBuf, GitError> {
        let (index, draft) = (self.index(), self.draft_index());
        remove_optional(&draft)?;
        remove_optional(&draft.with_extension("lock"))?;
        match fs::copy(&index, &draft) {
            Ok(_) => {
                let at = fs::metadata(&index).and_then(|meta| meta.modified()).or_io("reading", &index)?;
                let file = OpenOptions::new().write(true).open(&draft).or_io("opening", &draft)?;
                file.set_times(FileTimes::new().set_modified(at)).or_io("dating", &draft)?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).or_io("copying", &index),
        }
        Ok(draft)
    }
}

impl Repos {
    pub(crate) fn tree(&self, store: &Store, name: &TreeName) -> Tree {
        let slug = name.slug();
        Tree { name: name.clone(), admin: store.dir.join("worktrees").join(slug), path: self.tree_path(store.project, name) }
    }

    /// The tree of a branch, with no step left open.
    pub(crate) async fn ready_tree(&self, store: &Store, branch: &BranchName) -> Result<Tree, GitError> {
        let tree = self.tree(store, &TreeName::Branch(branch.clone()));
        if !tree.exists() {
            return Err(Refusal::NoTree(branch.clone()).into());
        }
        self.finish_step(store, &tree, branch).await?;
        Ok(tree)
    }

    /// Makes a tree, or finishes one that was half made. A whole one is left as it is.
    pub(crate) async fn ensure_tree(&self, store: &Store, tree: &Tree, head: Head<'_>, at: &Oid) -> Result<(), GitError> {
        fs::create_dir_all(&tree.admin).or_io("creating", &tree.admin)?;
        if tree.is_emptied() {
            // Without its files, the old index would make everything look deleted, and a merge that was being resolved is gone with them.
            for file in [tree.ready_mark(), tree.index(), tree.draft_index(), tree.merge_head()] {
                remove_optional(&file)?;
            }
        }
        fs::create_dir_all(&tree.path).or_io("creating", &tree.path)?;
        let text = match head {
            Head::Branch(branch) => format!("ref: {}\n", branch_ref(branch)),
            Head::Detached(commit) => format!("{commit}\n"),
        };
        write_atomically(&tree.admin.join("HEAD"), text.as_bytes())?;
        write_atomically(&tree.admin.join("commondir"), b"../..\n")?;
        let link = tree.link();
        write_atomically(&tree.admin.join("gitdir"), format!("{}\n", link.display()).as_bytes())?;
        self.write_link(tree, &link)?;
        if !tree.ready_mark().exists() {
            self.checkout(tree, at).await?;
            // The mark tells what the tree was made from, so that commits made in it by hand are noticed.
            write_atomically(&tree.ready_mark(), at.as_str().as_bytes())?;
        }
        tracing::debug!(tree = %tree.path.display(), project = %store.project, "the tree of {} is ready", tree.name);
        Ok(())
    }

    /// Writes the `.git` file of a tree for those who work in it. Whatever stands there now may be a trap, so it is replaced, not
    /// written to.
    fn write_link(&self, tree: &Tree, link: &Path) -> Result<(), GitError> {
        let text = format!("gitdir: {}\n", tree.admin.display());
        match fs::symlink_metadata(link) {
            Ok(meta) if meta.is_dir() => {
                let away = self.trash.join(format!("git-dir-{}-{}", tree.name.slug(), self.unique()));
                fs::rename(link, &away).or_io("moving away", link)?;
            }
            Ok(_) => fs::remove_file(link).or_io("removing", link)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).or_io("reading", link),
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(link).or_io("creating", link)?;
        file.write_all(text.as_bytes()).or_io("writing", link)
    }

    /// Makes files and index equal to `treeish`, whatever they were.
    pub(crate) async fn checkout(&self, tree: &Tree, treeish: &Oid) -> Result<(), GitError> {
        let call = self.git.call(format!("writing the files of {}", tree.name)).on_tree(&tree.admin, &tree.path);
        call.args(["read-tree", "--reset", "-u", treeish.as_str()]).run().await.map(|_| ())
    }

    /// Moves files and index from one commit to another. Changes that came in between are kept in a rescue ref.
    async fn move_files(&self, store: &Store, tree: &Tree, from: &Oid, to: &Oid) -> Result<(), GitError> {
        let call = self.git.call(format!("updating the files of {}", tree.name)).on_tree(&tree.admin, &tree.path);
        let answer = call.args(["read-tree", "-m", "-u", from.as_str(), to.as_str()]).answer().await?;
        if answer.code == Some(0) {
            return Ok(());
        }
        tracing::warn!(tree = %tree.path.display(), said = %answer.said, "the files changed in between; keeping them aside");
        self.snapshot(store, tree, to).await?;
        self.checkout(tree, to).await
    }

    /// Moves a branch that has a tree, and the tree with it. The tree must hold no changes.
    pub(crate) async fn advance(
        &self,
        store: &Store,
        tree: &Tree,
        branch: &BranchName,
        old: &Oid,
        new: &Oid,
        why: &str,
    ) -> Result<(), GitError> {
        tree.announce(&Step::Advance { old: old.clone(), new: new.clone() })?;
        refs::set(&self.git, &store.dir, &branch_ref(branch), new, Expected::At(old), why).await?;
        self.move_files(store, tree, old, new).await?;
        tree.step_done()
    }

    /// Shows a merge with conflicts in the tree, which must hold no changes.
    pub(crate) async fn show_conflict(&self, store: &Store, tree: &Tree, step: Step) -> Result<(), GitError> {
        tree.announce(&step)?;
        if let Step::Conflict { head, shown, merging } = &step {
            self.move_files(store, tree, head, shown).await?;
            write_atomically(&tree.merge_head(), format!("{merging}\n").as_bytes())?;
        }
        tree.step_done()
    }

    /// Finishes or forgets what an interrupted call had begun.
    pub(crate) async fn finish_step(&self, store: &Store, tree: &Tree, branch: &BranchName) -> Result<(), GitError> {
        let Some(step) = tree.step()? else { return Ok(()) };
        let tip = store.branch_tip(branch)?;
        match step {
            Step::Commit { new } if tip == new => {
                promote_draft(tree)?;
                tree.end_merging()?;
            }
            Step::Commit { .. } => remove_optional(&tree.draft_index())?,
            Step::Advance { old, new } if tip == new => self.move_files(store, tree, &old, &new).await?,
            Step::Advance { .. } => {}
            Step::Conflict { .. } => return self.show_conflict(store, tree, step).await,
        }
        tree.step_done()
    }
}

/// The prepared index becomes the index of the tree.
pub(crate) fn promote_draft(tree: &Tree) -> Result<(), GitError> {
    let draft = tree.draft_index();
    match fs::rename(&draft, tree.index()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).or_io("renaming", &draft),
    }
}

/// Whether anything that git would know as a file lies below a folder. Ends at the first one; what cannot be read may hold one.
fn holds_a_file(dir: &Path) -> bool {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => return error.kind() != ErrorKind::NotFound,
    };
    let mut entries = entries.map(|entry| entry.and_then(|entry| Ok((entry.file_type()?, entry.path()))));
    entries.any(|entry| entry.map_or(true, |(kind, path)| !kind.is_dir() || holds_a_file(&path)))
}

/// Writes a file so that after a crash it is either the old or the new one.
pub(crate) fn write_atomically(file: &Path, bytes: &[u8]) -> Result<(), GitError> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    let mut out = File::create(&new).or_io("creating", &new)?;
    out.write_all(bytes).and_then(|()| out.sync_all()).or_io("writing", &new)?;
    fs::rename(&new, file).or_io("renaming", &new)
}

pub(crate) fn read_optional(file: &Path) -> Result<Option<String>, GitError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).or_io("reading", file),
    }
}

pub(crate) fn remove_optional(file: &Path) -> Result<(), GitError> {
    match fs::remove_file(file) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).or_io("removing", file),
    }
}
