//! The log: append-only, gap-free, kept for ever.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "event")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub company_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub seq: i64,
    pub at: i64,
    pub kind: String,
    pub schema: i64,
    pub actor: String,
    pub task_id: Option<String>,
    pub spawn_id: Option<String>,
    pub correlation_id: String,
    pub stage_from: Option<String>,
    pub stage_to: Option<String>,
    pub data: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
