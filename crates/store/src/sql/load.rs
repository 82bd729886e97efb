//! Reading what memory is rebuilt from.

use std::sync::Arc;

use roboco_domain::id::{CompanyId, SpawnId};
use roboco_domain::inbox::InboxItem;
use roboco_domain::project::Project;
use roboco_domain::spawn::{Spawn, SpawnState};
use roboco_domain::task::Stage;
use sea_orm::{ColumnTrait, ConnectionTrait, DatabaseConnection, EntityTrait, QueryFilter, QueryOrder, QuerySelect, TransactionTrait};

use super::entity::{agent_seat, company, counter, event, inbox, leader, project, spawn, task, transcript};
use super::fault::{fault, unreadable};
use super::memory::{Counter, Memory};
use super::plan::Volume;
use super::rows;
use crate::{EventRow, StoreFault};

/// The words of the stages in which a task has ended.
pub(super) fn ended() -> impl Iterator<Item = &'static str> {
    Stage::TERMINAL.iter().map(|stage| stage.as_str())
}

/// Everything that is open.
pub(super) async fn memory(db: &impl ConnectionTrait, of: CompanyId) -> Result<Memory, StoreFault> {
    let of = of.to_string();
    let numbers = counter::Entity::find_by_id(of.clone()).one(db).await.map_err(fault)?;
    let numbers = numbers.ok_or_else(|| unreadable("counter", "its row is missing; restore a backup"))?;
    let next =
        Counter { event: rows::count(numbers.next_event), task: rows::count(numbers.next_task), inbox: rows::count(numbers.next_inbox) };
    let mut memory = Memory::new(next);
    let open = task::Entity::find().filter(task::Column::CompanyId.eq(&of)).filter(task::Column::Stage.is_not_in(ended()));
    for row in open.all(db).await.map_err(fault)? {
        memory.put_task(Arc::new(rows::task(&row)?));
    }
    for row in project::Entity::find().filter(project::Column::CompanyId.eq(&of)).all(db).await.map_err(fault)? {
        memory.put_project(Arc::new(rows::from_json::<Project>("project", &row.doc)?));
    }
    for row in agent_seat::Entity::find().filter(agent_seat::Column::CompanyId.eq(&of)).all(db).await.map_err(fault)? {
        memory.put_seat(rows::seat(&row)?);
    }
    let live = [SpawnState::Intended, SpawnState::Started].map(SpawnState::as_str);
    let live = spawn::Entity::find().filter(spawn::Column::CompanyId.eq(&of)).filter(spawn::Column::State.is_in(live));
    for row in live.all(db).await.map_err(fault)? {
        memory.put_spawn(rows::from_json::<Spawn>("spawn", &row.doc)?);
    }
    let waiting = inbox::Entity::find().filter(inbox::Column::CompanyId.eq(&of)).filter(inbox::Column::DecidedAt.is_null());
    for row in waiting.all(db).await.map_err(fault)? {
        memory.put_inbox(rows::from_json::<InboxItem>("inbox item", &row.doc)?);
    }
    Ok(memory)
}

/// The company that lives here, if one was made.
pub(super) async fn company(db: &impl ConnectionTrait) -> Result<Option<CompanyId>, StoreFault> {
    let row = company::Entity::find().one(db).await.map_err(fault)?;
    row.map(|row| rows::parse("company", &row.id)).transpose()
}

/// Which transaction wrote last. Waits for one that is still being committed.
pub(super) async fn last_write(db: &DatabaseConnection, of: CompanyId) -> Result<Option<String>, StoreFault> {
    let transaction = db.begin().await.map_err(fault)?;
    let row = counter::Entity::find_by_id(of.to_string()).lock_exclusive().one(&transaction).await.map_err(fault)?;
    transaction.rollback().await.map_err(fault)?;
    Ok(row.and_then(|row| row.last_write))
}

/// Events after one number and before another.
pub(super) async fn events(db: &impl ConnectionTrait, of: CompanyId, after: u64, before: u64) -> Result<Vec<EventRow>, StoreFault> {
    let found = event::Entity::find()
        .filter(event::Column::CompanyId.eq(of.to_string()))
        .filter(event::Column::Seq.gt(rows::stored(after)))
        .filter(event::Column::Seq.lt(rows::stored(before)))
        .order_by_asc(event::Column::Seq);
    found.all(db).await.map_err(fault)?.iter().map(rows::event).collect()
}

/// How much of a spawn's transcript is stored.
pub(super) async fn volume(db: &impl ConnectionTrait, of: CompanyId, spawn: SpawnId) -> Result<Volume, StoreFault> {
    let sizes: Vec<i64> = transcript::Entity::find()
        .select_only()
        .column(transcript::Column::Bytes)
        .filter(transcript::Column::CompanyId.eq(of.to_string()))
        .filter(transcript::Column::SpawnId.eq(spawn.to_string()))
        .into_tuple()
        .all(db)
        .await
        .map_err(fault)?;
    Ok(Volume { blocks: sizes.len() as u64, bytes: sizes.into_iter().map(rows::count).sum() })
}

/// Which process may write.
pub(super) async fn leader(db: &impl ConnectionTrait, of: CompanyId) -> Result<Option<leader::Model>, StoreFault> {
    leader::Entity::find_by_id(of.to_string()).one(db).await.map_err(fault)
}
