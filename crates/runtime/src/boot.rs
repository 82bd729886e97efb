//! Adopt or remove: what an earlier process left is ended before anything new starts.

use roboco_company::fault::Fault;
use roboco_domain::command::SystemCommand;
use roboco_domain::outcome::Outcome;
use roboco_domain::spawn::Usage;
use roboco_sandbox::Removed;

use crate::Shared;

/// Ends what runs without an owner. Children of the process driver die with the server, so whatever is still there is on its way out.
pub(crate) async fn clean_up(shared: &Shared) -> Result<(), Fault> {
    let observed = shared.parts.driver.list().await.map_err(|e| Fault::passing(e.to_string()))?;
    for sandbox in observed {
        let removed = shared.parts.driver.remove(&sandbox.name, &sandbox.labels).await;
        match removed {
            Ok(Removed::Gone) => tracing::info!(sandbox = sandbox.name, "removed a sandbox that an earlier process left"),
            Ok(Removed::NotOurs) => tracing::warn!(sandbox = sandbox.name, "a sandbox of this name is not ours; left alone"),
            Ok(Removed::StillAlive) => {
                return Err(Fault::passing(format!("the sandbox {} does not die; end it by hand, then start again", sandbox.name)));
            }
            Err(error) => return Err(Fault::passing(error.to_string())),
        }
    }
    for spawn in shared.company().store().live_spawns().await? {
        tracing::info!(spawn = %spawn.number, "lost with the earlier process");
        let ended = match spawn.closed_by {
            // Its part was accepted before the process died; only its goodbye is missing.
            Some(verb) => Outcome::Completed { verb: verb.to_string() },
            None => Outcome::Lost,
        };
        shared.company().execute_system(SystemCommand::SpawnEnded { spawn: spawn.id, outcome: ended, usage: Usage::default() }).await?;
    }
    Ok(())
}
