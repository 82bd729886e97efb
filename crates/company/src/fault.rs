//! Faults: something broke. Never a refusal by policy, and never shown with its inner text to an agent.

use roboco_store::StoreFault;

/// Something the company needs does not work right now.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// What happened, without secrets.
    pub message: String,
    /// Whether trying again may help.
    pub retryable: bool,
    /// What a person must do about it, when that is certain; without secrets.
    pub remedy: Option<&'static str>,
}

impl Fault {
    /// Trying again may help.
    pub fn passing(message: impl Into<String>) -> Self {
        Self { message: message.into(), retryable: true, remedy: None }
    }

    /// Trying again will not help.
    pub fn lasting(message: impl Into<String>) -> Self {
        Self { message: message.into(), retryable: false, remedy: None }
    }
}

impl From<StoreFault> for Fault {
    fn from(fault: StoreFault) -> Self {
        Self { message: fault.to_string(), retryable: fault.retryable, remedy: fault.remedy }
    }
}
