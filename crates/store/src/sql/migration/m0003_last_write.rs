//! Every transaction that commits a decision leaves its name, so that one whose answer was lost can be looked for.

use sea_orm_migration::prelude::*;

pub(super) struct LastWrite;

impl MigrationName for LastWrite {
    fn name(&self) -> &str {
        "m0003_last_write"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for LastWrite {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut counter = Table::alter();
        counter.table("counter").add_column(ColumnDef::new("last_write").text().null().take());
        manager.alter_table(counter.take()).await
    }
}
