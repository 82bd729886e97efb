//! Which sandboxes are alive, read from the process table and not from what the product says about itself.
//!
//! Every process of a sandbox carries its name in the environment. A sandbox is many processes (the confinement, the bridge, the client,
//! what the client starts); counted are those whose parent does not carry the same name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The setting in the environment of everything that runs in a sandbox; its value is the sandbox's name.
pub(super) const LABEL: &str = "ROBOCO_SANDBOX";
/// How long processes may take to die after their owner died or ended.
pub(super) const SETTLE: Duration = Duration::from_secs(10);
/// Two roots of one name for longer than this are two live spawns, not one taking the place of the other.
const DUPLICATE_AFTER: Duration = Duration::from_secs(2);

/// One process, told apart from a later one with the same number by its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pid: u32,
    /// Clock ticks since boot.
    started: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Labelled {
    name: String,
    parent: u32,
}

/// All labelled processes at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Census {
    processes: BTreeMap<Process, Labelled>,
}

impl Census {
    /// Reads the process table for everything that carries the label.
    pub(super) fn take(label: &str) -> Result<Self> {
        let mut census = Self::default();
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A process that ends while we look, or belongs to somebody else, is none of ours.
            if let Some((started, labelled)) = read_process(&entry.path(), label) {
                census.processes.insert(Process { pid, started }, labelled);
            }
        }
        Ok(census)
    }

    /// Sandbox name to the processes at its top.
    fn roots(&self) -> BTreeMap<&str, BTreeSet<Process>> {
        let name_of: BTreeMap<u32, &str> = self.processes.iter().map(|(process, it)| (process.pid, it.name.as_str())).collect();
        let mut roots: BTreeMap<&str, BTreeSet<Process>> = BTreeMap::new();
        for (process, it) in &self.processes {
            if name_of.get(&it.parent) != Some(&it.name.as_str()) {
                roots.entry(&it.name).or_default().insert(*process);
            }
        }
        roots
    }
}

/// Follows the census over the life of one company and reports what must not be.
pub(super) struct Watch {
    label: &'static str,
    /// Alive before the company started: somebody else's.
    strangers: BTreeSet<Process>,
    /// Must be gone at the given time, because the server they belonged to was killed.
    doomed: Vec<(Instant, BTreeSet<Process>)>,
    /// Since when a pair of roots of one name lives side by side.
    pairs: BTreeMap<(Process, Process), Instant>,
}

impl Watch {
    /// A watch over whatever appears from now on.
    pub(super) fn start(label: &'static str) -> Result<Self> {
        Ok(Self::new(label, Census::take(label)?))
    }

    fn new(label: &'static str, before: Census) -> Self {
        Self { label, strangers: before.processes.into_keys().collect(), doomed: Vec::new(), pairs: BTreeMap::new() }
    }

    /// The server was killed just now: everything it had running must follow within [`SETTLE`].
    pub(super) fn server_died(&mut self) -> Result<()> {
        self.doom(&Census::take(self.label)?);
        Ok(())
    }

    fn doom(&mut self, census: &Census) {
        let alive = census.processes.keys().filter(|process| !self.strangers.contains(process)).copied().collect();
        self.doomed.push((Instant::now() + SETTLE, alive));
    }

    /// Fails when a dead server's processes outlive it, or one sandbox lives twice.
    pub(super) fn look(&mut self) -> Result<()> {
        self.look_at(&Census::take(self.label)?, Instant::now())
    }

    fn look_at(&mut self, census: &Census, now: Instant) -> Result<()> {
        for (_, doomed) in self.doomed.iter().filter(|(deadline, _)| *deadline <= now) {
            if let Some(process) = doomed.iter().find(|process| census.processes.contains_key(process)) {
                bail!("process {} still runs {} s after its server was killed", process.pid, SETTLE.as_secs());
            }
        }
        self.doomed.retain(|(deadline, _)| *deadline > now);

        let mut pairs = BTreeMap::new();
        for (name, roots) in census.roots() {
            let roots: Vec<Process> = roots.into_iter().filter(|process| !self.strangers.contains(process)).collect();
            for (index, first) in roots.iter().enumerate() {
                for second in &roots[index + 1..] {
                    let since = *self.pairs.get(&(*first, *second)).unwrap_or(&now);
                    if now.duration_since(since) > DUPLICATE_AFTER {
                        bail!("sandbox {name} lives twice: processes {} and {}", first.pid, second.pid);
                    }
                    pairs.insert((*first, *second), since);
                }
            }
        }
        self.pairs = pairs;
        Ok(())
    }

    /// Waits until no sandbox of this company is left, at most for the given time.
    pub(super) fn nothing_left(&mut self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            let census = Census::take(self.label)?;
            let left: Vec<_> = census.processes.iter().filter(|(process, _)| !self.strangers.contains(process)).collect();
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let names: Vec<String> = left.iter().map(|(process, it)| format!("{} ({})", process.pid, it.name)).collect();
                bail!("processes left behind: {}", names.join(", "));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn read_process(folder: &Path, label: &str) -> Option<(u64, Labelled)> {
    let environment = std::fs::read(folder.join("environ")).ok()?;
    let name = label_in(&environment, label)?;
    let (parent, started) = parse_stat(&std::fs::read_to_string(folder.join("stat")).ok()?)?;
    Some((started, Labelled { name, parent }))
}

fn label_in(environment: &[u8], label: &str) -> Option<String> {
    let value =
        |entry: &[u8]| entry.strip_prefix(label.as_bytes())?.strip_prefix(b"=").map(|name| String::from_utf8_lossy(name).into_owned());
    environment.split(|byte| *byte == 0).find_map(value)
}

/// Parent and start time. The program's name stands in parentheses and may itself contain blanks and parentheses.
fn parse_stat(stat: &str) -> Option<(u32, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // A zombie is dead; its parent has not looked yet.
    if matches!(fields.first(), Some(&"Z" | &"X")) {
        return None;
    }
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(processes: &[(u32, u32, &str)]) -> Census {
        let entry = |(pid, parent, name): &(u32, u32, &str)| {
            (Process { pid: *pid, started: 1 }, Labelled { name: (*name).into(), parent: *parent })
        };
        Census { processes: processes.iter().map(entry).collect() }
    }

    #[test]
    fn the_label_is_found_among_other_settings() {
        assert_eq!(label_in(b"PATH=/bin\0ROBOCO_SANDBOX=roboco-acme-be-qa\0A=b\0", LABEL).as_deref(), Some("roboco-acme-be-qa"));
        assert_eq!(label_in(b"PATH=/bin\0ROBOCO_SANDBOX_X=1\0", LABEL), None);
    }

    #[test]
    fn a_running_process_is_seen_until_it_ends() {
        const OWN: &str = "ROBOCO_TEST_OF_THE_CENSUS";
        let mut child = crate::shell::command("sleep").arg("60").env(OWN, "a").spawn().unwrap();
        // Right after its start a process may not show its environment yet.
        let deadline = Instant::now() + Duration::from_secs(20);
        let seen = loop {
            let seen = Census::take(OWN).unwrap().roots().get("a").and_then(|roots| roots.first().map(|root| root.pid));
            if seen.is_some() || Instant::now() > deadline {
                break seen;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        child.kill().unwrap();
        assert_eq!(seen, Some(child.id()));
        child.wait().unwrap();
        assert!(Census::take(OWN).unwrap().processes.is_empty());
    }

    #[test]
    fn odd_program_names_and_zombies_are_read_right() {
        let rest = "1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2";
        assert_eq!(parse_stat(&format!("7 (a ) b) S {rest}")), Some((1, 98765)));
        assert_eq!(parse_stat(&format!("7 (a) Z {rest}")), None);
    }

    #[test]
    fn one_sandbox_of_many_processes_is_one() {
        let start = Instant::now();
        let mut watch = Watch::new(LABEL, Census::default());
        let one = census(&[(10, 1, "a"), (11, 10, "a"), (12, 11, "a"), (20, 1, "b")]);
        watch.look_at(&one, start).unwrap();
        watch.look_at(&one, start + Duration::from_secs(60)).unwrap();
    }

    #[test]
    fn a_sandbox_that_lives_twice_is_reported_once_it_is_no_handover() {
        let start = Instant::now();
        let mut watch = Watch::new(LABEL, Census::default());
        let two = census(&[(10, 1, "a"), (20, 1, "a")]);
        watch.look_at(&two, start).unwrap();
        watch.look_at(&two, start + Duration::from_secs(1)).unwrap();
        let error = watch.look_at(&two, start + Duration::from_secs(3)).unwrap_err();
        assert!(error.to_string().contains("lives twice"), "{error}");
    }

    #[test]
    fn processes_that_outlive_their_server_are_reported_and_strangers_are_not() {
        let start = Instant::now();
        let mut watch = Watch::new(LABEL, census(&[(5, 1, "other")]));
        watch.doom(&census(&[(5, 1, "other"), (10, 1, "a")]));
        let later = start + SETTLE + Duration::from_secs(5);
        assert!(watch.look_at(&census(&[(10, 1, "a")]), later).is_err());
        let mut watch = Watch::new(LABEL, census(&[(5, 1, "other")]));
        watch.doom(&census(&[(5, 1, "other"), (10, 1, "a")]));
        watch.look_at(&census(&[(5, 1, "other"), (30, 1, "a")]), later).unwrap();
    }
}
