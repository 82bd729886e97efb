//! The only place that starts child processes.
//!
//! A [`Process`] has a typed argument list, a directory, an environment that is empty unless filled, and a lifetime. It runs in a
//! process group of its own, and that whole group dies when its deadline passes, when its leader ends, or when the value that owns
//! it is dropped (a cancelled future included). A child that floods its output is drained and cut, so it can exhaust neither our
//! memory nor block on a full pipe.
//!
//! This crate knows nothing of ours: no git, no agents, no settings. What it cannot do: children outlive a server that is killed
//! with SIGKILL, because asking the kernel otherwise needs code between fork and exec; sandboxes ask for that themselves.

mod capture;
mod child;
mod error;
mod group;
mod process;

pub use capture::{Captured, OutputCap};
pub use child::Child;
pub use error::ProcessError;
pub use group::Signal;
pub use process::{Input, Lifetime, Output, Process, find_program};
