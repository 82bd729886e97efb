//! The CEO's decision in the demo: what it is based on, and where it comes from.

use std::io::{BufRead as _, IsTerminal as _};

use roboco_company::views::TaskView;
use roboco_domain::id::TaskId;
use tokio::sync::mpsc;

use crate::cli::Demo;
use crate::command::Here;
use crate::command::show::{judgement, section};
use crate::failure::Failure;
use crate::serve::Running;
use crate::terminal::{Style, clean};

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    Approve,
    Reject(String),
}

/// Where decisions come from, besides other commands.
#[derive(Debug)]
pub(super) struct Decisions {
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// `--yes`
    Always,
    /// Lines typed at this terminal.
    Typed(Option<mpsc::UnboundedReceiver<String>>),
    /// Nowhere.
    Elsewhere,
}

impl Decisions {
    pub(super) fn new(args: &Demo) -> Self {
        let somebody = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        Self {
            source: match () {
                () if args.yes => Source::Always,
                () if somebody => Source::Typed(None),
                () => Source::Elsewhere,
            },
        }
    }

    /// Whether a decision that was refused can be given again.
    pub(super) fn may_be_repeated(&self) -> bool {
        matches!(self.source, Source::Typed(_))
    }

    /// Waits for the next decision; for ever when none can come from here.
    pub(super) async fn next(&mut self) -> Decision {
        match &mut self.source {
            Source::Always => Decision::Approve,
            Source::Elsewhere => std::future::pending().await,
            Source::Typed(lines) => {
                let lines = lines.get_or_insert_with(read_lines);
                loop {
                    match lines.recv().await.as_deref().map(parse) {
                        Some(Ok(decision)) => return decision,
                        Some(Err(help)) => eprintln!("{help}"),
                        // The terminal was closed; another command may still decide.
                        None => std::future::pending::<()>().await,
                    }
                }
            }
        }
    }
}

/// Reads the terminal from a thread of its own, which lives until the process ends: a read of a terminal cannot be cancelled.
fn read_lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

fn parse(line: &str) -> Result<Decision, &'static str> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match (word.to_ascii_lowercase().as_str(), rest.trim()) {
        ("approve", _) => Ok(Decision::Approve),
        ("reject", "") => Err("say why: reject <reason>"),
        ("reject", reason) => Ok(Decision::Reject(reason.to_owned())),
        _ => Err("type `approve`, or `reject <reason>`"),
    }
}

/// Prints what the decision is about: what changed, the criteria with their proof, the checks, and how to decide.
///
/// # Errors
/// The output is closed.
pub(super) async fn show(here: &Here, running: &Running, view: &TaskView, decisions: &Decisions) -> Result<(), Failure> {
    let screen = here.screen;
    section(here, &format!("{} waits for your decision", view.row.number))?;
    section(here, "changes")?;
    for line in stat(running, view).await.lines() {
        screen.line(&format!("  {}", clean(line)))?;
    }
    judgement(here, view)?;
    let number = &view.row.number;
    screen.line(&format!("\ndecide with\n  {0} approve {number}\n  {0} reject {number} <reason>", here.roboco()))?;
    if decisions.may_be_repeated() {
        screen.line(&screen.paint(Style::Dim, "or type `approve` or `reject <reason>` here"))?;
    }
    screen.line("")
}

async fn stat(running: &Running, view: &TaskView) -> String {
    let task = match view.row.id.parse::<TaskId>() {
        Ok(id) => running.company().store().task(id).await.ok().flatten(),
        Err(_) => None,
    };
    let Some(task) = task else { return "the changes could not be read".to_owned() };
    let evidence = running.company().evidence(&task).await;
    evidence.get("stat").and_then(|stat| stat.as_str()).unwrap_or("the changes could not be read").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_decisions_are_read_or_explained() {
        assert_eq!(parse(" approve "), Ok(Decision::Approve));
        assert_eq!(parse("Reject  the empty list  "), Ok(Decision::Reject("the empty list".into())));
        assert_eq!(parse("reject"), Err("say why: reject <reason>"));
        assert!(parse("yes").is_err() && parse("").is_err());
    }
}
