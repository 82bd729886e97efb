//! How fast an agent's client has its verbs when it starts a server of them, and what such a server needs to be there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::Length;
use crate::load::Run;
use crate::place::Place;
use crate::server::memory_mib;
use crate::table::{figure, head, median, millis};

/// Starts each server again and again and speaks the beginning of MCP to it.
pub(crate) fn measure(place: &Place, length: Length) -> Result<()> {
    head(
        "Servers of verbs on standard input and output",
        "From the start of the process to its answer to `tools/list`, which is sent together with `initialize`; every start is a new\n\
         process. Memory is read after that answer; a part of it are pages of the program that all its processes share.",
    );
    let starts = match length {
        Length::Full => 50,
        Length::Quick => 10,
    };
    for word in ["flow", "do"] {
        let mut times = Vec::new();
        let mut resident: f64 = 0.0;
        let mut own: f64 = 0.0;
        for _ in 0..starts {
            let mut bridge = Bridge::start(place, word, &[])?;
            times.push(bridge.greet()?);
            let pid = bridge.process.id();
            resident = resident.max(memory_mib(pid, "VmRSS")?);
            own = own.max(memory_mib(pid, "RssAnon")?);
            bridge.end()?;
        }
        let middle = median(&times).context("nothing was started")?;
        figure(&format!("bridge {word}: tools listed, median of {starts}"), &millis(middle), "<= 20 ms");
        figure(&format!("bridge {word}: tools listed, slowest"), &millis(times.iter().copied().max().unwrap_or_default()), "");
        figure(&format!("bridge {word}: resident memory, most"), &format!("{resident:.1} MiB"), "<= 12 MB");
        figure(&format!("bridge {word}: of that its own"), &format!("{own:.1} MiB"), "");
    }
    Ok(())
}

/// How long `give_me_work` takes a client of `bridge flow`, which asks a running company, call after call.
pub(crate) fn verb(place: &Place, company: SocketAddr, run: &Run, length: Length) -> Result<Vec<Duration>> {
    let (agent, url) = (run.agent.to_string(), format!("http://{company}"));
    let more = [
        ("ROBOCO_AGENT_ID", agent.as_str()),
        ("ROBOCO_AGENT_ROLE", run.role.as_str()),
        ("ROBOCO_AGENT_TOKEN", &run.token),
        ("ROBOCO_ORCHESTRATOR_URL", &url),
    ];
    let mut bridge = Bridge::start(place, "flow", &more)?;
    bridge.greet()?;
    let calls = match length {
        Length::Full => 500,
        Length::Quick => 100,
    };
    let mut times = Vec::new();
    for id in 0..calls {
        let began = Instant::now();
        let call = json!({"jsonrpc": "2.0", "id": 10 + id, "method": "tools/call", "params": {"name": "give_me_work", "arguments": {}}});
        bridge.say(&format!("{call}\n"))?;
        let answer = bridge.line()?;
        times.push(began.elapsed());
        ensure!(answer["result"]["isError"] == false, "give_me_work was refused: {answer}");
    }
    bridge.end()?;
    Ok(times)
}

/// A server and the client's ends of its pipes. Dropped, it is killed.
struct Bridge {
    process: Child,
    began: Instant,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Bridge {
    /// `more` is set over the environment of an agent that nobody knows.
    fn start(place: &Place, word: &str, more: &[(&str, &str)]) -> Result<Self> {
        let mut command = place.command(&place.binary);
        command.args(["bridge", word]).env("ROBOCO_AGENT_ID", "00000000-0000-0000-0001-000000000001");
        command.env("ROBOCO_AGENT_ROLE", "developer").env("ROBOCO_AGENT_TOKEN", "a token that nobody looks at here");
        command.envs(more.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let began = Instant::now();
        let mut process = command.spawn().with_context(|| format!("{} could not be started", place.binary.display()))?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().context("a process has no output")?);
        Ok(Self { process, began, input, output })
    }

    /// Says hello and asks for the tools; the time since the start of the process.
    fn greet(&mut self) -> Result<Duration> {
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
        let messages = [
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        ];
        let text: String = messages.iter().map(|message| format!("{message}\n")).collect();
        self.say(&text)?;
        let (greeted, listed) = (self.line()?, self.line()?);
        let took = self.began.elapsed();
        ensure!(greeted["result"]["serverInfo"]["name"].is_string(), "no greeting: {greeted}");
        ensure!(listed["result"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "no tools: {listed}");
        Ok(took)
    }

    fn say(&mut self, text: &str) -> Result<()> {
        Ok(self.input.as_mut().context("the input is closed")?.write_all(text.as_bytes())?)
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("the bridge ended with {}", self.process.wait()?);
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Closes its input, which ends it.
    fn end(mut self) -> Result<()> {
        self.input = None;
        let status = self.process.wait()?;
        ensure!(status.success(), "the bridge ended with {status}");
        Ok(())
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None))
            && let Err(error) = self.process.kill().and_then(|()| self.process.wait())
        {
            eprintln!("process {} could not be killed: {error}", self.process.id());
        }
    }
}
