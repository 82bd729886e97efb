//! The scripted model as a client sees it.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

use std::time::Duration;

use scripted_model::{ModelServer, Play, Script, Step};
use serde_json::{Value, json};

async fn post(server: &ModelServer, body: &Value) -> reqwest::Result<(u16, String)> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.post(format!("{}/v1/messages", server.base_url())).json(body).send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// A conversation with `results` tool results after the message `text`.
fn conversation(text: &str, results: &[&str]) -> Value {
    let mut messages = vec![json!({"role": "user", "content": text})];
    for (at, result) in results.iter().enumerate() {
        let id = format!("t{at}");
        messages.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "look", "input": {}}]}));
        messages.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": result}]}));
    }
    json!({"model": "m", "tools": [{"name": "look"}], "messages": messages})
}

async fn block(server: &ModelServer, body: &Value) -> Value {
    let (status, text) = post(server, body).await.unwrap();
    assert_eq!(status, 200, "{text}");
    serde_json::from_str::<Value>(&text).unwrap()["content"][0].clone()
}

#[tokio::test]
async fn steps_follow_the_conversation_and_not_the_number_of_requests() {
    let made = Step::tool_with("write", |request| json!({"said": request.tool_results()[0].json()["id"]}));
    let steps = vec![Step::verb("look", json!({"deep": true})), made, Step::text("finished")];
    let server = ModelServer::start(Script::new(vec![Play::mentioning("for be-dev-1", steps)])).await.unwrap();
    for _ in 0..2 {
        let first = block(&server, &conversation("work for be-dev-1", &[])).await;
        assert_eq!((first["name"].as_str(), &first["input"]), (Some("mcp__roboco__look"), &json!({"deep": true})));
        let second = block(&server, &conversation("work for be-dev-1", &["{\"id\":7}"])).await;
        assert_eq!((second["name"].as_str(), &second["input"]), (Some("write"), &json!({"said": 7})));
        assert_ne!(first["id"], second["id"]);
        let third = block(&server, &conversation("work for be-dev-1", &["{\"id\":7}", "ok"])).await;
        assert_eq!(third["text"], "finished");
        let after = block(&server, &conversation("work for be-dev-1", &["{\"id\":7}", "ok", "ok"])).await;
        assert_eq!(after["text"], "That is all.");
    }
    let (status, text) = post(&server, &conversation("work for be-qa", &[])).await.unwrap();
    assert_eq!(status, 400, "{text}");
    assert_eq!(server.conversations().len(), 9);
}

#[tokio::test]
async fn failing_steps_stand_in_front_of_the_next_one_and_can_pass() {
    let refuse = Step::refuse(429, "rate_limit_error", "slow down").header("retry-after", "2").times(2);
    let steps = vec![Step::tool("look", json!({})), refuse, Step::cut().times(1), Step::text("finished")];
    let server = ModelServer::start(Script::new(vec![Play::always(steps)])).await.unwrap();
    assert_eq!(block(&server, &conversation("x", &[])).await["type"], "tool_use");
    let next = conversation("x", &["ok"]);
    for _ in 0..2 {
        let (status, text) = post(&server, &next).await.unwrap();
        assert_eq!(status, 429);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["error"]["type"], "rate_limit_error");
    }
    assert!(post(&server, &next).await.is_err(), "a cut answer looked whole");
    assert_eq!(block(&server, &next).await["text"], "finished");
}

#[tokio::test]
async fn a_hanging_step_never_answers() {
    let server = ModelServer::start(Script::new(vec![Play::always(vec![Step::hang()])])).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(300), post(&server, &conversation("x", &[]))).await.is_err());
}

#[tokio::test]
async fn a_streamed_answer_adds_up_to_the_whole_one() {
    let steps = vec![Step::tool("look", json!({"a": [1, "ü"]})), Step::text("finished")];
    let server = ModelServer::start(Script::new(vec![Play::always(steps)])).await.unwrap();
    let mut body = conversation("x", &[]);
    body["stream"] = json!(true);
    let (_, text) = post(&server, &body).await.unwrap();
    let events: Vec<Value> =
        text.lines().filter_map(|line| line.strip_prefix("data: ")).map(|data| serde_json::from_str(data).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"];
    assert_eq!(kinds, expected);
    assert_eq!(events[1]["content_block"]["name"], "look");
    let input = events[2]["delta"]["partial_json"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(input).unwrap(), json!({"a": [1, "ü"]}));
    assert_eq!(events[4]["delta"]["stop_reason"], "tool_use");
}

#[tokio::test]
async fn requests_on_the_side_are_answered_and_use_up_no_step() {
    let steps = vec![Step::refuse(500, "api_error", "no").times(1), Step::text("finished")];
    let server = ModelServer::start(Script::new(vec![Play::always(steps)])).await.unwrap();
    let side = json!({"model": "m", "messages": [{"role": "user", "content": "make a title"}]});
    assert_eq!(block(&server, &side).await["text"], "A title");
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let at = |path: &str| format!("{}{path}", server.base_url());
    assert_eq!(client.head(at("/")).send().await.unwrap().status().as_u16(), 200);
    assert!(client.get(at("/v1/models")).send().await.unwrap().text().await.unwrap().contains("scripted"));
    let count = client.post(at("/v1/messages/count_tokens")).body("{}").send().await.unwrap();
    assert_eq!(count.json::<Value>().await.unwrap()["input_tokens"], 1000);
    assert_eq!(client.get(at("/v1/else")).send().await.unwrap().status().as_u16(), 404);
    assert_eq!(post(&server, &conversation("x", &[])).await.unwrap().0, 500);
}

#[tokio::test]
async fn scripts_can_be_read_from_json() {
    let text = r#"{"plays": [
        {"mentioning": "be-qa", "steps": [{"text": "I judge"}]},
        {"steps": [{"status": 529, "kind": "overloaded_error", "times": 1}, {"tool": "look"}, {"text": "done"}]}]}"#;
    let server = ModelServer::start(Script::from_json(text).unwrap()).await.unwrap();
    assert_eq!(block(&server, &conversation("you are be-qa", &[])).await["text"], "I judge");
    assert_eq!(post(&server, &conversation("x", &[])).await.unwrap().0, 529);
    assert_eq!(block(&server, &conversation("x", &[])).await["name"], "look");
    assert!(Script::from_json(r#"{"plays": [{"steps": [{"txet": "typo"}]}]}"#).is_err());
}
