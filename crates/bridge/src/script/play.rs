//! Plays: what a scripted agent does for which role and task, read from TOML.

use serde::Deserialize;
use serde_json::{Map, Value};

/// A file of plays. The first that matches the brief is played.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plays {
    play: Vec<Play>,
}

/// One play.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Play {
    role: String,
    #[serde(default)]
    when: When,
    /// The play is used only in rounds below this number. A round is counted by the control plane, so the count survives a restart.
    times: Option<u64>,
    pub(super) steps: Vec<Cued>,
}

/// A step, and when it is taken.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub(super) struct Cued {
    /// An expression over the brief and the last envelope; the step is left out unless it is true.
    pub(super) when: Option<String>,
    pub(super) step: Step,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    /// Pattern for the task's title.
    task: Option<String>,
    /// Verb that the brief offers.
    verb: Option<String>,
    /// Pattern for the agent's slug.
    agent: Option<String>,
}

/// One step.
#[derive(Debug)]
pub(super) enum Step {
    /// Call a verb.
    Call {
        verb: String,
        args: Map<String, Value>,
        /// Words of a refusal that are as good as success.
        accept: Vec<String>,
        /// A word the answer must carry.
        expect: Option<String>,
    },
    /// Write a file below the working directory.
    Write { path: String, content: Content },
    /// Run a shell command and compare its exit code.
    Run { command: String, expect: i64 },
    /// Do nothing for a while, in milliseconds.
    Pause(u64),
    /// Die without a word.
    Crash,
    /// Print this many MiB.
    Flood(u64),
    /// Never do anything again.
    Hang,
}

#[derive(Debug)]
pub(super) enum Content {
    /// A template.
    Text(String),
    /// A file of the plays' directory, taken as it is.
    File(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    call: Option<String>,
    args: Option<Map<String, Value>>,
    accept: Option<Vec<String>>,
    write: Option<String>,
    file: Option<String>,
    text: Option<String>,
    run: Option<String>,
    expect: Option<Value>,
    pause_ms: Option<u64>,
    crash: Option<bool>,
    flood_mb: Option<u64>,
    hang: Option<bool>,
}

impl TryFrom<Map<String, Value>> for Cued {
    type Error = String;

    fn try_from(mut fields: Map<String, Value>) -> Result<Self, String> {
        let when = match fields.remove("when") {
            None => None,
            Some(Value::String(expression)) => Some(expression),
            Some(_) => return Err("the when of a step is an expression".into()),
        };
        let raw: RawStep = serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())?;
        Ok(Self { when, step: Step::try_from(raw)? })
    }
}

impl TryFrom<RawStep> for Step {
    type Error = String;

    fn try_from(raw: RawStep) -> Result<Self, String> {
        let kind = "a step is exactly one of call, write, run, pause_ms, crash, flood_mb, hang";
        let RawStep { call, args, accept, write, file, text, run, expect, pause_ms, crash, flood_mb, hang } = raw;
        let kinds =
            [call.is_some(), write.is_some(), run.is_some(), pause_ms.is_some(), crash.is_some(), flood_mb.is_some(), hang.is_some()];
        if kinds.iter().filter(|given| **given).count() != 1 {
            return Err(kind.into());
        }
        if call.is_none() && (args.is_some() || accept.is_some()) {
            return Err("args and accept belong to a call".into());
        }
        if write.is_none() && (file.is_some() || text.is_some()) {
            return Err("file and text belong to a write".into());
        }
        if call.is_none() && run.is_none() && expect.is_some() {
            return Err("expect belongs to a call or a run".into());
        }
        if let Some(verb) = call {
            let expect = match expect {
                None => None,
                Some(Value::String(word)) => Some(word),
                Some(_) => return Err("the expect of a call is a word, such as a status or a kind of refusal".into()),
            };
            return Ok(Self::Call { verb, args: args.unwrap_or_default(), accept: accept.unwrap_or_default(), expect });
        }
        if let Some(path) = write {
            return match (file, text) {
                (Some(file), None) => Ok(Self::Write { path, content: Content::File(file) }),
                (None, Some(text)) => Ok(Self::Write { path, content: Content::Text(text) }),
                _ => Err("a write has either file or text".into()),
            };
        }
        if let Some(command) = run {
            let expect = expect.unwrap_or(Value::from(0)).as_i64().ok_or("the expect of a run is an exit code")?;
            return Ok(Self::Run { command, expect });
        }
        match (pause_ms, flood_mb, crash, hang) {
            (Some(millis), _, _, _) => Ok(Self::Pause(millis)),
            (_, Some(mebibytes), _, _) => Ok(Self::Flood(mebibytes)),
            (_, _, Some(true), _) => Ok(Self::Crash),
            (_, _, _, Some(true)) => Ok(Self::Hang),
            _ => Err(kind.into()),
        }
    }
}

/// What of a brief decides which play fits.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Cue {
    pub(super) role: String,
    #[serde(default)]
    task_title: String,
    #[serde(default)]
    verb: String,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    round: u64,
}

impl Plays {
    pub(super) fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The first play that fits.
    pub(super) fn find(&self, cue: &Cue) -> Option<&Play> {
        self.play.iter().find(|play| play.fits(cue))
    }
}

impl Play {
    fn fits(&self, cue: &Cue) -> bool {
        let When { task, verb, agent } = &self.when;
        self.role == cue.role
            && task.as_ref().is_none_or(|pattern| glob(pattern, &cue.task_title))
            && agent.as_ref().is_none_or(|pattern| glob(pattern, &cue.agent))
            && verb.as_ref().is_none_or(|verb| *verb == cue.verb)
            && self.times.is_none_or(|times| cue.round < times)
    }
}

/// Whether `text` fits `pattern`, where `*` stands for any run of characters and `?` for one.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on when the last star has to swallow one character more.
    let mut retry = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    p = star + 1;
                    t = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cue(role: &str, title: &str, verb: &str, round: u64) -> Cue {
        Cue { role: role.into(), task_title: title.into(), verb: verb.into(), agent: "be-qa".into(), round }
    }

    #[test]
    fn patterns() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("Greet several*", "Greet several people", true),
            ("Greet several*", "Do not Greet several", false),
            ("*people", "Greet people, people", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXbY", false),
            ("exact", "exact", true),
            ("", "x", false),
        ] {
            assert_eq!(glob(pattern, text), fits, "{pattern} on {text}");
        }
    }

    #[test]
    fn the_first_fitting_play_wins_and_times_counts_rounds() {
        let plays = Plays::parse(
            r#"
            [[play]]
            role = "qa"
            when = { task = "Greet*", verb = "claim_review" }
            times = 1
            steps = [{ call = "fail" }]
            [[play]]
            role = "qa"
            steps = [{ call = "pass" }, { crash = true }]
            "#,
        )
        .unwrap();
        let steps = |cue: Cue| plays.find(&cue).map(|play| play.steps.len());
        assert_eq!(steps(cue("qa", "Greet all", "claim_review", 0)), Some(1));
        assert_eq!(steps(cue("qa", "Greet all", "claim_review", 1)), Some(2));
        assert_eq!(steps(cue("qa", "Other", "claim_review", 0)), Some(2));
        assert_eq!(steps(cue("qa", "Greet all", "other", 0)), Some(2));
        assert_eq!(steps(cue("developer", "Greet all", "claim_review", 0)), None);
    }

    #[test]
    fn a_wrong_step_is_refused_with_the_reason() {
        for (step, reason) in [
            ("{}", "exactly one of"),
            (r#"{ call = "a", run = "b" }"#, "exactly one of"),
            ("{ crash = false }", "exactly one of"),
            (r#"{ write = "a" }"#, "either file or text"),
            (r#"{ write = "a", file = "b", text = "c" }"#, "either file or text"),
            (r#"{ run = "a", expect = "zero" }"#, "exit code"),
            (r#"{ call = "a", expect = 1 }"#, "is a word"),
            (r#"{ run = "a", accept = ["b"] }"#, "belong to a call"),
            ("{ hang = true, expect = 0 }", "expect belongs"),
            (r#"{ cal = "a" }"#, "unknown field `cal`"),
        ] {
            let error = Plays::parse(&format!("[[play]]\nrole = \"qa\"\nsteps = [{step}]")).unwrap_err().to_string();
            assert!(error.contains(reason), "{step}: {error}");
        }
    }
}
