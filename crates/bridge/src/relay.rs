//! Loopback TCP in front of the door. Bytes pass through unread; what they mean is between the client and the control plane.

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;

/// Connections open at once; a client uses a handful. Each holds two 8 KiB buffers.
const CONNECTIONS: usize = 256;
/// Wait after a failed accept: the usual reason is a lack of file descriptors, which passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Carries every connection on `listener` to the unix socket `door`. Never returns; lives in a `LocalSet`.
pub(crate) async fn relay(listener: TcpListener, door: PathBuf) {
    let door = Rc::new(door);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let door = Rc::clone(&door);
                tokio::task::spawn_local(async move {
                    if let Err(error) = carry(stream, &door).await {
                        complain(&error);
                    }
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// One connection, until both directions are closed. The end of one direction is passed on while the other goes on.
async fn carry(mut inside: TcpStream, door: &std::path::Path) -> io::Result<()> {
    // Small requests and answers must not wait for each other.
    inside.set_nodelay(true)?;
    let mut outside = UnixStream::connect(door).await?;
    copy_bidirectional(&mut inside, &mut outside).await?;
    Ok(())
}

/// A client that hangs up early is daily business; a door that does not open is worth a line.
fn complain(error: &io::Error) {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected | io::ErrorKind::ConnectionAborted => {}
        _ => eprintln!("roboco bridge: the door to the control plane does not open: {error}"),
    }
}
