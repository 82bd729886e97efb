//! What a client inside can and cannot see, change and reach.

use std::collections::BTreeMap;
use std::fs;

use roboco_sandbox::{Driver, Env, Mount, Network, ProcessDriver, SandboxError, SandboxSpec, Settings, Trust, Unconfined};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, UnixListener};

use crate::world::{World, confining, run};

#[tokio::test]
async fn only_what_is_mounted_can_be_read() {
    let world = World::new();
    let driver = world.driver().await;
    let home = std::env::home_dir().unwrap_or_else(|| "/root".into());
    let can = |path: &str| format!("test -r '{path}' && echo 'can {path}' || echo 'cannot {path}'");
    let path = |name: &str| world.path(name).display().to_string();
    let (mine, store) = (path("data/trees/mine/work"), path("data/repos/greeter.git/HEAD"));
    let seen = [mine, store, "/etc/passwd".into(), "/usr/bin/env".into(), "/bin/sh".into()];
    let host = std::env::current_exe().unwrap().display().to_string();
    let mut unseen =
        vec![home.display().to_string(), "/etc/shadow".into(), "/etc/ssl/private".into(), "/var/lib".into(), "/sys".into(), host];
    unseen.extend(["data/secrets.toml", "data/trees/other", "data/trees/other/work", "data/homes/other", "data/homes/mine"].map(path));
    let script: Vec<String> = seen.iter().chain(&unseen).map(|path| can(path)).collect();
    let said = run(&driver, &world.shell(&script.join("\n"))).await;
    let expected: Vec<String> =
        seen.iter().map(|path| format!("can {path}")).chain(unseen.iter().map(|path| format!("cannot {path}"))).collect();
    assert_eq!(said, expected);
    // What is copied from the system is what the host has now, and stays as it is.
    let said = run(&driver, &world.shell("cat /etc/passwd; (echo x >> /etc/passwd) 2>/dev/null || echo no")).await;
    let expected = fs::read_to_string("/etc/passwd").unwrap() + "no";
    assert_eq!(said, expected.lines().collect::<Vec<_>>());
    // The data directory is there as a way to what is mounted, and shows nothing else.
    let said = run(&driver, &world.shell(&format!("ls -A {0} {0}/trees", path("data")))).await;
    assert_eq!(said.iter().filter(|line| !line.contains('/') && !line.is_empty()).collect::<Vec<_>>(), ["repos", "trees", "mine"]);
}

#[tokio::test]
async fn only_the_own_tree_the_home_and_tmp_can_be_written() {
    let world = World::new();
    let driver = world.driver().await;
    let tree = world.path("data/trees/mine");
    let store = world.path("data/repos/greeter.git");
    let places =
        [tree.display().to_string(), "$HOME".into(), "/tmp".into(), "/".into(), "/usr".into(), "/etc".into(), store.display().to_string()];
    let places = [places.as_slice(), &["/run/roboco".into(), "/home".into(), world.path("data").display().to_string()]].concat();
    let script: Vec<String> =
        places.iter().map(|place| format!("(echo x > {place}/new) 2>/dev/null && echo \"yes {place}\" || echo \"no {place}\"")).collect();
    let said = run(&driver, &world.shell(&script.join("\n"))).await;
    let written: Vec<&str> = said.iter().filter_map(|line| line.strip_prefix("yes ")).collect();
    assert_eq!(written, [tree.to_str().unwrap(), "/home/agent", "/tmp"]);
    assert_eq!(fs::read_to_string(world.path("data/homes/mine/new")).unwrap(), "x\n");
    assert!(tree.join("new").exists() && !std::path::Path::new("/tmp/new").exists());
}

#[tokio::test]
async fn masked_files_and_logins_in_tool_directories_look_empty() {
    let world = World::new();
    for file in ["data/trees/mine/.env", "tools/credentials.toml", "tools/bin/tool"] {
        fs::create_dir_all(world.path(file).parent().unwrap()).unwrap();
        fs::write(world.path(file), "#!/bin/sh\necho secret").unwrap();
    }
    fs::create_dir_all(world.path("data/trees/mine/vault")).unwrap();
    fs::write(world.path("data/trees/mine/vault/key"), "secret").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(world.path("tools/bin/tool"), mode).unwrap();
    let driver = confining(Settings { tool_dirs: vec![world.path("tools")], ..world.settings() }).await;
    let mut spec = world.shell(&format!("cat .env {}; ls vault; tool", world.path("tools/credentials.toml").display()));
    spec.masks = vec![world.path("data/trees/mine/.env"), world.path("data/trees/mine/vault"), world.path("data/trees/mine/absent")];
    assert_eq!(run(&driver, &spec).await, ["secret"], "only the tool itself speaks");
    assert_eq!(driver.check().await.hidden, [world.path("tools/credentials.toml")]);
}

/// A shell command that succeeds when a TCP connection can be made.
fn connect(port: u16) -> String {
    format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' 2>/dev/null && echo reached || echo nothing")
}

#[tokio::test]
async fn there_is_no_network_unless_it_is_asked_for() {
    let world = World::new();
    let driver = world.driver().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let script = connect(listener.local_addr().unwrap().port());
    for (network, result) in [(Network::None, "nothing"), (Network::Host { door: None }, "reached")] {
        let mut spec = world.shell(&script);
        spec.network = network.clone();
        assert_eq!(run(&driver, &spec).await, [result], "{network:?}");
    }
    assert_eq!(world.run_job(&driver, &script).await, (0, "nothing\n".into()));
}

/// A door that answers each line with what it heard.
fn open_door(world: &World) -> std::path::PathBuf {
    let path = world.path("door.sock");
    let door = UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = door.accept().await.unwrap();
            tokio::spawn(async move {
                let (read, mut write) = stream.into_split();
                let mut lines = BufReader::new(read).lines();
                while let Some(line) = lines.next_line().await.unwrap() {
                    write.write_all(format!("heard {line}\n").as_bytes()).await.unwrap();
                }
            });
        }
    });
    path
}

#[tokio::test]
async fn the_door_is_the_only_way_out() {
    let world = World::new();
    let door = open_door(&world);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = connect(listener.local_addr().unwrap().port());
    let ask = "h=${DOOR%:*}; p=${DOOR#*:}; exec 3<>/dev/tcp/$h/$p; echo hello >&3; read -r a <&3; echo $a";
    let script = format!("{other}\nbash -c '{ask}'\n[ \"$(cat $HOME/door)\" = \"at $DOOR\" ] && echo found");
    let write_config = || fs::write(world.path("data/homes/mine/door"), "at {{door}}").unwrap();

    let driver = world.driver().await;
    let mut spec = world.shell(&script);
    spec.env = Env::new().with("DOOR", "{{door}}");
    spec.network = Network::Door(door.clone());
    spec.door_files = vec!["door".into()];
    write_config();
    assert_eq!(run(&driver, &spec).await, ["nothing", "heard hello", "found"]);
    write_config();
    spec.network = Network::Host { door: Some(door.clone()) };
    assert_eq!(run(&driver, &spec).await, ["reached", "heard hello", "found"]);

    // Several at once, without confinement: each gets a port of its own.
    let open = world.driver_without_bubblewrap(Unconfined::Refuse);
    spec.network = Network::Door(door);
    spec.trust = Trust::Own;
    let specs = ["one", "two"].map(|name| {
        let home = world.path(name);
        fs::create_dir(&home).unwrap();
        fs::write(home.join("door"), "at {{door}}").unwrap();
        SandboxSpec { name: format!("{}-{name}", spec.name), home, ..spec.clone() }
    });
    let (one, two) = tokio::join!(run(&open, &specs[0]), run(&open, &specs[1]));
    assert_eq!(one, ["reached", "heard hello", "found"]);
    assert_eq!(one, two);
}

#[tokio::test]
async fn the_environment_is_what_was_ordered_and_no_secret_is_in_any_command_line() {
    let world = World::new();
    let secret = format!("s3cret-{}", std::process::id());
    for driver in [world.driver().await, world.driver_without_bubblewrap(Unconfined::Allow)] {
        let mut spec = world.shell("env; echo ready; cat");
        spec.env = Env::new().with("TOKEN", &secret).with("EMPTY", "").with("WEIRD", "a=b c\"d");
        let mut sandbox = driver.start(&spec).await.unwrap();
        let mut env = BTreeMap::new();
        while let roboco_sandbox::ClientIo::Out(line) = crate::world::next(&mut sandbox).await {
            match line.split_once('=') {
                Some((name, value)) => env.insert(name.to_owned(), value.to_owned()),
                None => break,
            };
        }
        assert_eq!(
            env.keys().collect::<Vec<_>>(),
            ["EMPTY", "HOME", "PATH", "PWD", "ROBOCO_SANDBOX", "ROBOCO_SANDBOX_LABELS", "TOKEN", "WEIRD"]
        );
        assert_eq!((env["TOKEN"].as_str(), env["EMPTY"].as_str(), env["WEIRD"].as_str()), (secret.as_str(), "", "a=b c\"d"));
        assert_eq!(env["PWD"], spec.cwd.display().to_string());

        let lines: Vec<String> = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
            .map(|line| String::from_utf8_lossy(&line).into_owned())
            .collect();
        assert!(lines.iter().any(|line| line.contains("env; echo ready; cat")), "the client is not seen at all");
        assert!(!lines.iter().any(|line| line.contains(&secret)), "the secret is in a command line");
        assert!(!format!("{spec:?}{sandbox:?}{driver:?}").contains(&secret));
        drop(sandbox);
        world.until_nothing_runs().await;
    }
}

#[tokio::test]
async fn root_inside_has_no_rights_of_root() {
    let world = World::new();
    let driver = world.driver().await;
    assert_eq!(
        run(&driver, &world.shell("grep -E 'Cap(Eff|Prm|Bnd)' /proc/self/status | tr -d '\\t'")).await,
        ["CapPrm:0000000000000000", "CapEff:0000000000000000", "CapBnd:0000000000000000"]
    );
}

#[tokio::test]
async fn other_processes_of_the_host_cannot_be_seen() {
    let world = World::new();
    let driver = world.driver().await;
    let said = run(&driver, &world.shell("ls /proc | grep -c '^[0-9]'; hostname")).await;
    assert!(said[0].parse::<u32>().unwrap() < 10, "{said:?}");
    assert_eq!(said[1], "sandbox");
}

#[tokio::test]
async fn without_bubblewrap_only_our_own_code_runs_unless_the_operator_allows_more() {
    let world = World::new();
    let refusing = world.driver_without_bubblewrap(Unconfined::Refuse);
    let foreign = world.shell("echo hi");
    for error in [
        refusing.start(&foreign).await.unwrap_err(),
        refusing.run_job(&world.job("true"), crate::world::PATIENCE, 100).await.map(|_| ()).unwrap_err(),
    ] {
        assert!(matches!(error, SandboxError::Refused { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("apt install bubblewrap") && text.contains("sandbox.unconfined = \"allow\""), "{text}");
    }
    let mut own = foreign.clone();
    own.trust = Trust::Own;
    assert_eq!(run(&refusing, &own).await, ["hi"]);
    let allowing = world.driver_without_bubblewrap(Unconfined::Allow);
    assert_eq!(run(&allowing, &foreign).await, ["hi"]);
    assert_eq!(world.run_job(&allowing, "echo out; echo err >&2; exit 3").await, (3, "out\nerr\n".into()));
    assert!(!refusing.check().await.confinement.is_confined());
}

#[tokio::test]
async fn an_order_is_carried_out_with_the_confinement_it_was_written_for() {
    let world = World::new();
    let bubblewrap = world.path("bwrap");
    let driver = ProcessDriver::new(Settings { bubblewrap: Some(bubblewrap.clone()), ..world.settings() });
    let found = driver.confinement().await;
    assert!(!found.is_confined(), "{found:?}");
    let order = SandboxSpec { trust: Trust::Own, confinement: Some(found.clone()), ..world.shell("echo $HOME") };

    // Somebody installs bubblewrap between the writing of an order and its start.
    std::os::unix::fs::symlink("/usr/bin/bwrap", &bubblewrap).unwrap();
    assert_eq!(run(&driver, &order).await, [world.path("data/homes/mine").display().to_string()], "its words hold paths of the host");
    let foreign = SandboxSpec { trust: Trust::Foreign, ..order.clone() };
    assert!(matches!(driver.start(&foreign).await.unwrap_err(), SandboxError::Refused { .. }));

    let found = driver.confinement().await;
    assert!(found.is_confined(), "the next order is written for what is there now: {found:?}");
    assert_eq!(run(&driver, &SandboxSpec { confinement: Some(found), ..order }).await, ["/home/agent"]);
}

#[tokio::test]
async fn an_order_that_cannot_be_carried_out_says_why() {
    let world = World::new();
    let driver = world.driver().await;
    let mut missing = world.shell("true");
    missing.mounts.push(Mount::same("/no/such/place", roboco_sandbox::Access::ReadOnly));
    let mut no_door = world.shell("true");
    no_door.network = Network::Door("/no/such/door".into());
    let mut reserved = world.shell("true");
    reserved.env = Env::new().with("HOME", "/root");
    let mut name = world.shell("true");
    name.name = "a b".into();
    let mut cwd = world.shell("true");
    cwd.cwd = "/no/such/directory".into();
    for (spec, says) in [
        (missing, "/no/such/place does not exist"),
        (no_door, "no door at /no/such/door"),
        (reserved, "HOME is set by the driver"),
        (name, "a name has"),
        (cwd, "/no/such/directory"),
        (world.spec(&["/no/such/program"]), "the program must exist inside the sandbox"),
    ] {
        let error = driver.start(&spec).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test]
async fn files_opened_for_the_making_of_a_sandbox_are_closed_inside() {
    let world = World::new();
    fs::write(world.path("data/trees/mine/.env"), "secret").unwrap();
    let driver = world.driver().await;
    let mut spec = world.shell("ls -l /proc/[0-9]*/fd");
    let before = run(&driver, &spec).await;
    assert!(before.iter().any(|line| line.contains(" 0 -> ")) && !before.iter().any(|line| line.contains(" -> /etc/")), "{before:#?}");
    spec.masks = vec![world.path("data/trees/mine/.env")];
    let count = |said: &[String]| said.iter().filter(|line| line.contains("/dev/null")).count();
    let masked = run(&driver, &spec).await;
    assert_eq!(count(&masked), count(&before), "{masked:#?}");
}
