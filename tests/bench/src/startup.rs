//! How long the product takes to answer, and what it needs to be there.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::Length;
use crate::place::Place;
use crate::server::Server;
use crate::table::{figure, head, median, millis};

/// Starts the product on a new data directory, then again and again on the same one.
pub(crate) fn measure(place: &Place, length: Length) -> Result<()> {
    head(
        "Start-up",
        "From the start of the process to the first 200 of GET /ready, asked without a pause. The first start makes keys and schema;\n\
         the later ones find a directory without projects and tasks.",
    );
    let first = Server::start(place, 4)?;
    figure("first start", &millis(first.ready_after), "");
    first.stop()?;
    let (starts, settle) = match length {
        Length::Full => (10, Duration::from_secs(2)),
        Length::Quick => (3, Duration::from_millis(500)),
    };
    let mut times = Vec::new();
    for nth in 1..=starts {
        let server = Server::start(place, 4)?;
        times.push(server.ready_after);
        if nth == starts {
            std::thread::sleep(settle);
            figure("resident memory, idle after a start", &format!("{:.1} MiB", server.resident_mib()?), "<= 60 MB");
        }
        server.stop()?;
    }
    let middle = median(&times).context("nothing was started")?;
    figure(&format!("later starts, median of {starts}"), &millis(middle), "<= 200 ms");
    figure("later starts, slowest", &millis(times.iter().copied().max().unwrap_or_default()), "");
    Ok(())
}
