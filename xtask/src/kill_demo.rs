//! stub
use crate::workspace::Workspace;
use anyhow::Result;
pub(crate) fn run(_w: &Workspace, _a: &[String]) -> Result<()> {
    Ok(())
}
