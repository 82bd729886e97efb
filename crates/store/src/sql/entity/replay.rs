//! Answers kept so that a repeated request is not done twice.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "replay")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub company_id: String,
    #[sea_orm(primary_key, auto_increment = false)]
    pub key: String,
    pub digest: String,
    pub answer: String,
    pub waits_for: Option<String>,
    pub at: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
