//! What an agent said and did: the transcript of one run, or of every run of a task.

use std::time::Duration;

use roboco_company::views::{BlockRow, SpawnRow, TaskView};

use super::staff::items;
use super::{Here, reference};
use crate::cli::Logs;
use crate::client::{Client, typed};
use crate::failure::{Exit, Failure};
use crate::terminal::{Style, clean, clean_line, clock};

/// Blocks asked for at once.
const PAGE: u64 = 200;
/// How often a running agent's transcript is asked for more. Blocks are written in batches, so asking faster shows nothing sooner.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Prints transcripts, oldest first.
///
/// # Errors
/// No server runs, or there is no such run.
pub(crate) async fn logs(here: &Here, args: &Logs) -> Result<(), Failure> {
    let client = here.client()?;
    if let Some((task, nth)) = args.of.split_once('/') {
        let nth: u64 = nth.parse().map_err(|_| Failure::new(Exit::Usage, format!("{:?} is no run: give one like T-142/3", args.of)))?;
        return follow_run(here, &client, reference(task)?, nth, args).await;
    }
    let task = reference(&args.of)?;
    let mut printed = 0;
    loop {
        let view: TaskView = client.read(&format!("/api/tasks/{task}"), &[]).await?;
        for row in view.spawns.iter().skip(printed) {
            let nth = row.number.rsplit('/').next().and_then(|nth| nth.parse().ok()).unwrap_or_default();
            follow_run(here, &client, task, nth, args).await?;
            printed += 1;
        }
        let over = matches!(view.row.status.as_str(), "completed" | "cancelled");
        if !args.follow || over {
            return if printed == 0 && !args.json { here.screen.line("no agent has worked on it yet") } else { Ok(()) };
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

async fn follow_run(here: &Here, client: &Client, task: &str, nth: u64, args: &Logs) -> Result<(), Failure> {
    let path = format!("/api/spawns/{task}/{nth}");
    let row: SpawnRow = client.read(&path, &[]).await?;
    if !args.json {
        here.screen.line(&here.screen.paint(Style::Bold, &format!("{} {} for {} on {}", row.number, row.agent, row.verb, row.provider)))?;
    }
    let mut after = 0;
    loop {
        // Asked before the transcript: whatever was written until the end is then in it.
        let row: SpawnRow = client.read(&path, &[]).await?;
        loop {
            let query = [("after", after.to_string()), ("limit", PAGE.to_string())];
            let blocks: Vec<BlockRow> = typed(items(client.get(&format!("{path}/transcript"), &query).await?))?;
            for block in &blocks {
                after = after.max(block.n);
                print(here, block, args)?;
            }
            if (blocks.len() as u64) < PAGE {
                break;
            }
        }
        if row.ended_at.is_some() || !args.follow {
            if let Some(outcome) = row.outcome.filter(|_| !args.json) {
                let detail = row.detail.map(|detail| format!(": {}", clean(&detail))).unwrap_or_default();
                here.screen.line(&here.screen.paint(Style::Dim, &format!("ended: {outcome}{detail}")))?;
            }
            return Ok(());
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

fn print(here: &Here, block: &BlockRow, args: &Logs) -> Result<(), Failure> {
    if args.json {
        return here.screen.line(&serde_json::to_string(block).unwrap_or_default());
    }
    let head = format!("{} {:11}", clock(block.at), clean_line(&block.kind));
    let text = clean(&block.text);
    let mut lines = text.lines();
    here.screen.line(&format!("{} {}", here.screen.paint(Style::Dim, &head), lines.next().unwrap_or_default()))?;
    for line in lines {
        here.screen.line(&format!("{:20} {line}", ""))?;
    }
    Ok(())
}
