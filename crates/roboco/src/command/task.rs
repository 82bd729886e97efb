//! Giving the company a task: from options, a file, or answers to questions. Nothing is guessed silently.

use std::path::Path;

use roboco_company::views::ProjectRow;
use roboco_domain::limits;
use roboco_domain::task::{Complexity, Nature, TaskType};
use roboco_server::CommandAnswer;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Here;
use super::staff::items;
use crate::cli::TaskNew;
use crate::client::{Client, typed};
use crate::failure::{Exit, Failure};
use crate::terminal::{ask, clean_line, somebody_is_here};

/// A task as it is written down.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TaskFile {
    pub(crate) project: String,
    pub(crate) team: Option<String>,
    pub(crate) cells: Vec<String>,
    #[serde(rename = "type")]
    pub(crate) task_type: String,
    pub(crate) nature: String,
    pub(crate) complexity: String,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) criteria: Vec<String>,
    pub(crate) priority: Option<u8>,
    pub(crate) depends_on: Vec<String>,
    pub(crate) touches: Vec<String>,
    pub(crate) budget_usd: Option<f64>,
    pub(crate) shape: Option<String>,
    pub(crate) backlog: Option<bool>,
}

impl TaskFile {
    /// Reads a task file.
    ///
    /// # Errors
    /// The text is no TOML, or has a key that does not exist.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        toml::from_str(text).map_err(|error| Failure::new(Exit::Usage, error.to_string().trim_end().to_owned()))
    }

    fn read(file: &Path) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::new(Exit::Usage, format!("{}: {why}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        Self::parse(&text).map_err(|failure| wrong(failure.message))
    }

    fn put_over(&mut self, args: &TaskNew) {
        let over = |place: &mut String, option: &Option<String>| {
            if let Some(value) = option {
                place.clone_from(value);
            }
        };
        over(&mut self.project, &args.project);
        over(&mut self.task_type, &args.task_type);
        over(&mut self.nature, &args.nature);
        over(&mut self.complexity, &args.complexity);
        over(&mut self.title, &args.title);
        over(&mut self.description, &args.description);
        self.team = args.team.clone().or_else(|| self.team.take());
        self.priority = args.priority.or(self.priority);
        self.budget_usd = args.budget_usd.map(f64::from).or(self.budget_usd);
        self.backlog = if args.backlog { Some(true) } else { self.backlog };
        self.cells.extend(args.cells.iter().cloned());
        self.shape = args.shape.clone().or_else(|| self.shape.take());
        self.criteria.extend(args.criteria.iter().cloned());
        self.depends_on.extend(args.depends_on.iter().cloned());
        self.touches.extend(args.touches.iter().cloned());
    }

    /// What must be said and was not, with the option that says it.
    fn missing(&self) -> Vec<String> {
        let words = |words: Vec<&str>| format!("one of {}", words.join(", "));
        let fields = [
            (self.project.is_empty(), "--project", "the name of a project, see `roboco project list`".to_owned()),
            (self.task_type.is_empty(), "--type", words(TaskType::ALL.iter().map(|w| w.as_str()).collect())),
            (self.nature.is_empty(), "--nature", words(Nature::ALL.iter().map(|w| w.as_str()).collect())),
            (self.complexity.is_empty(), "--complexity", words(Complexity::ALL.iter().map(|w| w.as_str()).collect())),
            (self.title.trim().is_empty(), "--title", "one line".to_owned()),
            (self.description.trim().is_empty(), "--description", "what is wanted".to_owned()),
            (self.criteria.is_empty(), "--criterion", "a verifiable outcome; may be repeated".to_owned()),
        ];
        fields.into_iter().filter(|(missing, ..)| *missing).map(|(_, option, hint)| format!("{option}: {hint}")).collect()
    }

    /// What the server is sent.
    ///
    /// # Errors
    /// Everything that is missing, or a value that can only be refused.
    pub(crate) fn body(&self) -> Result<Value, Failure> {
        let mut problems = self.missing();
        if self.description.len() > limits::DESCRIPTION_BYTES {
            // Not even sent: it may be larger than any request.
            problems.push(format!(
                "--description: at most {} bytes; this has {}. Put long material into a file of the repository and name it here",
                limits::DESCRIPTION_BYTES,
                self.description.len()
            ));
        }
        let budget = match self.budget_usd {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked in the guard")]
            Some(usd) if usd.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&usd) => Some(usd as u32),
            Some(usd) => {
                problems.push(format!("--budget-usd: whole dollars, not {usd}"));
                None
            }
            None => None,
        };
        if !problems.is_empty() {
            return Err(Failure::new(Exit::Usage, format!("the task is incomplete or wrong:\n  {}", problems.join("\n  "))));
        }
        let mut body = serde_json::to_value(self).unwrap_or_default();
        body["budget_usd"] = json!(budget);
        if let Some(map) = body.as_object_mut() {
            map.retain(|_, value| !value.is_null());
        }
        Ok(body)
    }
}

/// `task new`
///
/// # Errors
/// Something is missing, the server refuses, or none runs.
pub(crate) async fn new(here: &Here, args: &TaskNew) -> Result<(), Failure> {
    let mut task = args.file.as_deref().map_or_else(|| Ok(TaskFile::default()), TaskFile::read)?;
    task.put_over(args);
    if somebody_is_here() && !task.missing().is_empty() {
        ask_for_the_rest(&here.client()?, &mut task).await?;
    }
    let body = task.body()?;
    let answer = here.client()?.post("/api/tasks", &body).await?;
    if args.json {
        return here.screen.json(&answer);
    }
    let answer: CommandAnswer = typed(answer)?;
    let created = answer.task.ok_or_else(|| Failure::broken("the server did not say which task it created"))?;
    here.screen.line(&format!("{} created: {}", created.number, clean_line(&created.title)))?;
    if let Some(warning) = answer.warning {
        here.screen.line(&format!("  note: {}", clean_line(&warning)))?;
    }
    here.screen.line(&format!("  follow it with `{} task watch {}`", here.roboco(), created.number))
}

async fn ask_for_the_rest(client: &Client, task: &mut TaskFile) -> Result<(), Failure> {
    let projects: Vec<ProjectRow> = typed(items(client.get("/api/projects", &[]).await?))?;
    let slugs: Vec<&str> = projects.iter().map(|project| project.slug.as_str()).collect();
    let only = if let [only] = slugs.as_slice() { only } else { "" };
    let list = |words: Vec<&str>| words.join(", ");
    fill(&mut task.project, &format!("Project ({})", slugs.join(", ")), only)?;
    fill(&mut task.title, "Title, one line", "")?;
    fill(&mut task.description, "What is wanted", "")?;
    fill(&mut task.task_type, &format!("Type ({})", list(TaskType::ALL.iter().map(|w| w.as_str()).collect())), "code")?;
    fill(&mut task.nature, &format!("Nature ({})", list(Nature::ALL.iter().map(|w| w.as_str()).collect())), "technical")?;
    fill(&mut task.complexity, &format!("Complexity ({})", list(Complexity::ALL.iter().map(|w| w.as_str()).collect())), "low")?;
    if task.criteria.is_empty() {
        for n in 1..=limits::CRITERIA {
            match ask(&format!("Verifiable outcome {n} (empty when that is all)"), "")? {
                Some(outcome) if !outcome.is_empty() => task.criteria.push(outcome),
                Some(_) | None => break,
            }
        }
    }
    Ok(())
}

fn fill(place: &mut String, question: &str, proposal: &str) -> Result<(), Failure> {
    if place.trim().is_empty() {
        *place = ask(question, proposal)?.unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete() -> TaskFile {
        TaskFile::parse(crate::embedded::file("demo/task.toml")).unwrap()
    }

    #[test]
    fn the_demo_task_is_a_task_file() {
        let body = complete().body().unwrap();
        assert_eq!((body["project"].as_str(), body["type"].as_str()), (Some("greeter"), Some("code")));
        assert_eq!(body["criteria"].as_array().unwrap().len(), 2);
        assert!(body.get("budget_usd").is_none() && body.get("shape").is_none());
    }

    #[test]
    fn everything_missing_is_listed_at_once() {
        let failure = TaskFile { title: "x".into(), ..TaskFile::default() }.body().unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        for option in ["--project", "--type", "--nature", "--complexity", "--description", "--criterion"] {
            assert!(failure.message.contains(option), "{option}: {failure}");
        }
        assert!(!failure.message.contains("--title"));
    }

    #[test]
    fn options_go_over_the_file_and_lists_grow() {
        let mut task = complete();
        let args = TaskNew { title: Some("Other".into()), criteria: vec!["third".into()], budget_usd: Some(5), ..TaskNew::default() };
        task.put_over(&args);
        let body = task.body().unwrap();
        assert_eq!(
            (body["title"].as_str(), body["criteria"].as_array().unwrap().len(), body["budget_usd"].as_u64()),
            (Some("Other"), 3, Some(5))
        );
    }

    #[test]
    fn money_is_whole_and_descriptions_are_short() {
        let wrong = TaskFile { budget_usd: Some(0.5), description: "x".repeat(10 << 20), ..complete() }.body().unwrap_err();
        assert!(wrong.message.contains("whole dollars") && wrong.message.contains("at most 32768 bytes; this has 10485760"), "{wrong}");
        let body = TaskFile { budget_usd: Some(5.0), ..complete() }.body().unwrap();
        assert_eq!(body["budget_usd"], 5);
        assert!(TaskFile::parse("titel = \"x\"").unwrap_err().message.contains("titel"));
    }
}
