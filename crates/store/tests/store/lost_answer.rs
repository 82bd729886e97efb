//! Commits whose answer gets lost between the server and us. A proxy stands in between and cuts the connection at the worst moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use roboco_store::{OpenOptions, SqlStore, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::place::Place;
use crate::sample::{change, created, cut_branch, heard, is_committed, next, picture};

/// Everything goes through.
const PASS: u8 = 0;
/// The next COMMIT reaches the server, but its answer is lost.
const LOSE_THE_ANSWER: u8 = 1;
/// The next COMMIT is lost on its way.
const LOSE_THE_COMMIT: u8 = 2;

struct Proxy {
    mishap: Arc<AtomicU8>,
    url: String,
}

impl Proxy {
    async fn before(place: &Place) -> Self {
        let url = place.url();
        let server = url.split('@').nth(1).and_then(|rest| rest.split('/').next()).expect("user@host:port/database").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = url.replace(&server, &listener.local_addr().unwrap().to_string());
        let mishap = Arc::new(AtomicU8::new(PASS));
        let armed = Arc::clone(&mishap);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.unwrap();
                tokio::spawn(carry(client, server, Arc::clone(&armed)));
            }
        });
        Self { mishap, url }
    }

    async fn open(&self) -> SqlStore {
        SqlStore::open(OpenOptions::new(&self.url)).await.unwrap()
    }

    fn next(&self, mishap: u8) {
        self.mishap.store(mishap, Ordering::SeqCst);
    }
}

/// Carries bytes until one side is done, or the mishap has happened; then both connections are cut.
async fn carry(mut client: TcpStream, mut server: TcpStream, mishap: Arc<AtomicU8>) {
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(n @ 1..) = read else { return };
                let commits = asked[..n].windows(6).any(|bytes| bytes == b"COMMIT");
                let happens = if commits { mishap.swap(PASS, Ordering::SeqCst) } else { PASS };
                if happens == LOSE_THE_COMMIT || server.write_all(&asked[..n]).await.is_err() {
                    return;
                }
                if happens == LOSE_THE_ANSWER {
                    assert!(server.read(&mut answered).await.is_ok_and(|n| n > 0), "the server did not answer");
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(n @ 1..) = read else { return };
                if client.write_all(&answered[..n]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_looked_for_and_found() {
    let place = Place::postgres().await;
    let proxy = Proxy::before(&place).await;
    let store = proxy.open().await;
    let task = created(&store).await;
    let mut listener = store.subscribe();

    let wanted = next(&task, |t| t.title = "written".into());
    let mut request = change(&store, Arc::clone(&wanted)).await;
    let effect = cut_branch(&task);
    request.effects = vec![effect.clone()];
    proxy.next(LOSE_THE_ANSWER);
    assert!(is_committed(store.commit(request).await.unwrap()), "its caller has to hand the effect over");
    assert_eq!(store.task(task.id).await.unwrap(), Some(Arc::clone(&wanted)));
    assert_eq!(heard(&mut listener).await.seq, 2);
    assert_eq!(store.open_intents().await.unwrap().iter().map(|open| open.intent).collect::<Vec<_>>(), [effect.intent]);

    // Without an event there is no number that would tell.
    let quiet = next(&wanted, |t| t.title = "written again".into());
    let mut request = change(&store, Arc::clone(&quiet)).await;
    request.events.clear();
    proxy.next(LOSE_THE_ANSWER);
    assert!(is_committed(store.commit(request).await.unwrap()));
    assert_eq!(store.task(task.id).await.unwrap(), Some(Arc::clone(&quiet)));
    let loud = next(&quiet, |t| t.title = "and goes on".into());
    assert!(is_committed(store.commit(change(&store, loud).await).await.unwrap()));
    assert_eq!(heard(&mut listener).await.seq, 3, "something was published twice");
    assert_eq!(picture(&store).await, picture(&place.open().await).await);
    place.remove().await;
}

#[tokio::test]
async fn a_commit_that_never_arrived_is_a_fault_that_passes() {
    let place = Place::postgres().await;
    let proxy = Proxy::before(&place).await;
    let store = proxy.open().await;
    let task = created(&store).await;
    let wanted = next(&task, |t| t.title = "written".into());
    let request = change(&store, Arc::clone(&wanted)).await;
    proxy.next(LOSE_THE_COMMIT);
    let fault = store.commit(request.clone()).await.unwrap_err();
    assert!(fault.retryable, "{fault}");
    assert_eq!(store.task(task.id).await.unwrap(), Some(task));
    assert!(is_committed(store.commit(request).await.unwrap()), "the same request is still right");
    assert_eq!(picture(&store).await, picture(&place.open().await).await);
    place.remove().await;
}
