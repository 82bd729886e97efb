//! One actor per spawn: starts its sandbox, feeds and reads its client, watches it, and says how it ended.

use std::sync::Arc;
use std::time::Duration;

use roboco_company::fault::Fault;
use roboco_domain::command::SystemCommand;
use roboco_domain::limits;
use roboco_domain::outcome::Outcome;
use roboco_domain::spawn::{Spawn, Usage};
use roboco_domain::verb::Verb;
use roboco_providers::{Channel, ClientEvent, Ending, Exit, McpState, Parser, Provider, Spend, TurnEnd};
use roboco_sandbox::{ClientInput, ClientIo, Memory, Sandbox};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::Shared;
use crate::launch::{Order, prepare, release};
use crate::record::record;
use crate::transcript::Transcript;

/// What the supervisor tells an actor.
#[derive(Debug, Clone)]
pub(crate) enum Instruction {
    /// It must end; why.
    Stop(String),
    /// It must end when its turn is over; why.
    Leave(String),
    /// It need not end after all.
    Stay,
    /// The control plane shuts down.
    Shutdown,
}

/// Runs a spawn to its end and records it. Never panics on what a client does.
pub(crate) async fn run(shared: Arc<Shared>, spawn: Spawn, mut orders: mpsc::Receiver<Instruction>) {
    let id = spawn.id;
    let ended = spawn.clone();
    let (outcome, usage) = match start(&shared, &spawn).await {
        Ok((sandbox, order)) => {
            let mut actor = Actor::new(Arc::clone(&shared), spawn, sandbox, order.provider);
            let outcome = actor.live(order.first_input, &mut orders).await;
            actor.transcript.add("end", outcome.word());
            actor.transcript.flush().await;
            (outcome, actor.usage())
        }
        Err(fault) => {
            tracing::error!(spawn = %spawn.number, fault = fault.message, "the spawn could not be started");
            (Outcome::Crashed { code: None, detail: fault.message }, Usage::default())
        }
    };
    shared.parts.door.forget(id);
    if let Err(fault) = release(&shared, &ended).await {
        tracing::warn!(spawn = %ended.number, fault = fault.message, "the tree it read in stays until the next run for this task");
    }
    // The row must say how it ended, or its seat would stay taken.
    record(shared.company(), &format!("the end of spawn {id}"), SystemCommand::SpawnEnded { spawn: id, outcome, usage }).await;
}

async fn start(shared: &Arc<Shared>, spawn: &Spawn) -> Result<(Sandbox, Order), Fault> {
    let task = shared.company().store().task(spawn.task).await?.ok_or_else(|| Fault::lasting("its task is gone"))?;
    let order = prepare(shared, spawn, &task).await?;
    let sandbox = shared.parts.driver.start(&order.sandbox).await.map_err(|e| Fault::passing(e.to_string()))?;
    shared.company().execute_system(SystemCommand::SpawnStarted { spawn: spawn.id }).await?;
    Ok((sandbox, order))
}

/// What the watchdog knows of a client.
struct Watch {
    started: Instant,
    last_event: Instant,
    open_tools: u32,
    tool_calls: u32,
}

impl Watch {
    /// When it is too late, and what was waited for.
    fn deadline(&self) -> (Instant, &'static str) {
        let (stall, what) = if self.open_tools > 0 {
            (self.last_event + limits::STALL_IN_TOOL, "no sign of life inside a tool call")
        } else {
            (self.last_event + limits::STALL, "no sign of life from the client")
        };
        let wall = self.started + limits::SPAWN_WALL;
        if wall < stall { (wall, "it ran as long as any run may") } else { (stall, what) }
    }
}

struct Actor {
    shared: Arc<Shared>,
    spawn: Spawn,
    sandbox: Sandbox,
    provider: Box<dyn Provider>,
    parser: Box<dyn Parser>,
    transcript: Transcript,
    watch: Watch,
    nudged: bool,
    /// Why it ends after this turn, once it must.
    leaving: Option<String>,
    /// Why the client is being ended, once it is.
    ending: Option<Outcome>,
    /// When its last grace is over.
    grace: Option<Instant>,
    reported: Usage,
}

enum Step {
    Goes,
    Ended(Outcome),
}

impl Actor {
    fn new(shared: Arc<Shared>, spawn: Spawn, sandbox: Sandbox, provider: Box<dyn Provider>) -> Self {
        let now = Instant::now();
        let parser = provider.parser(Spend::default());
        let transcript = Transcript::new(Arc::clone(&shared), spawn.id);
        let watch = Watch { started: now, last_event: now, open_tools: 0, tool_calls: 0 };
        Self {
            shared,
            spawn,
            sandbox,
            provider,
            parser,
            transcript,
            watch,
            nudged: false,
            leaving: None,
            ending: None,
            grace: None,
            reported: Usage::default(),
        }
    }

    fn usage(&self) -> Usage {
        self.reported
    }

    async fn live(&mut self, first_input: Vec<String>, orders: &mut mpsc::Receiver<Instruction>) -> Outcome {
        for line in first_input {
            self.transcript.add("input", &line);
            if let Err(error) = self.sandbox.send(ClientInput::Line(line)).await {
                return Outcome::Crashed { code: None, detail: error.to_string() };
            }
        }
        let mut flush = tokio::time::interval(Duration::from_millis(250));
        let mut heartbeat = tokio::time::interval_at(Instant::now() + limits::LEASE_RENEWAL, limits::LEASE_RENEWAL);
        loop {
            let (deadline, what) = self.watch.deadline();
            let grace = self.grace.unwrap_or(deadline);
            let step = tokio::select! {
                io = self.sandbox.next() => self.on_io(io).await,
                order = orders.recv(), if self.ending.is_none() => self.obey(order.unwrap_or(Instruction::Shutdown)).await,
                _ = flush.tick() => {
                    self.transcript.flush().await;
                    self.check_closed().await
                }
                _ = heartbeat.tick() => {
                    self.renew().await;
                    Step::Goes
                }
                () = tokio::time::sleep_until(deadline), if self.ending.is_none() => {
                    self.end(Outcome::Stalled { detail: what.into() }).await
                }
                () = tokio::time::sleep_until(grace), if self.grace.is_some() => {
                    self.sandbox.kill();
                    self.grace = None;
                    Step::Goes
                }
            };
            if let Step::Ended(outcome) = step {
                return outcome;
            }
        }
    }

    async fn obey(&mut self, order: Instruction) -> Step {
        match order {
            Instruction::Stop(reason) => return self.end(Outcome::Stopped { reason }).await,
            Instruction::Shutdown => return self.end(Outcome::Shutdown).await,
            Instruction::Leave(reason) => {
                tracing::info!(spawn = %self.spawn.number, reason, "it ends after this turn");
                self.leaving = Some(reason);
            }
            Instruction::Stay => {
                tracing::info!(spawn = %self.spawn.number, "it goes on after all");
                self.leaving = None;
            }
        }
        Step::Goes
    }

    /// Asks the client to end; kills it when it does not.
    async fn end(&mut self, outcome: Outcome) -> Step {
        tracing::info!(spawn = %self.spawn.number, outcome = outcome.word(), "ending the client");
        self.ending.get_or_insert(outcome);
        let stop = ClientInput::Stop { grace: limits::STOP_DRAIN };
        if self.sandbox.send(stop).await.is_err() {
            self.sandbox.kill();
        }
        self.grace = Some(Instant::now() + limits::STOP_DRAIN + Duration::from_secs(5));
        Step::Goes
    }

    async fn on_io(&mut self, io: Option<ClientIo>) -> Step {
        match io {
            Some(ClientIo::Out(line)) => self.on_line(Channel::Out, &line).await,
            Some(ClientIo::Err(line)) => self.on_line(Channel::Err, &line).await,
            Some(ClientIo::Exit(exit)) => {
                let exit = match exit {
                    roboco_sandbox::Exit::Code(code) => Exit { code: Some(code), signal: None },
                    roboco_sandbox::Exit::Signal(signal) => Exit { code: None, signal: Some(signal) },
                };
                Step::Ended(self.outcome(exit).await)
            }
            Some(ClientIo::Lost(why)) => {
                let lost = self.ending.take().unwrap_or(Outcome::Crashed { code: None, detail: why });
                Step::Ended(self.completed().await.unwrap_or(lost))
            }
            None => Step::Ended(self.ending.take().unwrap_or(Outcome::Crashed { code: None, detail: "its sandbox is gone".into() })),
        }
    }

    async fn on_line(&mut self, channel: Channel, line: &str) -> Step {
        let mut step = Step::Goes;
        for event in self.parser.line(self.shared.now(), channel, line) {
            self.watch.last_event = Instant::now();
            self.transcript.event(&event);
            if self.transcript.is_full() {
                self.transcript.flush().await;
            }
            step = self.on_event(event).await;
            if matches!(step, Step::Ended(_)) {
                break;
            }
        }
        step
    }

    async fn on_event(&mut self, event: ClientEvent) -> Step {
        match event {
            ClientEvent::Ready { session, mcp, .. } => {
                if let Some(session) = session {
                    let named = SystemCommand::SpawnSession { spawn: self.spawn.id, session };
                    if let Err(fault) = self.shared.company().execute_system(named).await {
                        tracing::warn!(spawn = %self.spawn.number, fault = fault.message, "the session could not be recorded");
                    }
                }
                match mcp {
                    McpState::Failed(detail) if self.ending.is_none() => self.end(Outcome::GatewayBroken { detail }).await,
                    McpState::Failed(_) | McpState::Connected | McpState::Pending => Step::Goes,
                }
            }
            ClientEvent::ToolCall { .. } => {
                self.watch.open_tools += 1;
                self.watch.tool_calls += 1;
                if self.watch.tool_calls > limits::TOOL_CALLS_STOP && self.ending.is_none() {
                    return self.end(Outcome::Stalled { detail: format!("more than {} tool calls", limits::TOOL_CALLS_STOP) }).await;
                }
                Step::Goes
            }
            ClientEvent::ToolResult { .. } => {
                self.watch.open_tools = self.watch.open_tools.saturating_sub(1);
                self.check_closed().await
            }
            ClientEvent::Usage(_) | ClientEvent::Cost(_) => {
                let spent = self.parser.spent();
                self.reported = Usage {
                    input_tokens: Some(spent.tokens.input),
                    output_tokens: Some(spent.tokens.output),
                    cache_read_tokens: Some(spent.tokens.cache_read),
                    cache_write_tokens: Some(spent.tokens.cache_write),
                    reported_micro_usd: matches!(event, ClientEvent::Cost(_))
                        .then_some(spent.usd_micros)
                        .or(self.reported.reported_micro_usd),
                };
                Step::Goes
            }
            ClientEvent::TurnDone(end) => self.on_turn(end).await,
            ClientEvent::Text(_)
            | ClientEvent::Thinking(_)
            | ClientEvent::Retrying(_)
            | ClientEvent::Limited(_)
            | ClientEvent::Overloaded
            | ClientEvent::AuthFailed
            | ClientEvent::ContextFull
            | ClientEvent::Note(_) => Step::Goes,
        }
    }

    /// The client's turn is over: its part is closed, or it is reminded once.
    async fn on_turn(&mut self, end: TurnEnd) -> Step {
        if self.ending.is_some() {
            return Step::Goes;
        }
        self.watch.open_tools = 0;
        if self.closing_verb().await.is_some() {
            return self.say_goodbye().await;
        }
        if matches!(end, TurnEnd::Failed(_)) {
            // How it failed is for the parser to say when the client is gone.
            return self.say_goodbye().await;
        }
        if let Some(reason) = self.leaving.take() {
            self.ending = Some(Outcome::Stopped { reason });
            return self.say_goodbye().await;
        }
        if self.nudged {
            return self.end(Outcome::Unproductive).await;
        }
        self.nudged = true;
        let text = self.reminder().await;
        self.transcript.add("input", &text);
        match self.sandbox.send(ClientInput::Line(self.provider.user_message(&text))).await {
            Ok(()) => Step::Goes,
            Err(error) => self.end(Outcome::Crashed { code: None, detail: error.to_string() }).await,
        }
    }

    async fn reminder(&self) -> String {
        let closing: Vec<&str> = roboco_domain::decide::standard_rules()
            .granted(self.role())
            .into_iter()
            .filter(|v| v.ends() == roboco_domain::verb::Ends::Session)
            .map(Verb::as_str)
            .collect();
        format!(
            "You ended your turn, but {} is still yours. Go on, and close your part with one of: {}.",
            self.spawn.number.task,
            closing.join(", ")
        )
    }

    fn role(&self) -> roboco_domain::role::Role {
        self.shared.company().roster().agent(self.spawn.agent).map_or(roboco_domain::role::Role::System, |a| a.role)
    }

    /// The closing verb of this run, if one was accepted.
    async fn closing_verb(&self) -> Option<Verb> {
        match self.shared.company().store().spawn(self.spawn.id).await {
            Ok(spawn) => spawn.and_then(|s| s.closed_by),
            Err(error) => {
                tracing::warn!(%error, "the spawn could not be read");
                None
            }
        }
    }

    /// Once its part is closed, a client has a little time to end its turn.
    async fn check_closed(&mut self) -> Step {
        if self.grace.is_none() && self.ending.is_none() && self.closing_verb().await.is_some() {
            self.grace = Some(Instant::now() + limits::CLOSING_GRACE);
        }
        Step::Goes
    }

    async fn say_goodbye(&mut self) -> Step {
        if self.sandbox.send(ClientInput::Eof).await.is_err() {
            self.sandbox.kill();
        }
        self.grace = Some(Instant::now() + limits::STOP_DRAIN);
        Step::Goes
    }

    async fn completed(&self) -> Option<Outcome> {
        self.closing_verb().await.map(|verb| Outcome::Completed { verb: verb.to_string() })
    }

    async fn outcome(&mut self, exit: Exit) -> Outcome {
        let ending = self.parser.exit(exit);
        let starved = self.sandbox.wait().await.memory == Memory::Exhausted;
        if let Some(outcome) = self.completed().await {
            return outcome;
        }
        if let Some(outcome) = self.ending.take() {
            return outcome;
        }
        if starved {
            return Outcome::OutOfMemory;
        }
        match (ending, self.leaving.take()) {
            // Its verbs were refused meanwhile, so giving up or falling over says nothing about it.
            (Ending::Finished | Ending::Interrupted | Ending::Crashed { .. }, Some(reason)) => Outcome::Stopped { reason },
            (other, _) => other.outcome().unwrap_or(Outcome::Unproductive),
        }
    }

    /// The sandbox is alive, so its right is too.
    async fn renew(&self) {
        let until = self.shared.now().after(limits::LEASE);
        if let Err(error) = self.shared.company().store().renew_lease(self.spawn.task, self.spawn.id, until).await {
            tracing::warn!(%error, spawn = %self.spawn.number, "the lease could not be renewed");
        }
    }
}
