//! Tasks: the whole in `doc`, beside it what is searched for. `lease_expires_at` may be later than the document says: heartbeats write only here.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "task")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub company_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub number: i64,
    pub project_id: String,
    pub stage: String,
    pub hold_kind: Option<String>,
    pub assignee: Option<String>,
    pub priority: i64,
    pub lease_spawn: Option<String>,
    pub lease_expires_at: Option<i64>,
    pub version: i64,
    pub doc: String,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
