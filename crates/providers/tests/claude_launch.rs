//! What the client is started with.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail the test")]

use std::path::Path;

use roboco_providers::{
    ClientSpec, Confinement, FileAccess, Launch, Login, Play, Provider, ProviderError, RunCaps, RunsAs, Session, claude::Claude,
    scripted::Scripted,
};
use secrecy::{ExposeSecret, SecretString};

const TOKEN: &str = "tok-3141592653";
const SESSION: &str = "11111111-1111-4111-8111-111111111111";

fn with(change: impl FnOnce(&mut Launch<'_>), driver: &dyn Provider) -> Result<ClientSpec, ProviderError> {
    let token = SecretString::from(TOKEN);
    let facts = serde_json::json!({"task": "T-1", "verb": "i_will_work_on"});
    let mut launch = Launch {
        program: Path::new("/opt/claude"),
        model: Some("sonnet"),
        system_prompt: "You are be-dev-1.",
        brief: "Work on \"T-1\"\nnow.",
        facts: &facts,
        mcp_url: "http://127.0.0.1:7777/mcp/spawn",
        agent_token: &token,
        model_base_url: "http://127.0.0.1:7777/model/claude",
        login: Login::ApiKey,
        session: Session::New(SESSION),
        home: Path::new("/home/agent"),
        confinement: Confinement::Confined(RunsAs::Root),
        files: FileAccess::Write,
        caps: RunCaps::default(),
        play: None,
    };
    change(&mut launch);
    driver.launch(&launch)
}

fn claude(change: impl FnOnce(&mut Launch<'_>)) -> ClientSpec {
    with(change, &Claude).unwrap()
}

fn shown(spec: &ClientSpec) -> String {
    let files: Vec<String> =
        spec.files.iter().map(|file| format!("{} {:o} {}", file.path, file.mode, file.content.expose_secret())).collect();
    let env: Vec<String> = spec.env.iter().map(|(name, value)| format!("{name}={}", value.expose())).collect();
    format!("{}\n\n{}\n\n{}\n\n{}", spec.argv.join(" "), env.join("\n"), files.join("\n"), spec.first_input.join("\n"))
}

#[test]
fn a_confined_root_client_starts_as_measured() {
    insta::assert_snapshot!(shown(&claude(|_| {})));
}

#[test]
fn an_unconfined_reader_on_a_subscription_starts_with_its_own_rules() {
    insta::assert_snapshot!(shown(&claude(|launch| {
        launch.confinement = Confinement::Unconfined;
        launch.files = FileAccess::ReadOnly;
        launch.login = Login::Subscription;
        launch.session = Session::Resume(SESSION);
        launch.model = None;
        launch.caps = RunCaps { turns: Some(200), usd_micros: Some(2_500_000) };
    })));
}

#[test]
fn skipping_permission_questions_needs_confinement() {
    for (confinement, skips, sandbox) in [
        (Confinement::Confined(RunsAs::Root), true, true),
        (Confinement::Confined(RunsAs::User), true, false),
        (Confinement::Unconfined, false, false),
    ] {
        let spec = claude(|launch| launch.confinement = confinement);
        assert_eq!(spec.argv.iter().any(|word| word == "--dangerously-skip-permissions"), skips, "{confinement:?}");
        assert_eq!(spec.env.contains_key("IS_SANDBOX"), sandbox, "{confinement:?}");
    }
}

#[test]
fn only_those_who_write_get_tools_that_write_and_nobody_gets_sub_agents() {
    for (files, writes) in [(FileAccess::Write, true), (FileAccess::ReadOnly, false)] {
        let spec = claude(|launch| launch.files = files);
        let after = |flag: &str| {
            let at = spec.argv.iter().position(|word| word == flag).unwrap();
            spec.argv[at + 1].split(',').map(str::to_owned).collect::<Vec<_>>()
        };
        let (allowed, denied) = (after("--tools"), after("--disallowedTools"));
        for tool in ["Edit", "Write"] {
            assert_eq!(allowed.iter().any(|name| name == tool), writes);
            assert_eq!(denied.iter().any(|name| name == tool), !writes);
        }
        assert!(denied.iter().any(|name| name == "Task") && !allowed.iter().any(|name| name == "Task"));
    }
}

#[test]
fn hooks_committed_to_the_code_under_review_are_not_loaded() {
    for confinement in [Confinement::Confined(RunsAs::Root), Confinement::Confined(RunsAs::User), Confinement::Unconfined] {
        for session in [Session::New(SESSION), Session::Resume(SESSION)] {
            for files in [FileAccess::Write, FileAccess::ReadOnly] {
                let spec = claude(|launch| (launch.confinement, launch.session, launch.files) = (confinement, session, files));
                let sources: Vec<&String> = spec.argv.iter().filter(|word| word.starts_with("--setting-sources")).collect();
                assert_eq!(sources, ["--setting-sources="], "{confinement:?} {session:?} {files:?}");
                assert!(!spec.argv.iter().any(|word| word == "--settings"), "{:?}", spec.argv);
            }
        }
    }
}

#[test]
fn the_token_is_in_no_argument_and_in_no_debug_output() {
    for driver in [&Claude as &dyn Provider, &Scripted] {
        let play = Play { file: Path::new("/play.toml"), files: Path::new("/files") };
        let spec = with(|launch| launch.play = Some(play), driver).unwrap();
        assert!(!spec.argv.concat().contains(TOKEN));
        assert!(!spec.first_input.concat().contains(TOKEN));
        assert!(!format!("{spec:?}").contains(TOKEN));
        assert!(spec.env.values().any(|value| value.expose().contains(TOKEN)));
        assert!(spec.files.iter().all(|file| file.mode == 0o600));
    }
}

#[test]
fn values_a_command_line_would_misread_are_refused() {
    let refused = |change: fn(&mut Launch<'_>)| assert!(matches!(with(change, &Claude), Err(ProviderError::Value { .. })));
    refused(|launch| launch.model = Some("--settings=/etc/x"));
    refused(|launch| launch.model = Some(""));
    refused(|launch| launch.model = Some("a b"));
    refused(|launch| launch.session = Session::New("not-a-uuid"));
    refused(|launch| launch.session = Session::Resume("-1"));
    refused(|launch| launch.mcp_url = "file:///etc/passwd");
    refused(|launch| launch.model_base_url = "127.0.0.1:7777");
    assert_eq!(with(|_| {}, &Scripted).unwrap_err(), ProviderError::NoPlay);
}

#[test]
fn a_scripted_agent_is_the_player_with_its_brief_as_data() {
    let play = Play { file: Path::new("/play/play.toml"), files: Path::new("/play") };
    let spec = with(
        |launch| {
            launch.program = Path::new("/usr/bin/roboco");
            launch.play = Some(play);
        },
        &Scripted,
    );
    insta::assert_snapshot!(shown(&spec.unwrap()));
}

#[test]
fn messages_and_interrupts_are_single_lines() {
    for driver in [&Claude as &dyn Provider, &Scripted] {
        let message = driver.user_message("two\nlines \"quoted\" \u{2028}");
        assert!(!message.contains('\n'));
        assert!(serde_json::from_str::<serde_json::Value>(&message).unwrap().to_string().contains("quoted"));
    }
    assert!(Claude.interrupt().unwrap().contains("\"subtype\":\"interrupt\""));
    assert_eq!(Scripted.interrupt(), None);
}
