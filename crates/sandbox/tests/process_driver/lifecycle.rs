//! Talking to a client, ending it, finding it again, and what dies with what.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use roboco_sandbox::{ClientInput, ClientIo, Driver, Exit, Labels, Removed, SandboxError, SandboxSpec, Trust, Unconfined};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::world::{World, listen, next, run, stand_in, until};

#[tokio::test]
async fn a_client_is_talked_to_and_its_end_reported() {
    let world = World::new();
    let driver = world.driver().await;
    let mut sandbox = driver.start(&world.shell("read -r a; echo \"got $a\"; cat; echo bad >&2; exit 7")).await.unwrap();
    sandbox.send(ClientInput::Line("one \"1\"".into())).await.unwrap();
    assert_eq!(next(&mut sandbox).await, ClientIo::Out("got one \"1\"".into()));
    sandbox.send(ClientInput::Line("two".into())).await.unwrap();
    sandbox.send(ClientInput::Eof).await.unwrap();
    let (said, end) = listen(&mut sandbox).await;
    assert_eq!((said, end), (vec!["two".to_owned(), "! bad".into()], ClientIo::Exit(Exit::Code(7))));
    assert_eq!(sandbox.wait().await.exit, Exit::Code(7));
    assert_eq!(sandbox.next().await, None);
    assert!(sandbox.send(ClientInput::Line("late".into())).await.is_err());
    world.until_nothing_runs().await;
}

#[tokio::test]
async fn a_client_is_stopped_politely_or_killed() {
    let world = World::new();
    let script = "exec 2>/dev/null; trap 'echo bye; exit 0' TERM; setsid sleep 1000 & echo ready; while :; do sleep 0.05; done";
    let spec = SandboxSpec { trust: Trust::Own, ..world.shell(script) };
    for driver in [world.driver().await, world.driver_without_bubblewrap(Unconfined::Refuse)] {
        let mut sandbox = driver.start(&spec).await.unwrap();
        assert_eq!(next(&mut sandbox).await, ClientIo::Out("ready".into()));
        sandbox.send(ClientInput::Stop { grace: Duration::from_secs(20) }).await.unwrap();
        assert_eq!(listen(&mut sandbox).await, (vec!["bye".to_owned()], ClientIo::Exit(Exit::Code(0))));
        sandbox.wait().await;
        world.until_nothing_runs().await;

        let mut sandbox = driver.start(&spec).await.unwrap();
        assert_eq!(next(&mut sandbox).await, ClientIo::Out("ready".into()));
        sandbox.kill();
        assert!(matches!(listen(&mut sandbox).await.1, ClientIo::Lost(_)));
        assert_eq!(sandbox.wait().await.exit, Exit::Signal(9));
        world.until_nothing_runs().await;
    }
}

#[tokio::test]
async fn dropping_the_handle_ends_everything() {
    let world = World::new();
    let own = SandboxSpec { trust: Trust::Own, ..world.shell("setsid sleep 1000 & (setsid sleep 1001 &) ; echo ready; wait") };
    for driver in [world.driver().await, world.driver_without_bubblewrap(Unconfined::Refuse)] {
        let mut sandbox = driver.start(&own).await.unwrap();
        assert_eq!(next(&mut sandbox).await, ClientIo::Out("ready".into()));
        assert!(world.processes().len() >= 3);
        drop(sandbox);
        world.until_nothing_runs().await;
    }
}

#[tokio::test]
async fn a_client_that_floods_is_held_back() {
    let world = World::new();
    let driver = world.driver().await;
    let script = "yes | head -c 300000000; touch finished; sleep 1000";
    let mut sandbox = driver.start(&world.shell(script)).await.unwrap();
    for _ in 0..1000 {
        assert_eq!(next(&mut sandbox).await, ClientIo::Out("y".into()));
    }
    // Nobody asks any more: everything comes to rest within bounds.
    let memory = || -> u64 { world.processes().iter().map(|pid| resident(*pid)).sum() };
    let mut seen = (0, 1);
    until("the flood comes to rest", || {
        std::thread::sleep(Duration::from_millis(300));
        seen = (seen.1, memory());
        seen.0 == seen.1
    })
    .await;
    assert!(seen.1 < 100_000_000, "{} bytes are in use", seen.1);
    assert!(!world.path("data/trees/mine/finished").exists());
    sandbox.kill();
    sandbox.wait().await;
}

fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[tokio::test]
async fn sandboxes_are_found_and_removed_by_name_and_label() {
    let world = World::new();
    let foreign_world = World::new();
    let spec = SandboxSpec { trust: Trust::Own, ..world.shell("(setsid sleep 1000 &); echo ready; sleep 1000") };
    let other = Labels::from([("agent".into(), "somebody-else".into())]);
    for driver in [world.driver().await, world.driver_without_bubblewrap(Unconfined::Refuse)] {
        assert_eq!(driver.list().await.unwrap(), []);
        let mut sandbox = driver.start(&spec).await.unwrap();
        assert_eq!(next(&mut sandbox).await, ClientIo::Out("ready".into()));

        let seen = driver.list().await.unwrap();
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].name.as_str(), Some(seen[0].pid)), (spec.name.as_str(), sandbox.pid()));
        assert_eq!(seen[0].labels["agent"], "be-dev-1");
        assert_eq!(seen[0].labels["company"], world.path("").display().to_string().trim_end_matches('/'));

        // Another server's driver neither sees nor ends it, even if it knows the name.
        let stranger = foreign_world.driver().await;
        assert_eq!(stranger.list().await.unwrap(), []);
        assert_eq!(stranger.remove(&spec.name, &Labels::new()).await.unwrap(), Removed::NotOurs);
        assert_eq!(driver.remove(&spec.name, &other).await.unwrap(), Removed::NotOurs);
        assert_eq!(driver.remove("roboco-nobody", &spec.labels).await.unwrap(), Removed::Gone);
        assert_eq!(driver.list().await.unwrap().len(), 1);
        let error = driver.start(&spec).await.unwrap_err();
        assert!(matches!(error, SandboxError::Taken { .. }), "{error}");

        assert_eq!(driver.remove(&spec.name, &spec.labels).await.unwrap(), Removed::Gone);
        assert!(matches!(listen(&mut sandbox).await.1, ClientIo::Lost(_)));
        assert_eq!(driver.list().await.unwrap(), []);
        world.until_nothing_runs().await;
    }
}

#[tokio::test]
async fn a_client_cannot_pose_as_another_sandbox() {
    let world = World::new();
    let driver = world.driver().await;
    let script = "ROBOCO_SANDBOX=victim ROBOCO_SANDBOX_LABELS='{}' sh -c 'echo ready; sleep 1000'";
    let mut sandbox = driver.start(&world.shell(script)).await.unwrap();
    assert_eq!(next(&mut sandbox).await, ClientIo::Out("ready".into()));
    assert_eq!(driver.list().await.unwrap().len(), 1);
    assert_eq!(driver.remove("victim", &Labels::new()).await.unwrap(), Removed::Gone);
}

#[tokio::test]
async fn when_the_server_is_killed_nothing_of_its_sandboxes_survives() {
    for bubblewrap in ["/usr/bin/bwrap", "/no/such/bwrap"] {
        let world = World::new();
        for directory in ["tree", "home"] {
            fs::create_dir(world.path(directory)).unwrap();
        }
        let mut server = hold(&world, bubblewrap);
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(crate::world::PATIENCE, lines.next_line()).await.unwrap().unwrap();
        assert_eq!(line.as_deref(), Some("ready"), "{bubblewrap}");
        assert!(world.processes().len() >= 4, "{bubblewrap}");
        // SIGKILL: nobody gets to clean up.
        server.kill().await.unwrap();
        world.until_nothing_runs().await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the test stands above the server and kills it")]
fn hold(world: &World, bubblewrap: &str) -> tokio::process::Child {
    let base: PathBuf = world.path("");
    let base = base.display().to_string().trim_end_matches('/').to_owned();
    tokio::process::Command::new(stand_in())
        .args(["hold", &base, bubblewrap])
        .env_clear()
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_program_outside_the_system_is_brought_along() {
    let world = World::new();
    let driver = world.driver().await;
    let program = world.path("opt/client");
    fs::create_dir(world.path("opt")).unwrap();
    fs::copy("/bin/echo", &program).unwrap();
    assert_eq!(run(&driver, &world.spec(&[program.to_str().unwrap(), "hello"])).await, ["hello"]);
}

#[tokio::test]
async fn the_report_names_what_holds_clients_and_what_they_see() {
    let world = World::new();
    let report = world.driver().await.check().await;
    assert!(report.confinement.is_confined(), "{report:?}");
    assert!(report.visible.contains(&"/usr".into()) && report.limits.contains("memory"), "{report:?}");
}

#[tokio::test]
async fn a_name_is_free_again_as_soon_as_its_sandbox_has_ended() {
    let world = World::new();
    let driver = world.driver().await;
    for round in ["first", "second", "third"] {
        assert_eq!(run(&driver, &world.shell(&format!("echo {round}"))).await, [round]);
    }
    // One that is killed and not waited for is waited for by the next.
    let sandbox = driver.start(&world.shell("sleep 1000")).await.unwrap();
    drop(sandbox);
    assert_eq!(run(&driver, &world.shell("echo again")).await, ["again"]);
}
