//! Real git on real directories: every way from adding a project to its cleaned-up end.

mod adding;
mod committing;
mod crashes;
mod hostile;
mod landing;
mod leaf;
mod releasing;
mod reviewing;
mod syncing;
mod world;
