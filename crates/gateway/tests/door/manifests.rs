//! What each role is given: the same in manifest, routes and MCP tools.

use http::StatusCode;
use roboco_domain::decide::standard_rules;
use roboco_domain::role::Role;
use roboco_domain::verb::Verb;
use roboco_gateway::manifest;
use serde_json::{Value, json};

use crate::world::{World, path_of};

#[test]
fn manifests_of_every_dispatched_role() {
    let all: Vec<Value> = Role::DISPATCHED.iter().map(|role| manifest(*role)).collect();
    insta::assert_json_snapshot!(all);
}

/// A route exists when it answers with an envelope; the others say what the role may call instead.
#[tokio::test]
async fn every_granted_verb_has_a_route_and_a_tool_and_no_other_has_one() {
    let world = World::new().await;
    for role in Role::DISPATCHED {
        let agent = world.company.roster().agents().iter().find(|agent| agent.role == *role).unwrap().slug.clone();
        let run = world.stranger(&agent);
        let listed = world.rpc(&run, None, json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).await;
        let tools: Vec<&str> = listed.body["result"]["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
        for verb in Verb::ALL {
            let granted = standard_rules().grants(*verb, *role) && (verb.is_flow() || verb.is_do());
            let answer = world.call(&run, verb.as_str(), json!({})).await;
            let expected = if granted { StatusCode::OK } else { StatusCode::NOT_FOUND };
            assert_eq!(answer.status, expected, "{} for {role}: {:?}", path_of(&run, verb.as_str()), answer.body);
            assert_eq!(tools.contains(&verb.as_str()), granted, "tool {verb} for {role}");
            if !granted {
                let remedy = answer.body["error"]["remediate"].as_str().unwrap();
                assert!(remedy.contains(if verb.is_do() { "evidence" } else { "i_am_idle" }), "{verb} for {role}: {remedy}");
            }
        }
        assert!(tools.contains(&"evidence") && tools.contains(&"i_am_idle"), "{role} cannot look or stop");
    }
}

#[tokio::test]
async fn tools_carry_help_and_a_schema_that_names_their_arguments() {
    let world = World::new().await;
    let run = world.stranger("be-dev-1");
    let listed = world.rpc(&run, None, json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" })).await;
    for tool in listed.body["result"]["tools"].as_array().unwrap() {
        let verb: Verb = tool["name"].as_str().unwrap().parse().unwrap();
        assert_eq!(tool["description"], verb.help());
        assert_eq!(tool["inputSchema"], verb.schema());
        assert_eq!(tool["inputSchema"]["type"], "object", "{verb}");
    }
}
