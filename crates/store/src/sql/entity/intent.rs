//! The outbox: work in the outside world, recorded with the decision that wants it. `seq` and `nth` say in which order it was wanted.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "intent")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub company_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub task_id: String,
    pub kind: String,
    pub payload: String,
    pub state: String,
    pub attempts: i64,
    pub seq: i64,
    pub nth: i64,
    pub created_at: i64,
    pub not_before: i64,
    pub settled_at: Option<i64>,
    pub result: Option<String>,
    pub error: Option<String>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
