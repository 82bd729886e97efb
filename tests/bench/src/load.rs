//! Verbs under load: latency and throughput at several numbers of clients, for answers that are given and for answers that are refused.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use roboco_domain::command::AgentActor;
use roboco_domain::id::{AgentId, CompanyId, SpawnId};
use roboco_domain::role::Role;
use roboco_domain::roster::Roster;
use roboco_domain::spawn::Epoch;
use roboco_domain::time::Timestamp;
use roboco_gateway::Keys;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::Length;
use crate::bridge;
use crate::company;
use crate::place::{Place, ROSTER};
use crate::server::Server;
use crate::table::{figure, head, median, millis};
use crate::wire::Client;

const CLIENTS: &[usize] = &[1, 8, 32];
/// Refusals of one verb on one task that are still given by the rules: the next one opens the breaker.
const REFUSALS: &[(&str, usize)] = &[("open_pr", 4), ("unclaim", 2), ("i_am_blocked", 2)];

/// What is called.
#[derive(Debug, Clone)]
struct Call {
    path: String,
    body: Bytes,
}

/// What every answer must be, so that nothing cheaper is measured by accident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Accepted,
    /// Refused, but not by the breaker.
    Refused,
    CircuitOpen,
}

/// What one row of the table is made of.
struct Measured {
    /// Microseconds of the answers that were as expected.
    times: Histogram<u64>,
    took: Duration,
    /// Answers that were not, with the first of them.
    other: (u64, Option<String>),
}

/// Measures the verbs of one developer whose agent keeps still meanwhile.
pub(crate) async fn measure(place: &Place, length: Length) -> Result<()> {
    // One agent at a time: the seat that is used here has it, and nobody takes the other tasks.
    let server = Server::start(place, 1)?;
    let mut ceo = company::ceo(place, &server).await?;
    company::add_project(place, &mut ceo).await?;
    let task = company::create_task(&mut ceo, "Keep still while others speak").await?;
    let events = company::until(&mut ceo, &task, "task.started").await?;
    let run = run_of_task(place, &events)?;
    let subjects = match length {
        Length::Full => 400,
        Length::Quick => 100,
    };
    let mut fresh = Vec::new();
    for nth in 0..subjects {
        fresh.push(company::create_task(&mut ceo, &format!("Nobody's number {nth}")).await?);
    }
    let (warm_up, time) = match length {
        Length::Full => (Duration::from_millis(500), Duration::from_secs(3)),
        Length::Quick => (Duration::from_millis(200), Duration::from_millis(700)),
    };

    head(
        &format!("Verbs over TCP, {:.1} s each after a warm-up", time.as_secs_f64()),
        &format!(
            "One run of one developer, kept connections, every body parsed; {subjects} other tasks are open. Refused: verbs on tasks of\n\
             nobody, each asked less often than opens the breaker, so as many calls as there are fresh subjects instead of a time.\n\
             Circuit open: the same refusal after the breaker opened. Notes are durable writes to one and the same task."
        ),
    );
    let times = bridge::verb(place, server.address, &run, length)?;
    let name = format!("give_me_work through `bridge flow`, median of {}", times.len());
    figure(&name, &millis(median(&times).unwrap_or_default()), "");
    let bench = Bench { server: &server, token: run.token, warm_up, time };
    let work = Call { path: "/api/v1/flow/developer/give_me_work".into(), body: Bytes::from_static(b"{}") };
    bench.timed("give_me_work", Expect::Accepted, &|_| work.clone()).await?;
    let note = |nth: u64| json!({ "text": format!("Looked at count.txt for the {nth}. time; its line is still in its place.") });
    bench.timed("note", Expect::Accepted, &|nth| Call { path: "/api/v1/do/note".into(), body: note(nth).to_string().into() }).await?;
    bench.counted("refused by a rule", refusals(&fresh)).await?;
    let shut = unclaim(&task_that_opens(&bench, &fresh).await?);
    bench.timed("refused, circuit open", Expect::CircuitOpen, &|_| shut.clone()).await?;
    figure("resident memory after the load", &format!("{:.1} MiB", server.resident_mib()?), "");
    server.stop()
}

struct Bench<'b> {
    server: &'b Server,
    token: String,
    warm_up: Duration,
    time: Duration,
}

impl Bench<'_> {
    /// Calls for a time, at every number of clients.
    async fn timed(&self, name: &str, expect: Expect, call: &dyn Fn(u64) -> Call) -> Result<()> {
        let nth = Cell::new(0);
        let next = || {
            nth.set(nth.get() + 1);
            Some(call(nth.get()))
        };
        for clients in CLIENTS {
            let mut connections = self.connect(*clients).await?;
            self.run(&mut connections, expect, Some(self.warm_up), &next).await?;
            row(name, *clients, &self.run(&mut connections, expect, Some(self.time), &next).await?);
        }
        Ok(())
    }

    /// Makes these calls once, in equal parts at every number of clients.
    async fn counted(&self, name: &str, calls: Vec<Call>) -> Result<()> {
        for (clients, part) in CLIENTS.iter().zip(calls.chunks(calls.len().div_ceil(CLIENTS.len()))) {
            let mut connections = self.connect(*clients).await?;
            let left = Cell::new(part.iter());
            let next = || {
                let mut rest = left.take();
                let call = rest.next().cloned();
                left.set(rest);
                call
            };
            row(name, *clients, &self.run(&mut connections, Expect::Refused, None, &next).await?);
        }
        Ok(())
    }

    async fn connect(&self, clients: usize) -> Result<Vec<Client>> {
        let mut connections = Vec::with_capacity(clients);
        for _ in 0..clients {
            connections.push(Client::connect(self.server.address, &self.token).await?);
        }
        Ok(connections)
    }

    /// Lets every connection send one call after the other, until the time is over or nothing is left to call.
    async fn run(
        &self,
        connections: &mut [Client],
        expect: Expect,
        limit: Option<Duration>,
        next: &dyn Fn() -> Option<Call>,
    ) -> Result<Measured> {
        let began = Instant::now();
        let each = connections.iter_mut().map(async |client| -> Result<Measured> {
            let (mut times, mut other) = (Histogram::new(3)?, (0, None));
            while limit.is_none_or(|limit| began.elapsed() < limit)
                && let Some(call) = next()
            {
                let sent = Instant::now();
                let (status, answer) = client.send(Method::POST, &call.path, call.body).await?;
                let took = sent.elapsed();
                match check(&call.path, status, &answer, expect) {
                    Ok(()) => times.record(u64::try_from(took.as_micros())?)?,
                    Err(error) => {
                        other.0 += 1;
                        other.1.get_or_insert_with(|| error.to_string());
                    }
                }
            }
            Ok(Measured { times, took: began.elapsed(), other })
        });
        let mut whole = Measured { times: Histogram::new(3)?, took: Duration::ZERO, other: (0, None) };
        for Measured { times, took, other } in futures::future::try_join_all(each).await? {
            whole.times.add(times)?;
            whole.took = whole.took.max(took);
            whole.other = (whole.other.0 + other.0, whole.other.1.or(other.1));
        }
        Ok(whole)
    }
}

fn check(path: &str, status: StatusCode, answer: &Value, expect: Expect) -> Result<()> {
    let got = match answer["error"].as_str() {
        None => Expect::Accepted,
        Some("circuit_open") => Expect::CircuitOpen,
        Some(_) => Expect::Refused,
    };
    let said = || format!("{}: {}", answer["error"].as_str().unwrap_or("no error"), answer["message"].as_str().unwrap_or_default());
    ensure!(status == StatusCode::OK && got == expect, "{path} answered {status}, {}", said());
    Ok(())
}

fn row(name: &str, clients: usize, Measured { times, took, other }: &Measured) {
    let quantile = |q: f64| millis(Duration::from_micros(times.value_at_quantile(q)));
    let rate = times.len() as f64 / took.as_secs_f64();
    let aim = if clients == 32 && name != "note" { "aim >= 3000/s, p99 <= 25 ms" } else { "" };
    let max = millis(Duration::from_micros(times.max()));
    let line = format!(
        "  {name:<22} {clients:>2} clients {rate:>8.0}/s  p50 {:>8}  p99 {:>8}  max {max:>8}   {aim}",
        quantile(0.5),
        quantile(0.99)
    );
    println!("{}", line.trim_end());
    if let (count, Some(first)) = other {
        println!("      {count} more answers were of another kind and are not counted above; the first: {first}");
    }
}

/// Calls that the rules refuse because the task is nobody's, none of them often enough to open a breaker.
fn refusals(tasks: &[String]) -> Vec<Call> {
    let of = |task: &String, verb: &str, nth: usize| {
        let mut arguments = json!({ "task_id": task });
        if verb == "i_am_blocked" {
            arguments["reason"] = format!("The specification contradicts itself in two places, round {nth}.").into();
        }
        Call { path: format!("/api/v1/flow/developer/{verb}"), body: arguments.to_string().into() }
    };
    let every = REFUSALS.iter().flat_map(|(verb, times)| (0..*times).map(move |nth| (*verb, nth)));
    every.flat_map(|(verb, nth)| tasks.iter().map(move |task| of(task, verb, nth))).collect()
}

fn unclaim(task: &str) -> Call {
    Call { path: "/api/v1/flow/developer/unclaim".into(), body: json!({ "task_id": task }).to_string().into() }
}

/// Asks once more for one of the tasks: with that the breaker is open.
async fn task_that_opens(bench: &Bench<'_>, tasks: &[String]) -> Result<String> {
    let task = tasks.first().context("there is no task to refuse")?;
    let mut client = Client::connect(bench.server.address, &bench.token).await?;
    let Call { path, body } = unclaim(task);
    let (status, answer) = client.send(Method::POST, &path, body).await?;
    check(&path, status, &answer, Expect::CircuitOpen)?;
    Ok(task.clone())
}

/// A run that is under way, and a token of it.
pub(crate) struct Run {
    pub(crate) agent: AgentId,
    pub(crate) role: Role,
    pub(crate) token: String,
}

/// The token of the run that holds the task, made with the keys of the installation: its own is known to its client only.
fn run_of_task(place: &Place, events: &[Value]) -> Result<Run> {
    let spawn = events.iter().rev().find(|event| event["kind"] == "spawn.intended").map(|event| &event["data"]["spawn"]);
    let Some(spawn) = spawn else { bail!("no run was intended for the task that keeps still") };
    let id: SpawnId = serde_json::from_value(spawn["id"].clone()).context("the run has no id")?;
    let epoch: Epoch = serde_json::from_value(spawn["epoch"].clone()).context("the run has no epoch")?;
    let roster = Roster::parse(CompanyId::new(uuid::Uuid::nil()), ROSTER)?;
    let seat = serde_json::from_value(spawn["agent"].clone()).ok().and_then(|agent| roster.agent(agent));
    let seat = seat.context("the run's agent is not in the roster")?;
    let secrets: toml::Table = std::fs::read_to_string(place.data().join("secrets.toml"))?.parse()?;
    let secret = secrets.get("agent_tokens").and_then(toml::Value::as_str).context("secrets.toml has no agent_tokens")?;
    let actor = AgentActor { agent: seat.id, role: seat.role, team: seat.team.clone(), spawn: id, epoch };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let token = Keys::from_secret(SecretString::from(secret))?.mint(&actor, Timestamp::from_millis(i64::try_from(now.as_millis())?))?;
    Ok(Run { agent: seat.id, role: seat.role, token: token.expose_secret().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_verb_is_refused_often_enough_on_one_task_to_open_its_breaker() {
        let calls = refusals(&["T-1".into(), "T-2".into()]);
        assert_eq!(calls.len(), 16);
        for (verb, cap) in [("open_pr", 5), ("unclaim", 3), ("i_am_blocked", 3)] {
            for task in ["T-1", "T-2"] {
                let about = |call: &&Call| call.path.ends_with(verb) && String::from_utf8_lossy(&call.body).contains(task);
                assert_eq!(calls.iter().filter(about).count(), cap - 1, "{verb} of {task}");
            }
        }
    }

    #[test]
    fn an_answer_of_another_kind_ends_the_measurement() {
        let check = |answer: Value, expect| check("/x", StatusCode::OK, &answer, expect).is_ok();
        assert!(check(json!({ "error": null }), Expect::Accepted));
        assert!(check(json!({ "error": "not_authorized" }), Expect::Refused));
        assert!(check(json!({ "error": "circuit_open" }), Expect::CircuitOpen));
        assert!(!check(json!({ "error": "circuit_open" }), Expect::Refused));
        assert!(!check(json!({ "error": "unavailable" }), Expect::Accepted));
    }
}
