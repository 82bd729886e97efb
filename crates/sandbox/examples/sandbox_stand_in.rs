//! A stand-in for the `roboco` binary: it knows `roboco bridge …`, and `hold`, a server that starts one sandbox and waits to be killed.

use std::path::PathBuf;
use std::process::ExitCode;

use roboco_sandbox::{
    Access, ClientIo, Driver, Env, Labels, Limits, Mount, Network, ProcessDriver, SandboxSpec, Settings, Trust, Unconfined,
};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(word) if word == "bridge" => roboco_bridge::main(args.collect()),
        Some(word) if word == "hold" => hold(args.map(PathBuf::from).collect()),
        _ => ExitCode::from(64),
    }
}

/// Arguments: a directory for everything, and `bwrap` or a program that is not there.
#[tokio::main]
async fn hold(args: Vec<PathBuf>) -> ExitCode {
    let [base, bubblewrap] = args.as_slice() else { return ExitCode::from(64) };
    let Ok(roboco) = std::env::current_exe() else { return ExitCode::FAILURE };
    let driver = ProcessDriver::new(Settings {
        roboco,
        tool_dirs: Vec::new(),
        unconfined: Unconfined::Refuse,
        own: Labels::from([("company".into(), base.display().to_string())]),
        bubblewrap: Some(bubblewrap.clone()),
    });
    let spec = SandboxSpec {
        name: "held".into(),
        labels: Labels::new(),
        argv: ["sh", "-c", "setsid sleep 1000 & (setsid sleep 1000 &) ; sleep 1000 & echo ready; wait"].map(String::from).to_vec(),
        env: Env::new(),
        cwd: base.join("tree"),
        mounts: vec![Mount::same(base.join("tree"), Access::ReadWrite)],
        home: base.join("home"),
        door_files: Vec::new(),
        network: Network::None,
        limits: Limits::default(),
        masks: Vec::new(),
        trust: Trust::Own,
        confinement: None,
    };
    let mut sandbox = match driver.start(&spec).await {
        Ok(sandbox) => sandbox,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    while let Some(io) = sandbox.next().await {
        if let ClientIo::Out(line) = io {
            println!("{line}");
        }
    }
    ExitCode::SUCCESS
}
