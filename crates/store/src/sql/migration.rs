//! The steps of the schema. They only append: a step that was released is never edited, a later one mends it.

mod m0001_first_tables;
mod m0002_effects_of_a_task;
mod m0003_last_write;

use sea_orm_migration::{MigrationTrait, MigratorTrait};

/// All steps, oldest first.
pub(super) struct Steps;

impl MigratorTrait for Steps {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m0001_first_tables::FirstTables),
            Box::new(m0002_effects_of_a_task::EffectsOfATask),
            Box::new(m0003_last_write::LastWrite),
        ]
    }
}
