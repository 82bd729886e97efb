//! `demo`: a small company carries one task from order to merge, on a sample repository, while a person watches and decides.
//!
//! Nothing here is staged: the server is the one `up` runs, the project and the task come in through the public API, and every line is an
//! event of the log. What was done before the process died is found in the data directory and not done again.

mod decision;
mod sample;
mod tree;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use roboco_company::views::{ProjectRow, TaskRow, TaskView};
use roboco_process::find_program;
use roboco_providers::{claude, scripted};
use roboco_sandbox::Driver as _;
use roboco_server::CommandAnswer;
use serde_json::json;

use crate::cli::{Demo, DemoProvider};
use crate::client::{Client, typed};
use crate::command::Here;
use crate::command::staff::items;
use crate::command::task::TaskFile;
use crate::command::watch::{Follow, Narrator, Rest, Times, Told, at_rest, may_rest};
use crate::config::{self, Config, Routing, Unconfined};
use crate::data_dir::DataDir;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::logging;
use crate::serve::{self, CompanyData, Running};
use crate::terminal::{Screen, Style, clean};
use crate::up::Signals;

use decision::{Decision, Decisions};

/// Runs the demo.
///
/// # Errors
/// It cannot start, is interrupted, or its task does not end completed.
pub(crate) fn demo(
    args: &Demo,
    data_dir: Option<&Path>,
    config_file: Option<&Path>,
    environment: Environment,
    screen: Screen,
) -> Result<(), Failure> {
    let asked = data_dir.map(Path::to_owned).or_else(|| environment.path("ROBOCO_DATA_DIR"));
    let (root, temporary) = match asked {
        Some(dir) => (std::path::absolute(dir)?, None),
        None => temporary_root().map(|dir| (dir.clone(), Some(dir)))?,
    };
    let mut loaded =
        config::load(config_file, &root, &environment).map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?;
    adapt(&mut loaded.config, args.provider, &loaded.variables);
    logging::start(&loaded.config.log, &environment)?;
    let mut here = Here { environment, data: DataDir::prepare(&root)?, loaded, screen };
    let company = serve::company_data(&here.loaded.config.company.dir)?;
    let order = Order::read(&company, if args.company { ROOT } else { TASK })?;
    if order.test == NODE_TEST {
        find_node(&mut here)?;
    }

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(run(&mut here, args, &company, &order));
    drop(runtime);
    match (temporary, &result) {
        (Some(dir), Ok(())) if !args.keep => {
            if let Err(error) = std::fs::remove_dir_all(&dir) {
                tracing::warn!(%error, path = %dir.display(), "the temporary data directory stays behind");
            }
        }
        (None, Ok(())) => {}
        (Some(_) | None, _) => here.screen.line(&format!(
            "\neverything is kept in {}\n  look around with `{} up` and `{} task show T-1`",
            root.display(),
            here.roboco(),
            here.roboco()
        ))?,
    }
    result
}

fn temporary_root() -> Result<PathBuf, Failure> {
    use std::os::unix::fs::DirBuilderExt as _;
    for n in 0..1000_u32 {
        let dir = std::env::temp_dir().join(format!("roboco-demo-{}-{n}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Failure::file("creating", &dir, &error)),
        }
    }
    Err(Failure::broken("no temporary directory can be made: clean up /tmp, or give --data-dir"))
}

/// The settings of a demo: on this machine only, on a free port, everybody on one client, quiet.
fn adapt(config: &mut Config, provider: DemoProvider, variables: &[String]) {
    config.server = config::Server { host: "127.0.0.1".into(), port: 0, public_base_url: String::new() };
    let name = match provider {
        DemoProvider::Scripted => scripted::NAME,
        DemoProvider::Claude => claude::NAME,
    };
    config.routing = Routing { default: name.to_owned(), ..Routing::default() };
    if !variables.iter().any(|name| name.starts_with("ROBOCO_LOG")) {
        "warn".clone_into(&mut config.log.filter);
    }
}

/// The sample repository is tested with Node.js, which must be seen inside the sandboxes too.
fn find_node(here: &mut Here) -> Result<(), Failure> {
    let Some(node) = find_program(OsStr::new("node"), &here.environment.search_path()) else {
        let text = "the sample repository is tested with Node.js, which was not found in PATH: install version 18 or newer";
        return Err(Failure::new(Exit::Configuration, text));
    };
    let real = node.canonicalize().unwrap_or(node);
    let visible = ["/usr", "/bin"].iter().any(|dir| real.starts_with(dir));
    let installed = real.parent().filter(|bin| bin.ends_with("bin")).and_then(Path::parent);
    if let Some(dir) = installed.filter(|_| !visible) {
        here.loaded.config.sandbox.tool_dirs.push(dir.to_owned());
    }
    Ok(())
}

async fn run(here: &mut Here, args: &Demo, company: &CompanyData, order: &Order) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    if args.provider == DemoProvider::Scripted && here.loaded.config.sandbox.unconfined == Unconfined::Refuse {
        let confinement = serve::driver(here, "demo")?.check().await.confinement;
        if let roboco_sandbox::Confinement::None { problem, remedy } = confinement {
            // Everything the scripted agents write and run comes with this program.
            here.loaded.config.sandbox.unconfined = Unconfined::Allow;
            here.screen.line(&here.screen.paint(Style::Warn, &format!("agents are not isolated here: {problem}. {remedy}")))?;
        }
    }
    let running = Running::start(here).await?;
    let result = tokio::select! {
        result = perform(here, args, &running, company, order) => result,
        _ = signals.next() => {
            let again = format!("interrupted; the same company goes on with `{} demo`", here.roboco());
            Err(Failure::new(Exit::Interrupted, again))
        }
    };
    tokio::select! {
        () = running.stop(here) => {}
        _ = signals.next() => {}
    }
    result
}

async fn perform(here: &Here, args: &Demo, running: &Running, company: &CompanyData, order: &Order) -> Result<(), Failure> {
    let repository = sample::checkout(here, &order.task.project, company).await?;
    let screen = here.screen;
    let title =
        if args.company { "A company of agents works on one root, split over its cells" } else { "A company of agents works on one task" };
    screen.line(&screen.paint(Style::Bold, title))?;
    screen.line(&format!("  data        {}", here.data.root().display()))?;
    screen.line(&format!("  repository  {}", repository.display()))?;
    screen.line(&format!("  server      http://{}", running.address))?;

    let start = crate::client::start_command(&here.data, &here.environment);
    let client = Client::new(format!("http://{}", running.address), running.token.clone(), start)?;
    let (task, known) = give(&client, &repository, order).await?;
    let view: TaskView = client.read(&format!("/api/tasks/{task}"), &[]).await?;
    screen.line(&format!("  task        {task} {}\n", clean(&view.row.title)))?;

    let told = if args.company { Told::Company } else { Told::Task };
    let mut narrator = Narrator::new(&client, screen, Times::Since(view.row.created_at), told);
    let mut follow = if args.company { Follow::all(&client) } else { Follow::new(&client, &task, 0) };
    if known == Known::Before {
        let seen = follow.so_far().await?.len();
        screen.line(&screen.paint(Style::Dim, &format!("going on after {seen} events of an earlier start")))?;
    }
    let mut decisions = Decisions::new(args);
    loop {
        for event in follow.so_far().await? {
            narrator.tell(&event).await?;
        }
        let view: TaskView = client.read(&format!("/api/tasks/{task}"), &[]).await?;
        match Rest::of(&view) {
            Rest::No => loop {
                let event = follow.next().await?;
                narrator.tell(&event).await?;
                if may_rest(&event) && event.task.as_ref() == Some(&task) {
                    break;
                }
            },
            Rest::Decision => decide(here, &client, running, &view, &mut decisions, &mut follow, &mut narrator).await?,
            Rest::Completed => {
                if args.company {
                    tree::show(here, &client, &view).await?;
                }
                return show_delivery(here, &view, &repository).await;
            }
            rest @ (Rest::Cancelled | Rest::Held) => return at_rest(here, &view, &rest),
        }
    }
}

/// What the company is given to do.
struct Order {
    task: TaskFile,
    /// The command that tests the sample repository; empty when it has none.
    test: &'static str,
}

/// How a repository of a Node.js package is tested without installing anything.
const NODE_TEST: &str = "node --test";

/// The task of one cell.
const TASK: &str = "task.toml";
/// The work of the whole company.
const ROOT: &str = "root.toml";

impl Order {
    fn read(company: &CompanyData, file: &str) -> Result<Self, Failure> {
        let lacks = |what: &str| {
            Failure::new(Exit::Configuration, format!("the demo of this company has no {what}: add it below `demo/` in `company.dir`"))
        };
        let task = TaskFile::parse(company.demo.get(Path::new(file)).ok_or_else(|| lacks(file))?)?;
        let name = &task.project;
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(Failure::new(
                Exit::Configuration,
                format!("demo/{file}: {name:?} is no name of a project: use letters, digits and dashes"),
            ));
        }
        let test = match company.repository().map(|(path, _)| path).find(|path| *path == Path::new("package.json")) {
            Some(_) => NODE_TEST,
            None if company.repository().next().is_some() => "",
            None => return Err(lacks("repository in repo/")),
        };
        Ok(Self { task, test })
    }
}

/// Whether the task was there when the demo started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Before,
    New,
}

/// Adds the project and gives the task, unless an earlier start of the demo did.
async fn give(client: &Client, repository: &Path, order: &Order) -> Result<(String, Known), Failure> {
    let wanted = &order.task;
    let projects: Vec<ProjectRow> = typed(items(client.get("/api/projects", &[]).await?))?;
    if !projects.iter().any(|project| project.slug == wanted.project) {
        let project = json!({
            "slug": wanted.project,
            "origin": repository,
            "cell": wanted.team.as_deref().unwrap_or("backend"),
            "commands": { "test": order.test },
        });
        client.post("/api/projects", &project).await?;
    }
    let tasks: Vec<TaskRow> = typed(items(client.get("/api/tasks", &[("project", wanted.project.clone())]).await?))?;
    // Newest first; the demo's own is the oldest of its project. Its parts come after it.
    if let Some(task) = tasks.last() {
        return Ok((task.number.clone(), Known::Before));
    }
    let answer: CommandAnswer = typed(client.post("/api/tasks", &wanted.body()?).await?)?;
    let task = answer.task.ok_or_else(|| Failure::broken("the server did not say which task it created"))?;
    Ok((task.number, Known::New))
}

/// Shows what the decision is about, and waits for it: typed here, sent by another command, or given by `--yes`.
async fn decide(
    here: &Here,
    client: &Client,
    running: &Running,
    view: &TaskView,
    decisions: &mut Decisions,
    follow: &mut Follow<'_>,
    narrator: &mut Narrator<'_>,
) -> Result<(), Failure> {
    decision::show(here, running, view, decisions).await?;
    let task = &view.row.number;
    loop {
        let event = tokio::select! {
            event = follow.next() => event?,
            decision = decisions.next() => {
                let sent = match decision {
                    Decision::Approve => crate::command::decide::send_approval(client, task, view.head.as_deref(), None).await,
                    Decision::Reject(reason) => crate::command::decide::send_reason(client, task, "reject", &reason).await,
                };
                match sent {
                    Ok(_) => return Ok(()),
                    Err(failure) if decisions.may_be_repeated() => here.screen.line(&here.screen.paint(Style::Bad, &failure.message))?,
                    Err(failure) => return Err(failure),
                }
                continue;
            }
        };
        narrator.tell(&event).await?;
        if event.to.is_some() || may_rest(&event) || event.kind.starts_with("ceo.") {
            return Ok(());
        }
    }
}

/// The end: the history of the repository as it is now.
async fn show_delivery(here: &Here, view: &TaskView, repository: &Path) -> Result<(), Failure> {
    let screen = here.screen;
    let commit = view.merge_commit.as_deref().unwrap_or_default();
    let commit = commit.get(..10).unwrap_or(commit);
    screen.line(&screen.paint(Style::Good, &format!("\n{} is completed and merged as {commit}", view.row.number)))?;
    screen.line(&format!("\n{}", clean(&sample::history(here, repository).await?)))
}
