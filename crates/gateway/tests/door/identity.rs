//! Who is let in where.

use http::StatusCode;
use roboco_domain::command::AgentActor;
use roboco_domain::limits;
use roboco_domain::spawn::Epoch;
use roboco_domain::verb::Verb;
use roboco_gateway::{Gateway, Keys};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::world::{Run, World};

const MESSAGE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"give_me_work","arguments":{}}}"#;

/// Every door against every kind of caller. The good one is a developer's run; the other spawn and the other role are live runs too.
#[tokio::test]
async fn every_endpoint_knows_its_callers() {
    let world = World::new().await;
    let task = world.task().await;
    let good = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let qa = world.run("be-qa", task, Verb::ClaimReview).await;
    let second = world.task().await;
    let colleague = world.run("be-dev-2", second, Verb::IWillWorkOn).await;
    let stale = world.token(AgentActor { epoch: Epoch(0), ..good.actor.clone() });
    let moved = world.token(AgentActor { team: "frontend".parse().unwrap(), ..good.actor.clone() });
    let other_keys = Keys::generate().unwrap().mint(&good.actor, world.now()).unwrap();
    let foreign = Run { token: other_keys.expose_secret().to_owned(), ..good.clone() };
    let garbage = Run { token: "garbage".into(), ..good.clone() };
    let expired = world.token(good.actor.clone());
    let callers: Vec<(&str, Option<&Run>)> = vec![
        ("no token", None),
        ("garbage", Some(&garbage)),
        ("foreign key", Some(&foreign)),
        ("other team", Some(&moved)),
        ("stale epoch", Some(&stale)),
        ("other spawn", Some(&colleague)),
        ("other role", Some(&qa)),
        ("good", Some(&good)),
    ];
    let mcp = Gateway::mcp_path(good.actor.spawn);
    let doors = [
        ("/api/v1/flow/developer/give_me_work", "{}"),
        ("/api/v1/flow/developer/i_will_work_on", "{}"),
        ("/api/v1/flow/developer/pass", "{}"),
        ("/api/v1/flow/qa/give_me_work", "{}"),
        ("/api/v1/do/evidence", r#"{"task_id":"T-1"}"#),
        ("/api/v1/do/nothing", "{}"),
        ("/api/v1/nowhere", "{}"),
        (mcp.as_str(), MESSAGE),
    ];
    let mut matrix = String::new();
    for (path, body) in doors {
        let shown = path.replace(&good.actor.spawn.to_string(), "{be-dev-1}");
        for (name, run) in &callers {
            let answer = ask(&world, path, body, run.map(|run| run.token.as_str())).await;
            matrix += &format!("{shown:<40} {name:<12} {answer}\n");
        }
    }
    world.pass(limits::AGENT_TOKEN.as_secs().try_into().unwrap());
    for (path, body) in doors {
        let shown = path.replace(&good.actor.spawn.to_string(), "{be-dev-1}");
        let answer = ask(&world, path, body, Some(&expired.token)).await;
        matrix += &format!("{shown:<40} {:<12} {answer}\n", "expired");
    }
    insta::assert_snapshot!(matrix);
}

async fn ask(world: &World, path: &str, body: &str, token: Option<&str>) -> String {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    headers.extend(bearer.iter().map(|value| ("authorization", value.as_str())));
    let answer = world.send("POST", path, &headers, body.to_owned()).await;
    let said = match &answer.body["error"] {
        Value::String(kind) => kind.clone(),
        Value::Object(error) => error["code"].as_str().unwrap_or_default().to_owned(),
        _ => match answer.body["result"]["content"][0]["text"].as_str() {
            Some(text) => serde_json::from_str::<Value>(text).unwrap()["error"].as_str().unwrap_or("ok").to_owned(),
            None => "ok".into(),
        },
    };
    format!("{} {said}", answer.status.as_u16())
}

#[tokio::test]
async fn identity_headers_are_compared_with_the_token_and_never_believed() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    let own = run.actor.agent.to_string();
    let other = world.company.roster().by_slug("be-qa").unwrap().id.to_string();
    let cases: &[(&str, &str, StatusCode)] = &[
        ("x-agent-id", &own, StatusCode::OK),
        ("x-agent-id", &other, StatusCode::FORBIDDEN),
        ("x-agent-id", "be-dev-1", StatusCode::UNPROCESSABLE_ENTITY),
        ("x-agent-role", "DEVELOPER", StatusCode::OK),
        ("x-agent-role", "qa", StatusCode::FORBIDDEN),
        ("x-agent-role", "king", StatusCode::UNPROCESSABLE_ENTITY),
        ("x-agent-team", "backend", StatusCode::OK),
        ("x-agent-team", "frontend", StatusCode::FORBIDDEN),
        ("x-agent-team", "no team!", StatusCode::UNPROCESSABLE_ENTITY),
    ];
    for (name, value, expected) in cases {
        let answer = world.call_with(&run, "give_me_work", json!({}), &[(name, value)]).await;
        assert_eq!(answer.status, *expected, "{name}: {value}: {:?}", answer.body);
    }
    // They open nothing by themselves.
    let answer =
        world.send("POST", "/api/v1/flow/developer/give_me_work", &[("x-agent-id", &own), ("x-agent-role", "developer")], "").await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    // The older header carries the same token.
    let answer = world.send("POST", "/api/v1/flow/developer/give_me_work", &[("x-agent-token", &run.token)], "").await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
}

#[tokio::test]
async fn nothing_an_agent_is_told_carries_its_token() {
    let world = World::new().await;
    let task = world.task().await;
    let run = world.run("be-dev-1", task, Verb::IWillWorkOn).await;
    for (verb, arguments) in [("give_me_work", json!({})), ("open_pr", json!({ "task_id": "T-1", "title": 7 })), ("nonsense", json!({}))] {
        let answer = world.call(&run, verb, arguments).await;
        assert!(!answer.body.to_string().contains(&run.token), "{verb}");
    }
    let secret = world.gateway.keys().secret().expose_secret().to_owned();
    assert!(!format!("{:?}", world.gateway).contains(&secret), "keys are printed");
}
