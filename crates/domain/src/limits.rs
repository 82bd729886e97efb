//! Every number the company runs on, in one place. Each constant says what it bounds and its unit.

use std::time::Duration;

/// How long a lease lives without renewal.
pub const LEASE: Duration = Duration::from_secs(600);
/// How often the supervisor renews the lease of a sandbox it sees alive.
pub const LEASE_RENEWAL: Duration = Duration::from_secs(60);
/// A heartbeat is written at most this often per lease.
pub const HEARTBEAT_WRITE: Duration = Duration::from_secs(15);
/// A client that shows no event for this long outside a tool call is stalled.
pub const STALL: Duration = Duration::from_secs(15 * 60);
/// The same, while one of its tool calls is open.
pub const STALL_IN_TOOL: Duration = Duration::from_secs(60 * 60);
/// No spawn runs longer than this.
pub const SPAWN_WALL: Duration = Duration::from_secs(4 * 60 * 60);
/// Time a client gets to end by itself before it is killed.
pub const STOP_DRAIN: Duration = Duration::from_secs(10);
/// A sandbox that survives this many kills raises an alarm.
pub const STOP_TRIES: u32 = 3;
/// Time a client gets to end after its closing verb was accepted.
pub const CLOSING_GRACE: Duration = Duration::from_secs(30);
/// Unproductive spawns of one (agent, task) before it cools down.
pub const STRIKES: u32 = 3;
/// First cool-down; doubles up to [`COOLDOWN_MAX`].
pub const COOLDOWN: Duration = Duration::from_secs(300);
/// Longest cool-down.
pub const COOLDOWN_MAX: Duration = Duration::from_secs(60 * 60);
/// Waits after the first, second, third and fourth crash in an hour; the next crash holds the task for a human.
pub const CRASH_BACKOFF: [Duration; 4] =
    [Duration::from_secs(10), Duration::from_secs(30), Duration::from_secs(90), Duration::from_secs(270)];
/// First wait for an overloaded provider that names no time; doubles four times.
pub const PARK_OVERLOAD: Duration = Duration::from_secs(45);
/// The same for a provider whose rate limit was reached.
pub const PARK_RATE: Duration = Duration::from_secs(60);
/// A provider is parked no longer than this because an agent says so; the longest limits of providers are weekly.
pub const PARK_SAID_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The same for a missing login: it does not come back by itself, but somebody may have logged in.
pub const PARK_LOGIN: Duration = Duration::from_secs(300);
/// Tool calls per spawn: a warning is given at this count.
pub const TOOL_CALLS_WARN: u32 = 100;
/// Tool calls per spawn: the spawn is stopped at this count.
pub const TOOL_CALLS_STOP: u32 = 300;

/// Deadline of a local git command.
pub const GIT_LOCAL: Duration = Duration::from_secs(30);
/// Deadline of a git commit.
pub const GIT_COMMIT: Duration = Duration::from_secs(180);
/// Deadline of a git command that talks to a remote.
pub const GIT_NETWORK: Duration = Duration::from_secs(120);
/// Deadline of a clone.
pub const GIT_CLONE: Duration = Duration::from_secs(300);
/// Deadline of one gate command.
pub const GATE_STEP: Duration = Duration::from_secs(600);
/// Output kept of one gate command, in bytes.
pub const GATE_LOG_BYTES: usize = 1024 * 1024;
/// Part of a failed gate's output that is returned to the agent, in characters.
pub const GATE_TAIL_CHARS: usize = 2000;
/// Budget of all git reads of one evidence pack.
pub const EVIDENCE_BUILD: Duration = Duration::from_secs(45);
/// Longest diff in an evidence pack, in characters.
pub const EVIDENCE_DIFF_CHARS: usize = 20_000;

/// Tries of one effect before it is shown as stalled.
pub const OUTBOX_TRIES: u32 = 8;
/// First wait between tries of an effect; doubles up to [`OUTBOX_BACKOFF_MAX`].
pub const OUTBOX_BACKOFF: Duration = Duration::from_secs(1);
/// Longest wait between tries of an effect.
pub const OUTBOX_BACKOFF_MAX: Duration = Duration::from_secs(60);
/// How long a verb waits for its effect before it answers "pending"; under the 60 s some clients allow a tool.
pub const VERB_WAIT: Duration = Duration::from_secs(45);
/// No verb takes longer than this on the server.
pub const VERB_WALL: Duration = Duration::from_secs(120);
/// How often a lost race for a row is decided again before it is a fault.
pub const MAX_CONFLICTS: u32 = 16;

/// Refusals of the same verb on the same subject within [`BREAKER_WINDOW`] that open the breaker.
pub const BREAKER_REFUSALS: u32 = 3;
/// The same for `open_pr`, whose refusals are often a slow forge.
pub const BREAKER_REFUSALS_OPEN_PR: u32 = 5;
/// The window of the breaker.
pub const BREAKER_WINDOW: Duration = Duration::from_secs(60);
/// Refusals of one verb over a whole spawn, as a multiple of its breaker cap.
pub const BREAKER_SESSION_FACTOR: u32 = 3;

/// Longest title, in characters.
pub const TITLE_CHARS: usize = 200;
/// Longest description, in bytes.
pub const DESCRIPTION_BYTES: usize = 32 * 1024;
/// Shortest description, in characters.
pub const DESCRIPTION_MIN_CHARS: usize = 20;
/// Longest note, reason or review text, in characters.
pub const NOTES_CHARS: usize = 8000;
/// Most acceptance criteria of a task.
pub const CRITERIA: usize = 7;
/// Longest acceptance criterion, in characters.
pub const CRITERION_CHARS: usize = 200;
/// Longest evidence for a criterion, in characters.
pub const EVIDENCE_CHARS: usize = 200;
/// Most findings of one verdict.
pub const FINDINGS: usize = 10;
/// More findings than this are accepted with a warning.
pub const FINDINGS_WARN: usize = 5;
/// Longest `expected` or `actual` of a finding, in characters.
pub const FINDING_CHARS: usize = 300;
/// From this round on only blocker and major findings bounce a task.
pub const ROUND_CAP: u32 = 3;
/// A verdict that would start this round holds the task for a human instead.
pub const ROUND_HUMAN: u32 = 5;
/// Longest plan step title, in characters.
pub const STEP_TITLE_CHARS: usize = 200;
/// Longest plan step description, in characters.
pub const STEP_CHARS: usize = 600;
/// Longest approach of a plan, in characters.
pub const APPROACH_CHARS: usize = 800;
/// Most plan steps.
pub const PLAN_STEPS: usize = 50;
/// Most parts of assembled work.
pub const PARTS: usize = 12;
/// A part with more criteria than this is accepted with a warning.
pub const PART_CRITERIA_WARN: usize = 5;
/// Largest JSON body, in bytes.
pub const BODY_BYTES: usize = 1024 * 1024;
/// Most progress notes kept on a task.
pub const PROGRESS_KEPT: usize = 100;
/// Most journal notes shown in a briefing.
pub const BRIEFING_ITEMS: usize = 10;

/// Trees and exports in the trash are kept this long.
pub const TRASH_KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Transcript kept per spawn, in bytes.
pub const TRANSCRIPT_BYTES: u64 = 64 * 1024 * 1024;
/// Transcript kept per spawn, in blocks.
pub const TRANSCRIPT_BLOCKS: u64 = 50_000;
/// Largest transcript block, in bytes; more is cut.
pub const TRANSCRIPT_BLOCK_BYTES: usize = 8 * 1024;
/// Transcripts are kept this long.
pub const TRANSCRIPT_KEEP: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// Refused calls are kept this long.
pub const ATTEMPT_KEEP: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Finished effects are kept this long.
pub const INTENT_KEEP: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Answers stored for replay are kept this long.
pub const IDEMPOTENCY_KEEP: Duration = Duration::from_secs(24 * 60 * 60);
/// Life of an agent token.
pub const AGENT_TOKEN: Duration = Duration::from_secs(24 * 60 * 60);
/// A live stream reader that lags by this many events is closed and told to start again.
pub const STREAM_LAG: usize = 256;
/// No new spawn starts below this share of free disk, in per cent.
pub const DISK_FREE_PERCENT: u64 = 5;
/// No new spawn starts below this much free disk, in bytes.
pub const DISK_FREE_BYTES: u64 = 2 * 1024 * 1024 * 1024;
