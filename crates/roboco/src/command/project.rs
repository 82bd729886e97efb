//! Adding and listing repositories.

use std::path::Path;

use roboco_company::projects::ProjectInput;
use roboco_company::views::{AgentRow, ProjectRow};
use roboco_domain::project::Access;
use serde_json::{Value, json};

use super::Here;
use super::staff::items;
use crate::cli::{Listing, ProjectAdd};
use crate::client::typed;
use crate::failure::{Exit, Failure};
use crate::terminal::{Style, ask, clean_line, somebody_is_here};

/// `project add`
///
/// # Errors
/// The repository cannot be used, or no server runs.
pub(crate) async fn add(here: &Here, args: &ProjectAdd) -> Result<(), Failure> {
    let client = here.client()?;
    let mut input = gather(args)?;
    if input.origin.is_empty() {
        return Err(Failure::new(Exit::Usage, "say where the repository is: `roboco project add FOLDER-OR-ADDRESS`"));
    }
    input.origin = from_here(&input.origin)?;
    if somebody_is_here() {
        complete(&client, &mut input).await?;
    }
    let added = client.post("/api/projects", &body(&input)).await?;
    if args.json {
        return here.screen.json(&added);
    }
    let project: ProjectRow = typed(added)?;
    here.screen.line(&format!(
        "project {} added: work lands on {} of {}",
        project.slug,
        clean_line(&project.default_branch),
        clean_line(&project.origin)
    ))?;
    let warnings = project.warnings.iter().map(|warning| clean_line(warning));
    let unchecked = input.commands.steps().is_empty().then(|| {
        "no checks are configured, so nothing but people and agents judges the work: add the project with --test COMMAND to have the tests run"
            .to_owned()
    });
    for warning in warnings.chain(unchecked) {
        here.screen.line(&here.screen.paint(Style::Warn, &format!("note: {warning}")))?;
    }
    Ok(())
}

/// `project list`
///
/// # Errors
/// No server runs.
pub(crate) async fn list(here: &Here, args: &Listing) -> Result<(), Failure> {
    let value = here.client()?.get("/api/projects", &[]).await?;
    if args.json {
        return here.screen.json(&value);
    }
    let rows: Vec<ProjectRow> = typed(items(value))?;
    if rows.is_empty() {
        return here.screen.line("no projects; add one with `roboco project add FOLDER-OR-ADDRESS`");
    }
    let access = |access| match access {
        Access::ReadWrite => "read, write".to_owned(),
        Access::ReadOnly => "read only".to_owned(),
    };
    let cells = rows
        .iter()
        .map(|row| [row.slug.clone(), row.cell.clone(), clean_line(&row.default_branch), access(row.access), clean_line(&row.origin)]);
    here.screen.table(["PROJECT", "CELL", "BRANCH", "ACCESS", "ORIGIN"], &cells.collect::<Vec<_>>())
}

/// The file, with the options over it.
fn gather(args: &ProjectAdd) -> Result<ProjectInput, Failure> {
    let mut input = match &args.file {
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|e| Failure::new(Exit::Usage, format!("{}: {e}", file.display())))?;
            toml::from_str(&text).map_err(|e| Failure::new(Exit::Usage, format!("{}: {e}", file.display())))?
        }
        None => ProjectInput::default(),
    };
    let over = |place: &mut String, option: &Option<String>| {
        if let Some(value) = option {
            place.clone_from(value);
        }
    };
    over(&mut input.origin, &args.origin);
    over(&mut input.slug, &args.slug);
    over(&mut input.cell, &args.cell);
    over(&mut input.commands.setup, &args.setup);
    over(&mut input.commands.build, &args.build);
    over(&mut input.commands.lint, &args.lint);
    over(&mut input.commands.typecheck, &args.typecheck);
    over(&mut input.commands.test, &args.test);
    input.protect.paths.extend(args.protect_paths.iter().cloned());
    input.protect.branches.extend(args.protect_branches.iter().cloned());
    if let Some(method) = &args.merge {
        let read = serde_json::from_value(json!(method));
        input.merge.method = read.map_err(|_| Failure::new(Exit::Usage, format!("--merge {method}: use merge or squash")))?;
    }
    Ok(input)
}

/// A relative folder is meant from where the command is typed, which the server cannot know.
fn from_here(origin: &str) -> Result<String, Failure> {
    let path = Path::new(origin);
    let address = origin.contains("://") || (origin.contains(':') && !path.exists());
    if address || origin.starts_with('-') {
        return Ok(origin.to_owned());
    }
    let absolute = path.canonicalize().or_else(|_| std::path::absolute(path));
    let absolute = absolute.map_err(|error| Failure::new(Exit::Usage, format!("{origin}: {error}")))?;
    absolute.into_os_string().into_string().map_err(|_| Failure::new(Exit::Usage, format!("{origin}: the path is not valid UTF-8")))
}

/// Asks for the cell and proposes a test command, when neither was given.
async fn complete(client: &crate::client::Client, input: &mut ProjectInput) -> Result<(), Failure> {
    if input.cell.is_empty() {
        let agents: Vec<AgentRow> = typed(items(client.get("/api/agents", &[]).await?))?;
        let cells: std::collections::BTreeSet<String> = agents.into_iter().filter(|a| a.role == "cell_pm").map(|a| a.team).collect();
        let names = cells.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        input.cell = ask(&format!("Which cell gets its work ({names})"), cells.first().map_or("", String::as_str))?.unwrap_or_default();
    }
    if input.commands.steps().is_empty()
        && let Some(found) = detect(Path::new(&input.origin))
    {
        let answer = ask("Command that runs the tests (- for none)", found)?.unwrap_or_default();
        input.commands.test = if answer == "-" { String::new() } else { answer };
    }
    Ok(())
}

/// The test command a repository seems to have. Only proposed, never used without being confirmed.
fn detect(folder: &Path) -> Option<&'static str> {
    let has = |name: &str| folder.join(name).is_file();
    let says = |name: &str, part: &str| std::fs::read_to_string(folder.join(name)).is_ok_and(|text| text.contains(part));
    let makes_tests = |text: String| text.lines().any(|line| line.starts_with("test:"));
    match () {
        () if has("Cargo.toml") => Some("cargo test"),
        () if says("package.json", "\"test\"") => Some("npm test"),
        () if has("go.mod") => Some("go test ./..."),
        () if has("pytest.ini") || has("pyproject.toml") => Some("python -m pytest"),
        () if std::fs::read_to_string(folder.join("Makefile")).is_ok_and(makes_tests) => Some("make test"),
        () => None,
    }
}

fn body(input: &ProjectInput) -> Value {
    json!({
        "slug": input.slug,
        "origin": input.origin,
        "cell": input.cell,
        "commands": input.commands,
        "protect": { "paths": input.protect.paths, "branches": input.protect.branches },
        "merge": { "method": input.merge.method },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_over_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("project.toml");
        std::fs::write(
            &file,
            "slug = \"a\"\norigin = \"/x\"\ncell = \"backend\"\ncommands.test = \"make t\"\nprotect.paths = [\"ci/**\"]\n",
        )
        .unwrap();
        let args = ProjectAdd {
            file: Some(file.clone()),
            cell: Some("frontend".into()),
            protect_paths: vec!["x".into()],
            merge: Some("squash".into()),
            ..ProjectAdd::default()
        };
        let input = gather(&args).unwrap();
        assert_eq!((input.slug.as_str(), input.cell.as_str(), input.commands.test.as_str()), ("a", "frontend", "make t"));
        assert_eq!(input.protect.paths, ["ci/**", "x"]);
        assert_eq!(body(&input)["merge"]["method"], "squash");
        std::fs::write(&file, "slgu = \"a\"").unwrap();
        let failure = gather(&args).unwrap_err();
        assert!(failure.exit == Exit::Usage && failure.message.contains("slgu"), "{failure}");
        let wrong = ProjectAdd { merge: Some("rebase".into()), ..ProjectAdd::default() };
        assert!(gather(&wrong).unwrap_err().message.contains("merge or squash"));
    }

    #[test]
    fn folders_are_meant_from_here_and_addresses_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        for address in ["https://h/x", "git@h:x/y", "ssh://h/x"] {
            assert_eq!(from_here(address).unwrap(), address);
        }
        let folder = dir.path().to_str().unwrap();
        assert_eq!(from_here(folder).unwrap(), dir.path().canonicalize().unwrap().to_str().unwrap());
        assert!(from_here("no/such").unwrap().starts_with('/'));
    }

    #[test]
    fn test_commands_are_recognised() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(detect(dir.path()), None);
        std::fs::write(dir.path().join("Makefile"), "all:\n\ntest: all\n").unwrap();
        assert_eq!(detect(dir.path()), Some("make test"));
        std::fs::write(dir.path().join("package.json"), "{\"scripts\":{\"test\":\"x\"}}").unwrap();
        assert_eq!(detect(dir.path()), Some("npm test"));
    }
}
