//! What stops new runs: a full disk.

use std::path::Path;

use roboco_domain::limits;

/// Why nothing new may start for lack of disk; none while there is enough. A disk that cannot be asked may be full.
pub(crate) fn disk_stop(data: &Path) -> Option<String> {
    let stat = match rustix::fs::statvfs(data) {
        Ok(stat) => stat,
        Err(error) => return Some(format!("the free space at {} is not known ({error}); see that it can be read", data.display())),
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let whole = stat.f_blocks.saturating_mul(stat.f_frsize).max(1);
    is_low(free, whole).then(|| format!("the disk of {} is almost full ({} MiB free)", data.display(), free / (1024 * 1024)))
}

const fn is_low(free: u64, whole: u64) -> bool {
    free < limits::DISK_FREE_BYTES || free as u128 * 100 / (whole as u128) < limits::DISK_FREE_PERCENT as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_cannot_be_asked_stops_new_runs_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let reason = disk_stop(&dir.path().join("gone")).unwrap();
        assert!(reason.contains("is not known") && reason.contains("gone"), "{reason}");
        assert!(disk_stop(dir.path()).is_none_or(|reason| reason.contains("almost full")));
    }

    #[test]
    fn a_disk_is_low_below_either_mark() {
        const GIB: u64 = 1 << 30;
        for (free, whole, low) in [
            (100 * GIB, 1000 * GIB, false),
            (49 * GIB, 1000 * GIB, true),
            (2 * GIB - 1, 3 * GIB, true),
            (2 * GIB, 3 * GIB, false),
            (u64::MAX, u64::MAX, false),
        ] {
            assert_eq!(is_low(free, whole), low, "{free} of {whole}");
        }
    }
}
