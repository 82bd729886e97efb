//! What stops new runs: a full disk.

use std::path::Path;

use roboco_domain::limits;

/// Why nothing new may start for lack of disk; none while there is enough.
pub(crate) fn disk_stop(data: &Path) -> Option<String> {
    let stat = rustix::fs::statvfs(data).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let whole = stat.f_blocks.saturating_mul(stat.f_frsize).max(1);
    let low = free < limits::DISK_FREE_BYTES || free.saturating_mul(100) / whole < limits::DISK_FREE_PERCENT;
    low.then(|| format!("the disk of {} is almost full ({} MiB free)", data.display(), free / (1024 * 1024)))
}
