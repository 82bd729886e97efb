//! The verb registry: every verb and tool once, with its door, arguments and help. Routes, tools, schemas, tables and docs are generated from it.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::limits;
use crate::rejection::Rejection;
use crate::role::words;
use crate::verbs as v;

words! {
    /// Through which door a verb is called.
    Door {
        /// An agent moves a task: `/api/v1/flow/{role}/{verb}`.
        Flow = "flow",
        /// An agent writes or reads: `/api/v1/do/{tool}`.
        Do = "do",
        /// A person: `/api/tasks/{id}/{command}`.
        Operator = "operator",
        /// An agent moves a task, or a person does.
        FlowAndOperator = "flow_and_operator",
    }
}

words! {
    /// What an accepted verb means for the spawn that called it.
    Ends {
        /// It goes on.
        Nothing = "nothing",
        /// Its part is over.
        Session = "session",
    }
}

words! {
    /// Facts about the outside world that a verb needs before it can be decided.
    FactKind {
        /// The state of the task's worktree.
        Tree = "tree",
    }
}

macro_rules! registry {
    ($($variant:ident = $word:literal, $door:ident, $args:ty, $ends:ident, [$($fact:ident),*], $help:literal;)*) => {
        words! {
            /// What an actor may call.
            Verb { $(#[doc = $help] $variant = $word),* }
        }

        /// A verb with its arguments, read and checked for shape.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Call {
            $(#[doc = $help] $variant($args),)*
        }

        impl Call {
            /// Which verb it is.
            pub const fn verb(&self) -> Verb {
                match self {
                    $(Self::$variant(_) => Verb::$variant,)*
                }
            }

            /// The task it names, as it was typed.
            pub fn task_ref(&self) -> Option<&str> {
                match self {
                    $(Self::$variant(args) => v::Subject::task_ref(args),)*
                }
            }

            /// Reads the arguments of a verb.
            ///
            /// # Errors
            /// `incomplete_input` with what is wrong and where.
            pub fn parse(verb: Verb, body: Value) -> Result<Self, Rejection> {
                match verb {
                    $(Verb::$variant => read::<$args>(verb, body).map(Self::$variant),)*
                }
            }
        }

        impl Verb {
            /// Through which door it is called.
            pub const fn door(self) -> Door {
                match self { $(Self::$variant => Door::$door,)* }
            }
            /// What it means for the spawn when it is accepted.
            pub const fn ends(self) -> Ends {
                match self { $(Self::$variant => Ends::$ends,)* }
            }
            /// One sentence for people and models.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)* }
            }
            /// Facts to fetch before it is decided.
            pub const fn facts(self) -> &'static [FactKind] {
                match self { $(Self::$variant => &[$(FactKind::$fact),*],)* }
            }
            /// JSON Schema of its arguments.
            pub fn schema(self) -> Value {
                match self { $(Self::$variant => schema_of::<$args>(),)* }
            }
        }
    };
}

registry! {
    GiveMeWork = "give_me_work", Flow, v::NoArgs, Nothing, [], "Say which task is yours now and which verb to call on it.";
    IWillWorkOn = "i_will_work_on", Flow, v::IWillWorkOn, Nothing, [], "Claim a task with a plan; its branch and worktree are prepared.";
    OpenPr = "open_pr", Flow, v::OpenPr, Nothing, [], "Open the pull request of the task's branch.";
    SyncBranch = "sync_branch", Flow, v::SyncBranch, Nothing, [Tree], "Merge the target branch into the task's branch; conflicts are left for you to resolve.";
    IAmDone = "i_am_done", Flow, v::IAmDone, Session, [Tree], "Submit the work with evidence per criterion; the project's checks run, then QA gets it.";
    IAmBlocked = "i_am_blocked", Flow, v::IAmBlocked, Session, [], "Say what stops you; the task is held for whoever can help.";
    Unclaim = "unclaim", Flow, v::OnTask, Session, [], "Give the task back; branch and commits are kept.";
    Resume = "resume", FlowAndOperator, v::OnTask, Nothing, [], "Go on with a paused task.";
    ClaimReview = "claim_review", Flow, v::OnTask, Nothing, [], "Take the review of a submitted task; the exact commits are pinned for you.";
    Pass = "pass", Flow, v::Pass, Session, [], "Accept the work: one verdict with evidence per criterion.";
    Fail = "fail", Flow, v::Fail, Session, [], "Send the work back with findings.";
    ClaimDocTask = "claim_doc_task", Flow, v::OnTask, Nothing, [], "Take the documentation of a task that passed QA.";
    IDocumented = "i_documented", Flow, v::IDocumented, Session, [Tree], "Hand over the documentation: the files, or the reason why none were needed.";
    Activate = "activate", FlowAndOperator, v::OnTask, Session, [], "Release a task from the backlog.";
    IWillPlan = "i_will_plan", Flow, v::IWillWorkOn, Nothing, [], "Claim work that is made of parts, with a plan; its branch is prepared.";
    Delegate = "delegate", Flow, v::Delegate, Nothing, [], "Give a part of the work to an agent: what is wanted, and which criteria of the whole it covers.";
    DeclareCoverage = "declare_coverage", Flow, v::DeclareCoverage, Nothing, [], "Say which part covers a criterion of the whole, or that you answer for it yourself.";
    Reassign = "reassign", Flow, v::Reassign, Nothing, [], "Give a task to another developer of the cell; branch and commits are kept.";
    SubmitUp = "submit_up", Flow, v::SubmitWhole, Session, [], "Hand the assembled work of a cell to its reviewer.";
    SubmitRoot = "submit_root", Flow, v::SubmitWhole, Session, [], "Hand the assembled root to its reviewer.";
    ClaimGateReview = "claim_gate_review", Flow, v::OnTask, Nothing, [], "Take the review of assembled work; the exact commits are pinned for you.";
    PrPass = "pr_pass", Flow, v::Complete, Session, [], "Accept assembled work.";
    PrFail = "pr_fail", Flow, v::Fail, Session, [], "Send assembled work back to its PM with findings.";
    Complete = "complete", Flow, v::Complete, Session, [], "Accept the finished task as its PM.";
    RequestChanges = "request_changes", Flow, v::RequestChanges, Session, [], "Send the finished task back with findings.";
    Unblock = "unblock", FlowAndOperator, v::Because, Session, [], "Lift the hold of a task and say what changed.";
    EscalateUp = "escalate_up", Flow, v::Because, Session, [], "Hand the decision about a task to the next level.";
    EscalateToCeo = "escalate_to_ceo", Flow, v::Because, Session, [], "Hand the decision about a task to the CEO.";
    IAmIdle = "i_am_idle", Flow, v::NoArgs, Session, [], "Say that nothing is left to do.";
    Commit = "commit", Do, v::Commit, Nothing, [], "Commit the worktree (or the named files) on the task's branch.";
    Note = "note", Do, v::Note, Nothing, [], "Write a note into the journal of a task.";
    Progress = "progress", Do, v::Progress, Nothing, [], "Report progress; tick off a plan step.";
    Evidence = "evidence", Do, v::OnTask, Nothing, [], "Read everything known about a task: diff, commits, criteria, findings, notes.";
    CreateTask = "create_task", Operator, v::CreateTask, Nothing, [], "Give the company a task.";
    Approve = "approve", Operator, v::Approve, Nothing, [], "Approve finished work; it is merged.";
    Reject = "reject", Operator, v::Because, Nothing, [], "Send finished work back to its author.";
    Cancel = "cancel", FlowAndOperator, v::Because, Session, [], "Give a task up for good.";
    Pause = "pause", Operator, v::Pause, Nothing, [], "Set a task aside until it is resumed.";
}

impl Verb {
    /// Refusals within the window that open the breaker.
    pub const fn breaker_cap(self) -> u32 {
        if matches!(self, Self::OpenPr) { limits::BREAKER_REFUSALS_OPEN_PR } else { limits::BREAKER_REFUSALS }
    }

    /// Verbs that only look are never counted by the breaker.
    pub const fn is_discovery(self) -> bool {
        matches!(self, Self::GiveMeWork | Self::Evidence | Self::IAmIdle)
    }

    /// Whether agents reach it under `/api/v1/flow`.
    pub const fn is_flow(self) -> bool {
        matches!(self.door(), Door::Flow | Door::FlowAndOperator)
    }

    /// Whether agents reach it under `/api/v1/do`.
    pub const fn is_do(self) -> bool {
        matches!(self.door(), Door::Do)
    }

    /// Whether people reach it.
    pub const fn is_operator(self) -> bool {
        matches!(self.door(), Door::Operator | Door::FlowAndOperator)
    }

    /// The command word in operator routes: `create-task`.
    pub fn command_word(self) -> String {
        self.as_str().replace('_', "-")
    }
}

fn schema_of<T: JsonSchema>() -> Value {
    let generator = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true).into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.remove("$schema");
    schema.remove("title");
    schema.to_value()
}

fn read<T: DeserializeOwned>(verb: Verb, body: Value) -> Result<T, Rejection> {
    let body = if body.is_null() { Value::Object(serde_json::Map::new()) } else { body };
    if !body.is_object() {
        return Err(Rejection::incomplete(verb, "arguments", "a JSON object"));
    }
    serde_json::from_value(body).map_err(|error| {
        let text = error.to_string();
        let field = text.split('`').nth(1).unwrap_or("arguments").to_owned();
        Rejection::incomplete(verb, &field, &text)
    })
}
