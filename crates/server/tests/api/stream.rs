//! The live stream: nothing is lost, nothing comes twice.

use std::sync::Arc;
use std::time::Duration;

use axum::body::BodyDataStream;
use futures::StreamExt;
use http::StatusCode;
use roboco_domain::limits;
use roboco_domain::verb::Verb;
use serde_json::{Value, json};

use crate::world::{CEO, World};

/// Longest wait for something that must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A reader of frames.
struct Reader {
    body: BodyDataStream,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    id: Option<u64>,
    event: String,
    data: Value,
}

impl Reader {
    async fn open(world: &World, query: &str, headers: &[(&str, &str)]) -> Self {
        let bearer = format!("Bearer {CEO}");
        let mut all = vec![("authorization", bearer.as_str())];
        all.extend_from_slice(headers);
        let response = world.open("GET", &format!("/api/stream{query}"), &all, "").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body().into_data_stream(), text: String::new() }
    }

    /// The next frame; none when the stream has ended.
    async fn next(&mut self) -> Option<Frame> {
        tokio::time::timeout(PATIENCE, self.read()).await.unwrap()
    }

    async fn read(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let mut read = Frame { id: None, event: String::new(), data: Value::Null };
                for line in frame.lines() {
                    match line.split_once(": ") {
                        Some(("id", id)) => read.id = Some(id.parse().unwrap()),
                        Some(("event", event)) => read.event = event.to_owned(),
                        Some(("data", data)) => read.data = serde_json::from_str(data).unwrap(),
                        _ => {}
                    }
                }
                self.text = rest.to_owned();
                if read.event.is_empty() {
                    continue;
                }
                return Some(read);
            }
            let bytes = self.body.next().await?.unwrap();
            self.text += std::str::from_utf8(&bytes).unwrap();
        }
    }
}

/// Writes notes on a task, one event each.
async fn write(world: &World, from: usize, to: usize) {
    for n in from..to {
        let (verb, body) = if n.is_multiple_of(2) { ("pause", Value::Null) } else { ("resume", Value::Null) };
        let answer = world.ceo("POST", &format!("/api/tasks/T-1/{verb}"), body).await;
        assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    }
}

#[tokio::test]
async fn frames_carry_number_kind_and_names() {
    let world = World::new().await;
    world.task().await;
    world.run("be-dev-1", "T-1", Verb::IWillWorkOn).await;
    let mut reader = Reader::open(&world, "?after=0", &[]).await;
    let mut frames = Vec::new();
    for _ in 0..4 {
        frames.push(reader.next().await.unwrap());
    }
    let kinds: Vec<&str> = frames.iter().map(|frame| frame.event.as_str()).collect();
    assert_eq!(kinds, ["project.added", "task.created", "spawn.intended", "spawn.started"]);
    let data = &frames[2].data;
    assert_eq!((frames[2].id, &data["seq"], &data["kind"]), (Some(3), &json!(3), &json!("spawn.intended")));
    assert_eq!((&data["task"], &data["spawn"], &data["actor"]), (&json!("T-1"), &json!("T-1/1"), &json!("system")));
    assert_eq!(data["text"], "be-dev-1 will be started for i_will_work_on(T-1)");
    assert!(data["data"]["spawn"].is_object());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_comes_back_while_events_are_committed_misses_and_repeats_nothing() {
    let world = Arc::new(World::new().await);
    world.task().await;
    let writer = Arc::clone(&world);
    let writing = tokio::spawn(async move { write(&writer, 0, 120).await });
    let mut seen = Vec::new();
    // 120 holds and releases come after the project and the task. The reader takes a few frames, is cut off, and comes back with the
    // number of the last one; by header and by query in turn.
    let (total, cut) = (122, 7);
    while seen.len() < total {
        let last = seen.last().copied().unwrap_or(0_u64);
        let id = last.to_string();
        let mut reader = if last.is_multiple_of(2) {
            Reader::open(&world, "?after=0", &[("last-event-id", &id)]).await
        } else {
            Reader::open(&world, &format!("?after={id}"), &[]).await
        };
        for _ in 0..cut.min(total - seen.len()) {
            seen.push(reader.next().await.unwrap().id.unwrap());
        }
    }
    writing.await.unwrap();
    assert_eq!(seen, (1..=122).collect::<Vec<u64>>());
    assert!(world.company.store().events(122, None, 1).await.unwrap().is_empty(), "more was written than was read");
}

#[tokio::test]
async fn a_reader_of_one_task_hears_of_that_task_only_and_of_new_events_without_a_position() {
    let world = World::new().await;
    world.task().await;
    world.task().await;
    let mut second = Reader::open(&world, "?task=T-2", &[]).await;
    let mut all = Reader::open(&world, "", &[]).await;
    write(&world, 0, 2).await;
    let paused = world.ceo("POST", "/api/tasks/T-2/pause", Value::Null).await;
    assert_eq!(paused.status, StatusCode::OK);
    let frame = second.next().await.unwrap();
    assert_eq!((&frame.data["task"], frame.event.as_str()), (&json!("T-2"), "task.held"));
    let first = all.next().await.unwrap();
    assert_eq!((&first.data["task"], first.event.as_str()), (&json!("T-1"), "task.held"), "an old event was sent");
    let bearer = format!("Bearer {CEO}");
    let answer = world.send("GET", "/api/stream?task=T-9", &[("authorization", &bearer)], "").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    let answer = world.send("GET", "/api/stream", &[("authorization", &bearer), ("last-event-id", "x")], "").await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_reader_that_lags_is_told_to_start_again_and_closed() {
    let world = World::new().await;
    world.task().await;
    let mut reader = Reader::open(&world, "", &[]).await;
    write(&world, 0, limits::STREAM_LAG + 10).await;
    assert_eq!(reader.next().await.unwrap().event, "resync");
    assert_eq!(reader.next().await, None);
}

#[tokio::test]
async fn streams_end_when_the_server_stops() {
    let world = World::new().await;
    world.task().await;
    let mut reader = Reader::open(&world, "?after=0", &[]).await;
    assert_eq!(reader.next().await.unwrap().event, "project.added");
    assert_eq!(reader.next().await.unwrap().event, "task.created");
    world.state.shutdown.cancel();
    assert_eq!(reader.next().await, None);
}
