//! Who is let in where, for every route of the document.

use http::StatusCode;
use roboco_domain::verb::Verb;
use serde_json::{Value, json};

use crate::world::{CEO, World};

#[test]
fn the_document_describes_every_route() {
    let document = roboco_server::openapi();
    assert_eq!(document["openapi"], "3.1.0");
    insta::assert_json_snapshot!(document);
}

/// Every route against no token, an agent's, an unknown one and the CEO's. The paths name nothing that exists.
#[tokio::test]
async fn every_route_knows_its_callers() {
    let world = World::new().await;
    let task = world.task().await;
    let agent = world.token(&world.run("be-dev-1", &task, Verb::IWillWorkOn).await);
    let document = roboco_server::openapi();
    let mut matrix = String::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let concrete = path.replace("{ref}", "T-99").replace("{task}", "T-99").replace("{nth}", "1");
            let mut row = format!("{:<6} {path:<42}", method.to_uppercase());
            for (name, token) in [("none", None), ("unknown", Some("made-up")), ("agent", Some(agent.as_str())), ("ceo", Some(CEO))] {
                let bearer = token.map(|token| format!("Bearer {token}"));
                let headers: Vec<(&str, &str)> = bearer.iter().map(|value| ("authorization", value.as_str())).collect();
                let answer = world.open(&method.to_uppercase(), &concrete, &headers, "{}").await;
                row += &format!(" {name} {}", answer.status().as_u16());
                let guarded = path.starts_with("/api");
                assert_eq!(answer.status() == StatusCode::UNAUTHORIZED, guarded && name != "ceo", "{method} {path} as {name}");
            }
            matrix += row.trim_end();
            matrix.push('\n');
        }
    }
    insta::assert_snapshot!(matrix);
}

#[tokio::test]
async fn every_command_of_people_has_a_route_and_no_other_verb_has_one() {
    let document = roboco_server::openapi();
    for verb in Verb::ALL {
        let path = format!("/api/tasks/{{ref}}/{}", verb.command_word());
        let expected = verb.is_operator() && *verb != Verb::CreateTask;
        assert_eq!(document["paths"].get(&path).is_some(), expected, "{path}");
        let arguments = &document["components"]["schemas"][verb.as_str()];
        assert!(arguments["properties"].get("task_id").is_none(), "{verb} names its task twice");
    }
}

/// Names every reference of the document and checks that it leads somewhere.
#[test]
fn no_reference_of_the_document_is_dangling() {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|value| walk(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let document = roboco_server::openapi();
    let mut found = Vec::new();
    walk(&document, &mut found);
    assert!(found.len() > 20);
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference} leads nowhere");
    }
}

#[tokio::test]
async fn foreign_host_names_and_origins_are_turned_away_everywhere() {
    let world = World::new().await;
    let bearer = format!("Bearer {CEO}");
    for (headers, expected) in [
        (vec![("host", "localhost:7777")], StatusCode::OK),
        (vec![("host", "[::1]:7777"), ("origin", "http://127.0.0.1:7777")], StatusCode::OK),
        (vec![("host", "evil.example")], StatusCode::FORBIDDEN),
        (vec![("host", "127.0.0.1:7777"), ("origin", "https://evil.example")], StatusCode::FORBIDDEN),
        (vec![("host", "127.0.0.1:7777"), ("origin", "null")], StatusCode::FORBIDDEN),
    ] {
        let mut all = vec![("authorization", bearer.as_str())];
        all.extend(headers.iter().copied());
        let answer = world.send("GET", "/api/agents", &all, "").await;
        assert_eq!(answer.status, expected, "{headers:?}");
        if expected == StatusCode::FORBIDDEN {
            assert_eq!(answer.body["error"]["code"], json!("not_authorized"));
            let door = world.send("POST", "/api/v1/flow/developer/give_me_work", &all, "").await;
            assert_eq!(door.status, StatusCode::FORBIDDEN, "the agents' door is open to {headers:?}");
        }
    }
}
