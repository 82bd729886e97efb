//! Every brief asks what became of the effects of its task.

use sea_orm_migration::prelude::*;

pub(super) struct EffectsOfATask;

impl MigrationName for EffectsOfATask {
    fn name(&self) -> &str {
        "m0002_effects_of_a_task"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for EffectsOfATask {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut index = Index::create();
        index.name("intent_task").table("intent").col("company_id").col("task_id").col("settled_at");
        manager.create_index(index.take()).await
    }
}
