//! Two ways in: TCP for people and their programs, a unix socket for agents. The operator's API is never on the agents' socket.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use roboco_company::Company;
use roboco_gateway::Gateway;
use roboco_server::{Counters, Hosts, ServerState};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::failure::{Exit, Failure};

/// How long requests under way get to finish when the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// Sockets that are bound and not served yet.
pub(super) struct Bound {
    socket: PathBuf,
    tcp: TcpListener,
    address: SocketAddr,
    door: UnixListener,
}

/// Served sockets.
pub(super) struct Listeners {
    /// The agents' socket.
    socket: PathBuf,
    stop: watch::Sender<bool>,
    /// Ends the live streams, which would otherwise never be finished.
    shutdown: CancellationToken,
    tasks: Vec<JoinHandle<std::io::Result<()>>>,
}

impl Listeners {
    /// Binds both sockets.
    ///
    /// # Errors
    /// The port or the socket cannot be had.
    pub(super) async fn open(config: &Config, door: &Path) -> Result<Bound, Failure> {
        let (host, port) = (config.server.host.as_str(), config.server.port);
        let tcp = TcpListener::bind((host, port)).await.map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => Failure::new(
                Exit::NotNow,
                format!(
                    "port {port} of {host} is in use by another program: stop it, or choose another with ROBOCO_PORT (0 takes a free one)"
                ),
            ),
            _ => Failure::new(
                Exit::Configuration,
                format!("cannot listen on {host}:{port}: {error}; correct `server.host` and `server.port`"),
            ),
        })?;
        let address = tcp.local_addr()?;
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "other machines can reach this server without encryption; put a proxy with TLS in front");
        }
        // The lock of the data directory is held, so a socket that is there is of a server that died.
        match std::fs::remove_file(door) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(Failure::file("removing", door, &error)),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(door).map_err(|error| Failure::file("listening on", door, &error))?;
        let closed = std::fs::set_permissions(door, std::fs::Permissions::from_mode(0o600));
        closed.map_err(|error| Failure::file("closing to other users:", door, &error))?;
        Ok(Bound { socket: door.to_owned(), tcp, address, door: listener })
    }

    /// Waits until a listener ends that should not; says which.
    pub(super) async fn broken(&mut self) -> String {
        let ended = futures_first(&mut self.tasks).await;
        match ended {
            Ok(Ok(())) => "a listener ended".to_owned(),
            Ok(Err(error)) => format!("a listener failed: {error}"),
            Err(error) => format!("a listener died: {error}"),
        }
    }

    /// Takes no new requests and lets those under way finish, for a few seconds.
    pub(super) async fn stop(self) {
        self.shutdown.cancel();
        self.stop.send_replace(true);
        for mut task in self.tasks {
            if tokio::time::timeout(DRAIN, &mut task).await.is_err() {
                task.abort();
            }
        }
        // The folder is named after the data directory, so nobody else's socket can be in it.
        let removed = std::fs::remove_file(&self.socket).and_then(|()| self.socket.parent().map_or(Ok(()), std::fs::remove_dir));
        if let Err(error) = removed {
            tracing::debug!(%error, socket = %self.socket.display(), "the agents' socket stays behind");
        }
    }
}

impl Bound {
    /// Where people reach the company.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts to answer.
    pub(super) fn serve(self, company: Arc<Company>, gateway: &Gateway, counters: Counters, egress: Router, config: &Config) -> Listeners {
        let (stop, stopped) = watch::channel(false);
        let shutdown = CancellationToken::new();
        let agents = gateway.router().merge(egress);
        let state = ServerState { company, hosts: Arc::new(hosts(config)), counters, shutdown: shutdown.clone() };
        let people = roboco_server::router(state, agents.clone());
        let tcp = axum::serve(self.tcp, people).with_graceful_shutdown(told(stopped.clone()));
        let door = axum::serve(self.door, agents).with_graceful_shutdown(told(stopped));
        let tasks = vec![tokio::spawn(async move { tcp.await }), tokio::spawn(async move { door.await })];
        Listeners { socket: self.socket, stop, shutdown, tasks }
    }
}

async fn told(mut stopped: watch::Receiver<bool>) {
    if stopped.wait_for(|stop| *stop).await.is_err() {
        tracing::debug!("whoever would say stop is gone");
    }
}

/// The first of several tasks to end.
async fn futures_first<T>(tasks: &mut [JoinHandle<T>]) -> Result<T, tokio::task::JoinError> {
    std::future::poll_fn(|context| {
        for task in tasks.iter_mut() {
            if let std::task::Poll::Ready(ended) = std::pin::Pin::new(task).poll(context) {
                return std::task::Poll::Ready(ended);
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// The names this server answers to beside those of this machine: the configured address and that of a proxy.
fn hosts(config: &Config) -> Hosts {
    let public = config.server.public_base_url.split_once("://").map_or("", |(_, rest)| rest);
    let public = public.split('/').next().unwrap_or_default();
    let public = public.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit())).map_or(public, |(name, _)| name);
    Hosts::new([config.server.host.clone(), public.to_owned()].into_iter().filter(|name| !name.is_empty()))
}
