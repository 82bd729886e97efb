//! `kill-demo`: kills the running demo at random moments, starts it again on the same data, and checks that the work arrives exactly once.
//!
//! First one company runs undisturbed; how long it takes bounds the kill moments, and what it delivers is the standard. Then companies are
//! started one after another. Every start draws a moment uniformly between 0.2 s and that duration. Still running then: it is killed
//! without warning and started again on the same data. Finished before: the company is inspected and the next one begins. So a company is
//! killed as often as chance wants, at every stage of its work, until the wanted number of kills has landed. All draws come from one seed.
//!
//! Processes are told apart by the label that every sandbox carries, so nothing else that starts sandboxes may run on the machine meanwhile.

mod census;
mod company;
mod dice;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};

use crate::prerequisites::{self, Tool};
use crate::run;
use crate::workspace::Workspace;
use census::Watch;
use company::{Company, Delivery, Run};
use dice::Dice;

const DEFAULT_KILLS: u32 = 10;
/// Before this the process has hardly opened its database.
const EARLIEST_KILL: Duration = Duration::from_millis(200);
/// No start of the demo may take longer, however often it was killed before.
const RUN_DEADLINE: Duration = Duration::from_secs(240);
/// How often a running demo and its sandboxes are looked at.
const TICK: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Options {
    kills: u32,
    seed: u64,
}

impl Options {
    fn parse(arguments: &[String], default_seed: u64) -> Result<Self> {
        let mut options = Self { kills: DEFAULT_KILLS, seed: default_seed };
        let mut words = arguments.iter();
        while let Some(name) = words.next() {
            let value = words.next().with_context(|| format!("{name} needs a number"))?;
            match name.as_str() {
                "--kills" => options.kills = value.parse().context("--kills needs a number")?,
                "--seed" => options.seed = value.parse().context("--seed needs a number")?,
                other => bail!("unknown option {other}: kill-demo knows --kills and --seed"),
            }
        }
        Ok(options)
    }
}

/// Builds the product and runs the whole exercise. On failure the data and the logs stay where the message says.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let clock_seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_micros() % 1_000_000_000;
    let options = Options::parse(arguments, u64::try_from(clock_seed)?)?;
    prerequisites::ensure(&[Tool::Bubblewrap])?;
    run::build(workspace)?;
    println!("kill-demo: {} kills, seed {}", options.kills, options.seed);

    let folder = tempfile::Builder::new().prefix("roboco-kill-").tempdir()?.keep();
    let exercise = Exercise { binary: workspace.release_binary("roboco"), folder: folder.clone(), label: census::LABEL };
    exercise.run(options).with_context(|| format!("seed {}, data and logs are in {}", options.seed, folder.display()))?;
    std::fs::remove_dir_all(&folder).with_context(|| format!("{} could not be removed", folder.display()))
}

struct Exercise {
    binary: PathBuf,
    folder: PathBuf,
    /// Which setting marks the processes of a sandbox.
    label: &'static str,
}

/// How one start of the demo ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Finished,
    Killed,
}

impl Exercise {
    fn run(&self, options: Options) -> Result<()> {
        let (standard, duration) = self.undisturbed()?;
        println!("undisturbed: {:.1} s, {} commits and one merge", duration.as_secs_f64(), standard.commits.len());

        let mut dice = Dice::new(options.seed);
        let mut kills = 0;
        let mut companies = 0;
        while kills < options.kills {
            companies += 1;
            let company = self.company(&format!("company-{companies}"))?;
            let mut watch = Watch::start(self.label)?;
            let mut here = 0;
            loop {
                let moment = (kills < options.kills).then(|| dice.between(EARLIEST_KILL, duration));
                match start_once(&company, &mut watch, moment).with_context(|| format!("company {companies} after {here} kills"))? {
                    End::Finished => break,
                    End::Killed => {
                        kills += 1;
                        here += 1;
                        println!("kill {kills}: company {companies}, {:.2} s after its start", moment.unwrap_or_default().as_secs_f64());
                    }
                }
            }
            inspect(&company, &mut watch, &standard).with_context(|| format!("company {companies} after {here} kills"))?;
            println!("company {companies}: {here} kills, task completed, one merge, same commits and files as undisturbed");
        }
        println!("kill-demo: {kills} kills over {companies} companies (seed {}): nothing lost, nothing done twice", options.seed);
        Ok(())
    }

    fn undisturbed(&self) -> Result<(Delivery, Duration)> {
        let company = self.company("undisturbed")?;
        let mut watch = Watch::start(self.label)?;
        let started = Instant::now();
        start_once(&company, &mut watch, None).context("the demo does not even work undisturbed")?;
        let duration = started.elapsed();
        ensure!(duration > EARLIEST_KILL * 2, "the demo ended after {duration:?}, which leaves no time to kill it");
        let standard = company.delivery().context("the demo does not even work undisturbed")?;
        inspect(&company, &mut watch, &standard).context("the demo does not even work undisturbed")?;
        Ok((standard, duration))
    }

    fn company(&self, name: &str) -> Result<Company> {
        Company::new(&self.binary, &self.folder.join(name))
    }
}

/// Starts the demo once and either lets it end or kills it at the given moment.
fn start_once(company: &Company, watch: &mut Watch, kill_after: Option<Duration>) -> Result<End> {
    let started = Instant::now();
    let mut run = company.start()?;
    loop {
        watch.look()?;
        if let Some(status) = run.ended()? {
            ensure!(status.success(), "the demo ended with {status}\n{}", tail(run.log()));
            return Ok(End::Finished);
        }
        if kill_after.is_some_and(|moment| started.elapsed() >= moment) {
            run.kill()?;
            watch.server_died()?;
            return Ok(End::Killed);
        }
        if started.elapsed() > RUN_DEADLINE {
            give_up(&mut run)?;
        }
        let to_kill = kill_after.map_or(TICK, |moment| moment.saturating_sub(started.elapsed()));
        std::thread::sleep(TICK.min(to_kill));
    }
}

fn give_up(run: &mut Run) -> Result<()> {
    run.kill()?;
    bail!("the demo did not end within {} s\n{}", RUN_DEADLINE.as_secs(), tail(run.log()))
}

/// What must be true of a company whose demo has ended.
fn inspect(company: &Company, watch: &mut Watch, standard: &Delivery) -> Result<()> {
    watch.nothing_left(census::SETTLE)?;
    company.task_is_completed()?;
    let delivery = company.delivery()?;
    ensure!(delivery == *standard, "delivered {delivery:#?}\ninstead of {standard:#?}");
    Ok(())
}

/// The last lines of a log, for the error message.
fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(String::from).collect()
    }

    /// Plays the product: prepares a repository, works, merges, lingers. Only the merge differs between a careful and a careless one.
    const PRODUCT: &str = r#"#!/bin/sh
set -eu
case "$1" in
  --data-dir) data=$2; shift 2 ;;
  demo) data=$5 ;;
esac
case "$1" in
  up) exec sleep 60 ;;
  task) echo '{"task":{"status":"completed"},"spawns":[]}'; exit ;;
esac
exec 9>"$data/lock"; flock 9
repo=$data/greeter
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@b
if [ ! -d "$repo" ]; then
  git init -q -b main "$data/new"; cd "$data/new"; echo '{}' >package.json; git add .; git commit -qm start; mv "$data/new" "$repo"
fi
cd "$repo"; sleep 0.3
if ! git rev-parse -q --verify work >/dev/null; then
  tree=$(git rev-parse 'HEAD^{tree}'); git branch work "$(git commit-tree -p HEAD -m 'feat: work' "$tree")"
fi
sleep 0.3
MERGE
sleep 0.6
"#;
    const MERGE: &str = r#"git update-ref refs/heads/main "$(git commit-tree -p main -p work -m "merge

Task: T-1" 'work^{tree}')""#;

    fn exercise(merge: &str, seed: u64) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let (text, binary) = (folder.path().join("product.sh"), folder.path().join("product"));
        std::fs::write(&text, PRODUCT.replace("MERGE", merge))?;
        // Written by another process: a program that one of our own threads has open for writing cannot be started.
        crate::shell::capture(crate::shell::command("install").args(["-m", "755"]).args([&text, &binary]))?;
        let exercise = Exercise { binary, folder: folder.path().join("run"), label: "ROBOCO_TEST_OF_THE_EXERCISE" };
        exercise.run(Options { kills: 3, seed })
    }

    #[test]
    fn a_product_that_merges_once_passes() {
        exercise(&format!("git merge-base --is-ancestor work main || {MERGE}"), 11).unwrap();
    }

    #[test]
    fn a_product_that_merges_again_after_a_kill_is_caught() {
        // Some of the first moments of some of these seeds fall behind the merge.
        let caught = (0..20).find_map(|seed| exercise(MERGE, seed).err()).expect("twenty seeds never killed it behind the merge");
        assert!(format!("{caught:#}").contains("2 merges") || format!("{caught:#}").contains("3 merges"), "{caught:#}");
    }

    #[test]
    fn options_are_read_or_explained() {
        assert_eq!(Options::parse(&[], 7).unwrap(), Options { kills: 10, seed: 7 });
        assert_eq!(Options::parse(&words("--seed 3 --kills 2"), 7).unwrap(), Options { kills: 2, seed: 3 });
        for wrong in ["--seed", "--seed x", "--kill 3"] {
            assert!(Options::parse(&words(wrong), 7).is_err(), "{wrong}");
        }
    }
}
