//! The first tables.

use sea_orm_migration::prelude::*;

pub(super) struct FirstTables;

impl MigrationName for FirstTables {
    fn name(&self) -> &str {
        "m0001_first_tables"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for FirstTables {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in company_tables().into_iter().chain(work_tables()).chain(log_tables()) {
            manager.create_table(table).await?;
        }
        for index in indexes() {
            manager.create_index(index).await?;
        }
        Ok(())
    }
}

fn text(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).text().not_null().take()
}

fn text_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).text().null().take()
}

fn big(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).big_integer().not_null().take()
}

fn big_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).big_integer().null().take()
}

fn table<const N: usize>(name: &'static str, key: &[&'static str], columns: [ColumnDef; N]) -> TableCreateStatement {
    let mut primary = Index::create();
    for column in key {
        primary.col(*column);
    }
    let mut table = Table::create();
    table.table(name);
    for column in columns {
        table.col(column);
    }
    table.primary_key(&mut primary).take()
}

fn index(name: &'static str, on: &'static str, columns: &[&'static str]) -> IndexCreateStatement {
    let mut index = Index::create();
    index.name(name).table(on);
    for column in columns {
        index.col(*column);
    }
    index.take()
}

fn unique(name: &'static str, on: &'static str, columns: &[&'static str]) -> IndexCreateStatement {
    index(name, on, columns).unique().take()
}

fn company_tables() -> [TableCreateStatement; 4] {
    [
        table("company", &["id"], [text("id")]),
        table("counter", &["company_id"], [text("company_id"), big("next_event"), big("next_task"), big("next_inbox")]),
        table("leader", &["company_id"], [text("company_id"), text("holder"), big("epoch"), big("expires_at")]),
        table(
            "api_token",
            &["company_id", "name"],
            [text("company_id"), text("name"), text("agent_id"), text("digest"), big("created_at")],
        ),
    ]
}

fn work_tables() -> [TableCreateStatement; 5] {
    [
        table("project", &["company_id", "id"], [text("company_id"), text("id"), text("slug"), big("version"), text("doc")]),
        table(
            "task",
            &["company_id", "id"],
            [
                text("company_id"),
                text("id"),
                big("number"),
                text("project_id"),
                text("stage"),
                text_null("hold_kind"),
                text_null("assignee"),
                big("priority"),
                text_null("lease_spawn"),
                big_null("lease_expires_at"),
                big("version"),
                text("doc"),
            ],
        ),
        table(
            "spawn",
            &["company_id", "id"],
            [
                text("company_id"),
                text("id"),
                big("task_number"),
                big("nth"),
                text("task_id"),
                text("agent_id"),
                text("state"),
                big("version"),
                text("doc"),
            ],
        ),
        table(
            "agent_seat",
            &["company_id", "agent_id"],
            [text("company_id"), text("agent_id"), big("version"), big("epoch"), text_null("spawn_id")],
        ),
        table(
            "inbox",
            &["company_id", "number"],
            [text("company_id"), big("number"), text("task_id"), text("kind"), big_null("decided_at"), big("version"), text("doc")],
        ),
    ]
}

fn log_tables() -> [TableCreateStatement; 5] {
    [
        table(
            "event",
            &["company_id", "seq"],
            [
                text("company_id"),
                big("seq"),
                big("at"),
                text("kind"),
                big("schema"),
                text("actor"),
                text_null("task_id"),
                text_null("spawn_id"),
                text("correlation_id"),
                text_null("stage_from"),
                text_null("stage_to"),
                text("data"),
            ],
        ),
        table(
            "intent",
            &["company_id", "id"],
            [
                text("company_id"),
                text("id"),
                text("task_id"),
                text("kind"),
                text("payload"),
                text("state"),
                big("attempts"),
                big("seq"),
                big("nth"),
                big("created_at"),
                big("not_before"),
                big_null("settled_at"),
                text_null("result"),
                text_null("error"),
            ],
        ),
        table(
            "replay",
            &["company_id", "key"],
            [text("company_id"), text("key"), text("digest"), text("answer"), text_null("waits_for"), big("at")],
        ),
        table(
            "attempt",
            &["company_id", "id"],
            [
                text("company_id"),
                text("id"),
                big("at"),
                text_null("spawn_id"),
                text("agent_id"),
                text("verb"),
                text_null("task_id"),
                text("kind"),
                text("message"),
            ],
        ),
        table(
            "transcript",
            &["company_id", "spawn_id", "n"],
            [text("company_id"), text("spawn_id"), big("n"), big("at"), text("kind"), text("text"), big("bytes")],
        ),
    ]
}

fn indexes() -> Vec<IndexCreateStatement> {
    vec![
        unique("project_slug", "project", &["company_id", "slug"]),
        unique("task_number", "task", &["company_id", "number"]),
        index("task_stage", "task", &["company_id", "stage", "number"]),
        index("task_project", "task", &["company_id", "project_id", "number"]),
        unique("spawn_number", "spawn", &["company_id", "task_number", "nth"]),
        index("spawn_task", "spawn", &["company_id", "task_id", "nth"]),
        index("spawn_state", "spawn", &["company_id", "state"]),
        index("event_task", "event", &["company_id", "task_id", "seq"]),
        index("intent_state", "intent", &["company_id", "state", "seq"]),
        index("inbox_decided", "inbox", &["company_id", "decided_at"]),
        index("replay_at", "replay", &["company_id", "at"]),
        index("attempt_at", "attempt", &["company_id", "at"]),
        index("transcript_at", "transcript", &["company_id", "at"]),
        unique("api_token_digest", "api_token", &["company_id", "digest"]),
    ]
}
