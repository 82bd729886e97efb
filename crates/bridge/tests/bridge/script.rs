//! `bridge script`: a scripted agent against an MCP server.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::Bridge;
use crate::server::{Form, Server, TOKEN};

/// A working directory, a play and its files.
struct Stage {
    base: TempDir,
}

impl Stage {
    fn new(play: &str) -> Self {
        let base = tempfile::tempdir().unwrap();
        for directory in ["tree", "files"] {
            fs::create_dir(base.path().join(directory)).unwrap();
        }
        fs::write(base.path().join("play.toml"), play).unwrap();
        Self { base }
    }

    /// A stage with one play for the developer that has these steps.
    fn steps(steps: &str) -> Self {
        Self::new(&format!("[[play]]\nrole = \"developer\"\nsteps = [{steps}]"))
    }

    fn start(&self, url: &str, token: &str) -> Bridge {
        let path = |name: &str| self.base.path().join(name).display().to_string();
        let (play, files) = (path("play.toml"), path("files"));
        let env = [("ROBOCO_MCP_URL", url), ("ROBOCO_AGENT_TOKEN", token), ("ROBOCO_PLAY_FILE", &play), ("ROBOCO_PLAY_FILES_DIR", &files)];
        Bridge::start(&["script"], &env, &self.base.path().join("tree"))
    }

    /// Plays one brief to the end of the agent: its lines and its exit code.
    async fn play(&self, server: &Server) -> (Vec<Value>, Option<i32>) {
        let mut agent = self.start(&server.url, TOKEN);
        agent.send(&brief(0).to_string()).await;
        agent.close_stdin();
        let mut said = Vec::new();
        while let Some(line) = agent.next().await {
            said.push(line);
        }
        (said, agent.wait().await.code())
    }
}

fn brief(round: u64) -> Value {
    json!({"task": "T-1", "task_title": "Greet several people", "role": "developer", "agent": "be-dev-1", "verb": "i_will_work_on",
        "criteria": [{"id": "C1", "text": "it greets"}], "findings": [], "round": round})
}

fn ok(status: &str) -> Value {
    json!({"status": status, "next": "go on", "evidence": {"pr": 7}})
}

async fn turn(agent: &mut Bridge) -> Vec<Value> {
    let mut said = Vec::new();
    loop {
        let line = agent.next().await.expect("the agent ended in the middle of a turn");
        let over = line["type"] == "turn_done";
        said.push(line);
        if over {
            return said;
        }
    }
}

const LEAF: &str = r#"
[[play]]
role = "developer"
when = { task = "Greet several*", verb = "i_will_work_on" }
steps = [
  { call = "i_will_work_on", args = { task_id = "{{ task }}", plan = "do it", steps = [{ title = "write" }] } },
  { write = "src/deep/greet.js", file = "greet.js" },
  { write = "note.txt", text = "pr {{ last.evidence.pr }} for {{ agent }}" },
  { run = "cat src/deep/greet.js; exit 4", expect = 4 },
  { pause_ms = 1 },
  { call = "commit", args = { message = "feat: greet" }, accept = ["nothing_to_commit"] },
  { call = "open_pr", args = { task_id = "{{ task }}" }, expect = "opened" },
  { call = "i_am_done", args = { task_id = "{{ task }}", pr = "{{ last.evidence.pr }}", criteria = [{ id = "{{ criteria[0].id }}", evidence = "test:x" }] } },
]
"#;

#[tokio::test]
async fn a_leaf_is_played_through_the_real_protocol_in_both_forms_of_answer() {
    for form in [Form::Json, Form::Events] {
        let server = Server::start(form, |_, verb, _| match verb {
            "commit" => json!({"error": "invalid_state", "message": "m", "reason": "nothing_to_commit"}),
            "open_pr" => ok("opened"),
            _ => ok("claimed"),
        })
        .await;
        let stage = Stage::new(LEAF);
        fs::write(stage.base.path().join("files/greet.js"), "// hi {{ not a template }}\n").unwrap();
        let (said, code) = stage.play(&server).await;
        assert_eq!(code, Some(0), "{said:?}");
        assert_eq!(server.methods()[..3], ["initialize", "notifications/initialized", "tools/call"]);
        assert_eq!(
            server.calls(),
            [
                ("i_will_work_on".into(), json!({"task_id": "T-1", "plan": "do it", "steps": [{"title": "write"}]})),
                ("commit".into(), json!({"message": "feat: greet"})),
                ("open_pr".into(), json!({"task_id": "T-1"})),
                ("i_am_done".into(), json!({"task_id": "T-1", "pr": 7, "criteria": [{"id": "C1", "evidence": "test:x"}]})),
            ]
        );
        let tree = stage.base.path().join("tree");
        assert_eq!(fs::read_to_string(tree.join("src/deep/greet.js")).unwrap(), "// hi {{ not a template }}\n");
        assert_eq!(fs::read_to_string(tree.join("note.txt")).unwrap(), "pr 7 for be-dev-1");
        assert_eq!(said[0], json!({"type": "ready", "mcp": "connected"}));
        assert_eq!(said[1]["type"], "tool_call");
        assert_eq!(said[1]["name"], "i_will_work_on");
        assert_eq!(said[2]["ok"], true);
        let commit = said.iter().find(|line| line["type"] == "tool_result" && line["name"] == "commit").unwrap();
        assert_eq!(commit["ok"], false);
        let run = said.iter().find(|line| line["type"] == "tool_result" && line["name"] == "run").unwrap();
        assert_eq!((&run["ok"], &run["text"]), (&json!(true), &json!("// hi {{ not a template }}")));
        assert_eq!(said.last().unwrap(), &json!({"type": "turn_done", "ok": true}));
    }
}

#[tokio::test]
async fn what_a_step_does_not_expect_ends_with_65() {
    let refusal = json!({"error": "not_authorized", "message": "no", "remediate": "ask", "missing": ["lease"]});
    for (steps, says) in [
        (r#"{ call = "commit" }"#, "commit was refused"),
        (r#"{ call = "commit", accept = ["nothing_to_commit"] }"#, "commit was refused"),
        (r#"{ call = "commit", expect = "claimed" }"#, "should have answered \"claimed\""),
        (r#"{ run = "exit 3" }"#, "ended with 3 instead of 0"),
        (r#"{ run = "true", expect = 1 }"#, "ended with 0 instead of 1"),
    ] {
        let answer = refusal.clone();
        let server = Server::start(Form::Json, move |_, _, _| answer.clone()).await;
        let (said, code) = Stage::steps(steps).play(&server).await;
        assert_eq!(code, Some(65), "{steps}");
        let last = said.last().unwrap();
        assert!(last["type"] == "error" && last["message"].as_str().unwrap().contains(says), "{steps}: {last}");
    }
    for accepted in ["not_authorized", "lease"] {
        let answer = refusal.clone();
        let server = Server::start(Form::Json, move |_, _, _| answer.clone()).await;
        let (said, code) = Stage::steps(&format!(r#"{{ call = "commit", accept = ["{accepted}"] }}"#)).play(&server).await;
        assert_eq!(code, Some(0), "{said:?}");
    }
}

#[tokio::test]
async fn a_wrong_play_brief_or_template_ends_with_78() {
    let server = Server::start(Form::Json, |_, _, _| ok("fine")).await;
    for (play, says) in [
        ("[[play]]\nrole = \"qa\"\nsteps = []", "no play fits role \"developer\""),
        ("[[play]]\nrole = 5", "is wrong"),
        (r#"play = [{ role = "developer", steps = [{ call = "a", args = { x = "{{ findings[0].id }}" } }] }]"#, "step 1: undefined value"),
        (r#"play = [{ role = "developer", steps = [{ write = "../x", text = "y" }] }]"#, "step 1: ../x is not a path below"),
        (r#"play = [{ role = "developer", steps = [{ write = "/tmp/x", text = "y" }] }]"#, "is not a path below"),
        (r#"play = [{ role = "developer", steps = [{ write = "x", file = "../play.toml" }] }]"#, "directory of the play's files"),
    ] {
        let stage = Stage::new(play);
        let (said, code) = stage.play(&server).await;
        assert_eq!(code, Some(78), "{play}");
        assert!(said.last().unwrap()["message"].as_str().unwrap().contains(says), "{play}: {said:?}");
    }
    assert!(server.calls().is_empty());

    let stage = Stage::steps("");
    let mut agent = stage.start(&server.url, TOKEN);
    agent.send("good morning").await;
    assert_eq!(agent.wait().await.code(), Some(78));
}

#[tokio::test]
async fn a_play_with_times_gives_way_to_the_next_in_later_rounds() {
    let server = Server::start(Form::Json, |_, _, _| ok("fine")).await;
    let stage = Stage::new(
        "[[play]]\nrole = \"developer\"\ntimes = 1\nsteps = [{ call = \"first\" }]\n[[play]]\nrole = \"developer\"\nsteps = [{ call = \"later\" }]",
    );
    for round in [0, 0, 1, 2] {
        let mut agent = stage.start(&server.url, TOKEN);
        agent.send(&brief(round).to_string()).await;
        turn(&mut agent).await;
    }
    let verbs: Vec<_> = server.calls().into_iter().map(|(verb, _)| verb).collect();
    assert_eq!(verbs, ["first", "first", "later", "later"]);
}

#[tokio::test]
async fn a_nudge_ends_in_another_turn_and_a_new_brief_in_another_play() {
    let server = Server::start(Form::Json, |_, _, _| ok("fine")).await;
    let stage = Stage::steps(r#"{ call = "work" }"#);
    let mut agent = stage.start(&server.url, TOKEN);
    agent.send(&brief(0).to_string()).await;
    turn(&mut agent).await;
    agent.send("please call a closing verb").await;
    assert_eq!(turn(&mut agent).await.len(), 2);
    assert_eq!(server.calls().len(), 1);
    agent.send(&brief(1).to_string()).await;
    turn(&mut agent).await;
    assert_eq!(server.calls().len(), 2);
    agent.close_stdin();
    assert_eq!(agent.wait().await.code(), Some(0));
}

#[tokio::test]
async fn a_verb_that_is_still_at_work_is_asked_again_when_told() {
    let server = Server::start(Form::Json, |number, _, _| match number {
        0 => json!({"status": "in_progress", "next": "end your turn; you will be told", "evidence": {"pending": true}}),
        _ => ok("done"),
    })
    .await;
    let stage = Stage::steps(r#"{ call = "i_am_done" }, { call = "after" }"#);
    let mut agent = stage.start(&server.url, TOKEN);
    agent.send(&brief(0).to_string()).await;
    turn(&mut agent).await;
    assert_eq!(server.calls().len(), 1);
    agent.send("the gate has passed").await;
    turn(&mut agent).await;
    let verbs: Vec<_> = server.calls().into_iter().map(|(verb, _)| verb).collect();
    assert_eq!(verbs, ["i_am_done", "i_am_done", "after"]);
}

#[tokio::test]
async fn a_server_that_cannot_answer_now_is_asked_again() {
    let server = Server::start(Form::Json, |number, _, _| match number {
        0 | 1 => json!({"error": "unavailable", "message": "busy", "retry_after_ms": 5}),
        _ => ok("fine"),
    })
    .await;
    let (_, code) = Stage::steps(r#"{ call = "work" }"#).play(&server).await;
    assert_eq!((code, server.calls().len()), (Some(0), 3));
}

#[tokio::test]
async fn without_verbs_the_agent_says_so_and_ends_with_69() {
    let server = Server::start(Form::Json, |_, _, _| ok("fine")).await;
    for (url, token) in [(server.url.as_str(), "wrong"), ("http://127.0.0.1:1/mcp", TOKEN), ("https://127.0.0.1/mcp", TOKEN)] {
        let stage = Stage::steps("");
        let mut agent = stage.start(url, token);
        assert_eq!(agent.next().await.unwrap(), json!({"type": "ready", "mcp": "failed"}));
        assert_eq!(agent.next().await.unwrap()["type"], "error");
        assert_eq!(agent.wait().await.code(), Some(69), "{url}");
    }
}

#[tokio::test]
async fn faults_on_purpose() {
    let server = Server::start(Form::Json, |_, _, _| ok("fine")).await;
    let stage = Stage::steps("{ crash = true }");
    let mut crash = stage.start(&server.url, TOKEN);
    crash.send(&brief(0).to_string()).await;
    assert_eq!(crash.wait().await.code(), None, "a crash is a signal");

    let (said, code) = Stage::steps("{ flood_mb = 2 }").play(&server).await;
    let bytes: usize = said.iter().filter_map(|line| line["text"].as_str()).map(str::len).sum();
    assert_eq!(code, Some(0));
    assert!((2_000_000..2_200_000).contains(&bytes), "{bytes}");

    let stage = Stage::steps(r#"{ call = "work" }, { hang = true }"#);
    let mut hang = stage.start(&server.url, TOKEN);
    hang.send(&brief(0).to_string()).await;
    hang.close_stdin();
    for kind in ["ready", "tool_call", "tool_result"] {
        assert_eq!(hang.next().await.unwrap()["type"], kind);
    }
    assert!(tokio::time::timeout(std::time::Duration::from_millis(300), hang.next()).await.is_err(), "it goes on");
}
