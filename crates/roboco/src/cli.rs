//! The command line: words, options and their help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// A self-hosted control plane for a company of coding agents.
#[derive(Debug, Parser)]
#[command(name = "roboco", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 2 wrong command or input, 3 the work ended in a hold or failure, 64 wrong configuration, \
                        69 no server runs, 75 not now, 130 interrupted.")]
pub(crate) struct Cli {
    /// Where the company keeps everything [default: $XDG_DATA_HOME/roboco].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The settings file, instead of looking for one.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the company until it is stopped.
    Up,
    /// Watch a small company carry one task from order to merge.
    Demo(Demo),
    /// The repositories the company works on.
    #[command(subcommand)]
    Project(Project),
    /// The work.
    #[command(subcommand)]
    Task(Task),
    /// Approve finished work; it is merged.
    Approve(Approve),
    /// Send finished work back to its author.
    Reject(Because),
    /// Give a task up for good.
    Cancel(Because),
    /// Release a task from the backlog.
    Activate(OnTask),
    /// Set a task aside; its agent may end its turn first, for a minute at most.
    Pause(Pause),
    /// Go on with a paused task.
    Resume(OnTask),
    /// Lift the hold of a task.
    Unblock(Because),
    /// Who works here and what they do.
    Agents(Listing),
    /// What waits for you.
    Inbox(Listing),
    /// What an agent said and did.
    Logs(Logs),
    /// Check this machine and this installation.
    Doctor(Listing),
    /// Print the settings in force.
    Config(ConfigArgs),
    /// Print the completion script of a shell.
    Completions {
        /// Which shell.
        shell: Shell,
    },
    /// The half that runs inside a sandbox.
    #[command(hide = true, disable_help_flag = true)]
    Bridge {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<std::ffi::OsString>,
    },
}

/// Options of `demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Which client the agents run on.
    #[arg(long, value_enum, default_value_t = DemoProvider::Scripted)]
    pub(crate) provider: DemoProvider,
    /// Approve at the end without asking.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Run a whole company of several cells.
    #[arg(long)]
    pub(crate) company: bool,
    /// Keep the temporary data directory.
    #[arg(long)]
    pub(crate) keep: bool,
}

/// The clients the demo can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoProvider {
    /// Agents that play a script; no model is needed.
    Scripted,
    /// Claude Code, with your own login.
    Claude,
}

/// `project …`
#[derive(Debug, Subcommand)]
pub(crate) enum Project {
    /// Let the company work on a repository.
    Add(Box<ProjectAdd>),
    /// Show the repositories.
    List(Listing),
}

/// Options of `project add`.
#[derive(Debug, Args, Default)]
pub(crate) struct ProjectAdd {
    /// A folder, or an https:// or ssh:// address.
    #[arg(required_unless_present = "file")]
    pub(crate) origin: Option<String>,
    /// Everything in a TOML file; options go over it.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Name in commands; from the origin when left out.
    #[arg(long)]
    pub(crate) slug: Option<String>,
    /// The cell that gets its work.
    #[arg(long)]
    pub(crate) cell: Option<String>,
    /// Command that runs the tests.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) test: Option<String>,
    /// Command that checks style.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) lint: Option<String>,
    /// Command that checks types.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) typecheck: Option<String>,
    /// Command that compiles.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) build: Option<String>,
    /// Command that prepares a fresh copy.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) setup: Option<String>,
    /// Paths no agent may change, as a glob; may be repeated.
    #[arg(long = "protect", value_name = "GLOB")]
    pub(crate) protect_paths: Vec<String>,
    /// Branches only you merge to, as a glob; may be repeated.
    #[arg(long = "protect-branch", value_name = "GLOB")]
    pub(crate) protect_branches: Vec<String>,
    /// How finished work is merged: merge or squash.
    #[arg(long, value_name = "METHOD")]
    pub(crate) merge: Option<String>,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `task …`
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Give the company a task.
    New(Box<TaskNew>),
    /// Show the open tasks.
    List(TaskList),
    /// Show everything about a task.
    Show(Show),
    /// Follow a task until it ends or waits for you.
    Watch(OnTask),
}

/// Options of `task new`.
#[derive(Debug, Args, Default)]
pub(crate) struct TaskNew {
    /// Everything in a TOML file; options go over it.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The project, by its name in `project list`.
    #[arg(long)]
    pub(crate) project: Option<String>,
    /// The cell that delivers it; the project's own when left out.
    #[arg(long)]
    pub(crate) team: Option<String>,
    /// What kind of result is wanted: code, documentation, …
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) task_type: Option<String>,
    /// Who can judge it: technical, …
    #[arg(long)]
    pub(crate) nature: Option<String>,
    /// How much is touched: low, medium or high.
    #[arg(long)]
    pub(crate) complexity: Option<String>,
    /// One line.
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// What is wanted.
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// A verifiable outcome; may be repeated.
    #[arg(long = "criterion", value_name = "OUTCOME")]
    pub(crate) criteria: Vec<String>,
    /// 0 is most urgent, 3 least.
    #[arg(long)]
    pub(crate) priority: Option<u8>,
    /// A task that must end first; may be repeated.
    #[arg(long = "depends-on", value_name = "TASK")]
    pub(crate) depends_on: Vec<String>,
    /// A glob of paths it means to touch; may be repeated.
    #[arg(long, value_name = "GLOB")]
    pub(crate) touches: Vec<String>,
    /// Most it may cost, in whole US dollars.
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) budget_usd: Option<u32>,
    /// A cell that must take part; may be repeated, and more than one makes it a root.
    #[arg(long = "cell", value_name = "CELL")]
    pub(crate) cells: Vec<String>,
    /// Its structural kind, `root` or `standalone_leaf`; follows from the rest when left out.
    #[arg(long)]
    pub(crate) shape: Option<String>,
    /// Keep it in the backlog until it is released.
    #[arg(long)]
    pub(crate) backlog: bool,
    /// Print the answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `task list`.
#[derive(Debug, Args)]
pub(crate) struct TaskList {
    /// Ended tasks too.
    #[arg(long)]
    pub(crate) all: bool,
    /// Only of this project.
    #[arg(long)]
    pub(crate) project: Option<String>,
    /// At most this many.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=200))]
    pub(crate) limit: u64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// One task, shown.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Like T-142.
    pub(crate) task: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// One task.
#[derive(Debug, Args)]
pub(crate) struct OnTask {
    /// Like T-142.
    pub(crate) task: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `pause`.
#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// Like T-142.
    pub(crate) task: String,
    /// Stop its agent at once.
    #[arg(long)]
    pub(crate) now: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// One task and a reason.
#[derive(Debug, Args)]
pub(crate) struct Because {
    /// Like T-142.
    pub(crate) task: String,
    /// Why; the agents read it.
    #[arg(required = true, num_args = 1..)]
    pub(crate) reason: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `approve`.
#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// Like T-142.
    pub(crate) task: String,
    /// A word with it.
    #[arg(long)]
    pub(crate) note: Option<String>,
    /// The commit you looked at; refused when it has moved. The current one when left out.
    #[arg(long, value_name = "COMMIT")]
    pub(crate) head: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A list.
#[derive(Debug, Args)]
pub(crate) struct Listing {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `logs`.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// A run like T-142/3, or a task for all its runs.
    pub(crate) of: String,
    /// Go on as it is written.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Print one JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Print the reference of all settings instead.
    #[arg(long)]
    pub(crate) docs: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn the_data_directory_may_stand_before_or_behind_the_command() {
        for words in [["roboco", "--data-dir", "/d", "up"], ["roboco", "up", "--data-dir", "/d"]] {
            assert_eq!(Cli::try_parse_from(words).unwrap().data_dir, Some(PathBuf::from("/d")));
        }
    }
}
