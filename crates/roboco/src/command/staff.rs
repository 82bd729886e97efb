//! Who works here, and what waits for the CEO.

use roboco_company::views::{AgentRow, InboxRow};
use serde_json::Value;

use super::Here;
use crate::cli::Listing;
use crate::client::typed;
use crate::failure::Failure;
use crate::terminal::{clean_line, clock};

/// The rows of a list, which may stand alone or with the way to its next page.
pub(crate) fn items(value: Value) -> Value {
    match value {
        Value::Object(mut map) if map.contains_key("items") => map.remove("items").unwrap_or_default(),
        other => other,
    }
}

/// `agents`
///
/// # Errors
/// No server runs.
pub(crate) async fn agents(here: &Here, args: &Listing) -> Result<(), Failure> {
    let value = here.client()?.get("/api/agents", &[]).await?;
    if args.json {
        return here.screen.json(&value);
    }
    let rows: Vec<AgentRow> = typed(items(value))?;
    let cells =
        rows.iter().map(|a| [a.slug.clone(), a.role.clone(), a.team.clone(), a.status.clone(), a.spawn.clone().unwrap_or_default()]);
    here.screen.table(["AGENT", "ROLE", "TEAM", "STATUS", "RUN"], &cells.collect::<Vec<_>>())
}

/// `inbox`
///
/// # Errors
/// No server runs.
pub(crate) async fn inbox(here: &Here, args: &Listing) -> Result<(), Failure> {
    let value = here.client()?.get("/api/inbox", &[]).await?;
    if args.json {
        return here.screen.json(&value);
    }
    let rows: Vec<InboxRow> = typed(items(value))?;
    if rows.is_empty() {
        return here.screen.line("nothing waits for you");
    }
    let cells = rows.iter().map(|i| [i.number.clone(), i.kind.clone(), i.task.clone(), clock(i.opened_at), clean_line(&i.text)]);
    here.screen.table(["ITEM", "KIND", "TASK", "SINCE", "WHAT"], &cells.collect::<Vec<_>>())
}
