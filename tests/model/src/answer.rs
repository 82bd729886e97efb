//! Answers in the form of the Messages API, whole or as a stream of events.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Value, json};

use crate::Request;
use crate::script::{Action, Input, Refusal};

/// Tokens every answer claims to have used.
const INPUT_TOKENS: u64 = 1000;
const OUTPUT_TOKENS: u64 = 50;

/// Plays one action.
pub(crate) async fn play(action: &Action, request: &Request) -> Response {
    match action {
        Action::Text(text) => message(request, &json!({ "type": "text", "text": text })),
        Action::Tool { name, input } => {
            let input = match input {
                Input::Fixed(input) => input.clone(),
                Input::Made(make) => make(request),
            };
            // The place in the conversation makes the id: the same request always gets the same one.
            let id = format!("toolu_scripted_{}", request.length());
            message(request, &json!({ "type": "tool_use", "id": id, "name": name, "input": input }))
        }
        Action::Refuse(refusal) => refuse(refusal),
        Action::Cut => cut(request),
        Action::Hang => std::future::pending().await,
    }
}

/// Says `text` and nothing else.
pub(crate) fn say(request: &Request, text: &str) -> Response {
    message(request, &json!({ "type": "text", "text": text }))
}

/// An error of the API.
pub(crate) fn error(status: u16, kind: &str, text: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = json!({ "type": "error", "error": { "type": kind, "message": text }, "request_id": "req_scripted" });
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn refuse(refusal: &Refusal) -> Response {
    let mut response = error(refusal.status, &refusal.kind, &refusal.message);
    for (name, value) in &refusal.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<header::HeaderName>(), value.parse()) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn usage(output: u64) -> Value {
    json!({ "input_tokens": INPUT_TOKENS, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": output })
}

fn envelope(request: &Request, content: &[&Value], stop: Option<&str>, output: u64) -> Value {
    let id = format!("msg_scripted_{}", request.length());
    json!({
        "id": id, "type": "message", "role": "assistant", "model": request.model(), "content": content,
        "stop_reason": stop, "stop_sequence": null, "usage": usage(output),
    })
}

fn message(request: &Request, block: &Value) -> Response {
    let stop = if block.get("type") == Some(&json!("tool_use")) { "tool_use" } else { "end_turn" };
    if !request.wants_stream() {
        let body = envelope(request, &[block], Some(stop), OUTPUT_TOKENS).to_string();
        return ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    }
    let (opening, delta) = streamed(block);
    let events = [
        json!({ "type": "message_start", "message": envelope(request, &[], None, 1) }),
        json!({ "type": "content_block_start", "index": 0, "content_block": opening }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": { "output_tokens": OUTPUT_TOKENS } }),
        json!({ "type": "message_stop" }),
    ];
    let pieces = events.map(|event| Ok::<_, Infallible>(frame(&event)));
    stream(Body::from_stream(futures::stream::iter(pieces)))
}

/// A block as its empty opening and the one delta that fills it.
fn streamed(block: &Value) -> (Value, Value) {
    let mut opening = block.clone();
    if let Some(input) = block.get("input") {
        opening["input"] = json!({});
        return (opening, json!({ "type": "input_json_delta", "partial_json": input.to_string() }));
    }
    opening["text"] = json!("");
    (opening, json!({ "type": "text_delta", "text": block.get("text") }))
}

/// Begins an answer and breaks the connection.
fn cut(request: &Request) -> Response {
    let start = json!({ "type": "message_start", "message": envelope(request, &[], None, 1) });
    let block = json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } });
    let delta = json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "half an ans" } });
    let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let pieces = [Ok(frame(&start)), Ok(frame(&block)), Ok(frame(&delta)), Err(broken)];
    stream(Body::from_stream(futures::stream::iter(pieces)))
}

fn frame(event: &Value) -> Bytes {
    let name = event.get("type").and_then(Value::as_str).unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {event}\n\n"))
}

fn stream(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")], body).into_response()
}
