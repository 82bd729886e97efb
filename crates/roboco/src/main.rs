//! The one binary. Reads the command line, the environment and the settings, and hands each part to whoever needs it.
//!
//! It decides nothing: rules are in `domain`, work is in `company` and `runtime`. Only this crate looks at the environment.

mod cli;
mod client;
mod command;
mod config;
mod data_dir;
mod demo;
mod doctor;
mod embedded;
mod environment;
mod failure;
mod logging;
mod serve;
mod terminal;
mod up;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use cli::{Cli, Command, Project, Task};
use command::Here;
use data_dir::DataDir;
use environment::Environment;
use failure::{Exit, Failure};
use terminal::Screen;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|word| word == "bridge") {
        return roboco_bridge::main(arguments.collect());
    }
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("roboco: {failure}");
            }
            failure.exit.into()
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let environment = Environment::read();
    let screen = Screen::new(&environment);
    match cli.command {
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "roboco", &mut std::io::stdout());
            return Ok(());
        }
        Command::Config(args) if args.docs => return screen.line(config::reference().trim_end()),
        Command::Demo(args) => return demo::demo(&args, cli.data_dir.as_deref(), cli.config.as_deref(), environment, screen),
        _ => {}
    }
    let root = config::data_dir(cli.data_dir.as_deref(), &environment).map_err(wrong_settings)?;
    let loaded = config::load(cli.config.as_deref(), &root, &environment).map_err(wrong_settings)?;
    if let Command::Up = cli.command {
        logging::start(&loaded.config.log, &environment)?;
        let here = Here { environment, data: DataDir::prepare(&root)?, loaded, screen };
        return on_all_cores()?.block_on(up::up(&here));
    }
    let here = Here { environment, data: DataDir::at(&root), loaded, screen };
    on_this_thread()?.block_on(answer(&here, cli.command))
}

/// The commands that start nothing.
async fn answer(here: &Here, command: Command) -> Result<(), Failure> {
    match command {
        Command::Project(Project::Add(args)) => command::project::add(here, &args).await,
        Command::Project(Project::List(args)) => command::project::list(here, &args).await,
        Command::Task(Task::New(args)) => command::task::new(here, &args).await,
        Command::Task(Task::List(args)) => command::show::list(here, &args).await,
        Command::Task(Task::Show(args)) => command::show::show(here, &args).await,
        Command::Task(Task::Watch(args)) => command::watch::watch(here, &args).await,
        Command::Approve(args) => command::decide::approve(here, &args).await,
        Command::Reject(args) => command::decide::because(here, "reject", &args).await,
        Command::Cancel(args) => command::decide::because(here, "cancel", &args).await,
        Command::Unblock(args) => command::decide::because(here, "unblock", &args).await,
        Command::Activate(args) => command::decide::plain(here, "activate", &args).await,
        Command::Pause(args) => command::decide::pause(here, &args).await,
        Command::Resume(args) => command::decide::plain(here, "resume", &args).await,
        Command::Agents(args) => command::staff::agents(here, &args).await,
        Command::Inbox(args) => command::staff::inbox(here, &args).await,
        Command::Logs(args) => command::logs::logs(here, &args).await,
        Command::Doctor(args) => doctor::doctor(here, &args).await,
        Command::Config(args) => print_settings(here, &args),
        Command::Bridge { .. } => Err(Failure::new(Exit::Usage, "`bridge` must be the first word: roboco bridge …")),
        // Handled before there is an async runtime.
        Command::Up | Command::Demo(_) | Command::Completions { .. } => Ok(()),
    }
}

fn print_settings(here: &Here, args: &cli::ConfigArgs) -> Result<(), Failure> {
    let loaded = &here.loaded;
    if args.json {
        return here.screen.json(&serde_json::to_value(&loaded.config).unwrap_or_default());
    }
    let file = loaded.file.as_ref().map_or_else(|| "none".to_owned(), |file| file.display().to_string());
    let variables = if loaded.variables.is_empty() { "none".to_owned() } else { loaded.variables.join(", ") };
    let text = toml::to_string_pretty(&loaded.config).map_err(|error| Failure::broken(error.to_string()))?;
    here.screen.line(&format!("# data directory: {}\n# settings file: {file}\n# variables: {variables}\n", here.data.root().display()))?;
    here.screen.line(text.trim_end())
}

fn wrong_settings(error: config::ConfigError) -> Failure {
    Failure::new(Exit::Configuration, error.to_string())
}

fn on_all_cores() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn on_this_thread() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
