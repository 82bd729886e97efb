//! Gate commands.

use std::fs;
use std::time::{Duration, Instant};

use roboco_sandbox::{Driver, JobEnd, Limits, Memory, MemoryScope};

use crate::world::World;

#[tokio::test]
async fn code_and_output_come_back() {
    let world = World::new();
    let driver = world.driver().await;
    for (script, code, output) in [
        ("true", 0, ""),
        ("echo out; echo err >&2; echo out", 0, "out\nerr\nout\n"),
        ("echo before; false; echo after", 1, "before\n"),
        ("exit 42", 42, ""),
        ("kill -KILL $$", 137, ""),
        ("cat work; pwd > built", 0, "content"),
        ("touch $HOME/x /tmp/x && echo fine", 0, "fine\n"),
        ("env | cut -d= -f1 | sort | tr '\\n' ' '", 0, "HOME PATH PWD ROBOCO_SANDBOX ROBOCO_SANDBOX_LABELS "),
    ] {
        assert_eq!(world.run_job(&driver, script).await, (code, output.into()), "{script}");
    }
    assert_eq!(fs::read_to_string(world.path("data/trees/mine/built")).unwrap().trim(), world.path("data/trees/mine").to_str().unwrap());
    let (code, output) = world.run_job(&driver, "$UNSET").await;
    assert!(code != 0 && output.contains("UNSET"), "{output}");
}

#[tokio::test]
async fn a_flood_keeps_its_end_only() {
    let world = World::new();
    let driver = world.driver().await;
    let job = world.job("head -c 50000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1");
    let result = driver.run_job(&job, Duration::from_secs(60), 1000).await.unwrap();
    assert_eq!(result.end, JobEnd::Code(1));
    assert_eq!(result.output.len(), 1000);
    assert!(result.output.ends_with("xxx\nthe end\n"));
    assert_eq!(result.dropped, 50_000_009 - 1000);
}

#[tokio::test]
async fn the_deadline_ends_everything() {
    let world = World::new();
    let driver = world.driver().await;
    let started = Instant::now();
    let job = world.job("echo begun; setsid sleep 1000 & sleep 1000");
    let result = driver.run_job(&job, Duration::from_millis(700), 1000).await.unwrap();
    assert_eq!((result.end, result.output.as_str()), (JobEnd::TimedOut, "begun\n"));
    assert!(started.elapsed() < Duration::from_secs(10));
    world.until_nothing_runs().await;
}

#[tokio::test]
async fn a_job_nobody_waits_for_ends() {
    let world = World::new();
    let driver = world.driver().await;
    let job = world.job("touch begun; sleep 1000");
    let begun = world.path("data/trees/mine/begun");
    tokio::select! {
        result = driver.run_job(&job, Duration::from_secs(100), 1000) => panic!("{result:?}"),
        () = crate::world::until("the job begins", || begun.exists()) => {}
    }
    world.until_nothing_runs().await;
}

#[tokio::test]
async fn background_processes_do_not_outlive_a_job() {
    let world = World::new();
    let driver = world.driver().await;
    assert_eq!(world.run_job(&driver, "setsid sleep 1000 >/dev/null 2>&1 & echo done").await, (0, "done\n".into()));
    world.until_nothing_runs().await;
}

#[tokio::test]
async fn memory_is_limited() {
    let world = World::new();
    let driver = world.driver().await;
    // `tail` keeps a line without an end in memory.
    let script = "head -c 400000000 /dev/zero | tail -n 1 | wc -c";
    let mut job = world.job(script);
    let result = driver.run_job(&job, Duration::from_secs(60), 1000).await.unwrap();
    assert_eq!(result.output, "400000000\n");
    job.limits = Limits { memory_bytes: Some(100_000_000), pids: None };
    let result = driver.run_job(&job, Duration::from_secs(60), 1000).await.unwrap();
    assert!(!result.output.ends_with("400000000\n"), "{}", result.output);
    // Where the kernel counts for the whole job it also says that memory was the reason.
    let counted = driver.memory_scope() == MemoryScope::Sandbox;
    assert_eq!(result.memory, if counted { Memory::Exhausted } else { Memory::Unknown });
}

#[tokio::test]
async fn the_number_of_processes_is_limited_as_the_report_says() {
    let world = World::new();
    let driver = world.driver().await;
    let mut job = world.job("for i in $(seq 1 60); do sleep 1 & done; echo all");
    job.limits = Limits { memory_bytes: None, pids: Some(30) };
    let result = driver.run_job(&job, Duration::from_secs(60), 1000).await.unwrap();
    let unlimited = driver.check().await.limits.contains("the number of processes is not limited");
    assert_eq!(result.output.contains("all"), unlimited, "{result:?}");
}
