//! How much memory an agent gets, as people write it.

use roboco_sandbox::MemoryScope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// What an agent gets when nobody says: room for a client and a compiler, and for several such agents on an ordinary machine.
const USUAL: u64 = 4 * GIB;
/// No client starts with less.
const LEAST: u64 = 256 * MIB;

/// A limit on memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub(crate) enum MemoryLimit {
    /// The usual one, where it can be enforced for a whole sandbox. For single processes it would be a guess.
    #[default]
    Auto,
    /// No limit.
    None,
    /// This many bytes.
    Bytes(u64),
}

impl MemoryLimit {
    /// The limit on a host that counts like this.
    pub(crate) const fn bytes(self, scope: MemoryScope) -> Option<u64> {
        match (self, scope) {
            (Self::Auto, MemoryScope::Sandbox) => Some(USUAL),
            (Self::Auto, MemoryScope::Process) | (Self::None, _) => None,
            (Self::Bytes(bytes), _) => Some(bytes),
        }
    }

    /// Whether a client can start with it.
    pub(super) const fn is_enough(self) -> bool {
        match self {
            Self::Auto | Self::None => true,
            Self::Bytes(bytes) => bytes >= LEAST,
        }
    }
}

impl TryFrom<String> for MemoryLimit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "auto" => return Ok(Self::Auto),
            "none" => return Ok(Self::None),
            _ => {}
        }
        let units = [("MiB", MIB), ("GiB", GIB)];
        let sizes = units.iter().filter_map(|(unit, size)| text.strip_suffix(unit)?.trim_end().parse::<u64>().ok()?.checked_mul(*size));
        sizes
            .map(Self::Bytes)
            .next()
            .ok_or_else(|| format!("{text:?} is no size: write `auto`, `none` or a size like `6 GiB` or `800 MiB`"))
    }
}

impl From<MemoryLimit> for String {
    fn from(limit: MemoryLimit) -> Self {
        match limit {
            MemoryLimit::Auto => "auto".into(),
            MemoryLimit::None => "none".into(),
            MemoryLimit::Bytes(bytes) if bytes % GIB == 0 => format!("{} GiB", bytes / GIB),
            MemoryLimit::Bytes(bytes) => format!("{} MiB", bytes / MIB),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [("6 GiB", 6 * GIB), ("6GiB", 6 * GIB), ("800 MiB", 800 * MIB), ("2048MiB", 2 * GIB)] {
            let limit = MemoryLimit::try_from(text.to_owned()).unwrap();
            assert_eq!(limit, MemoryLimit::Bytes(bytes), "{text}");
            assert_eq!(MemoryLimit::try_from(String::from(limit)), Ok(limit), "{text} is written as it is read");
        }
        for wrong in ["", "4", "4 GB", "four GiB", "-1 GiB", "1.5 GiB", "Auto", "GiB", "99999999999999 GiB"] {
            assert!(MemoryLimit::try_from(wrong.to_owned()).unwrap_err().contains("6 GiB"), "{wrong:?}");
        }
    }

    #[test]
    fn the_usual_limit_holds_where_whole_sandboxes_are_counted() {
        assert_eq!(MemoryLimit::Auto.bytes(MemoryScope::Sandbox), Some(4 * GIB));
        assert_eq!(MemoryLimit::Auto.bytes(MemoryScope::Process), None);
        for scope in [MemoryScope::Sandbox, MemoryScope::Process] {
            assert_eq!(MemoryLimit::Bytes(GIB).bytes(scope), Some(GIB), "what somebody asks for is done");
            assert_eq!(MemoryLimit::None.bytes(scope), None);
        }
    }
}
