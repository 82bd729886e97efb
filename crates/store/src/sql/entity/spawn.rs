//! Attempts to run an agent.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "spawn")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub company_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub task_number: i64,
    pub nth: i64,
    pub task_id: String,
    pub agent_id: String,
    pub state: String,
    pub version: i64,
    pub doc: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
