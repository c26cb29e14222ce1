//! The thread that serves.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use millrace_core::Router;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::events::Source;
use super::guard::Peer;
use super::limits::{ASKING_THREADS, CONNECTIONS, FAREWELL, HEAD, HEADERS, IDLE, Patient};
use super::routes::Desk;
use super::site::Site;
use crate::control::{Access, Address, SocketFile, bind_tcp, bind_unix, must_have_token};
use crate::model::Model;
use crate::sandbox::gate;

/// Reads an address: `[ADDRESS:]PORT`, or `unix:PATH`.
///
/// # Errors
/// It is none; the message says what was expected.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("expected unix:PATH".to_owned()),
        Some(path) => Ok(Address::Unix(PathBuf::from(path))),
        None => Address::local(text).map_err(|error| format!("{error} or unix:PATH")),
    }
}

/// An HTTP server. When it is dropped, it closes.
pub(crate) struct Server {
    url: String,
    /// The file of a Unix socket, removed at the end.
    _file: Option<SocketFile>,
    stop: Option<watch::Sender<()>>,
    thread: Option<gate::Thread>,
}

enum Listener {
    Tcp(StdTcpListener),
    Unix(StdUnixListener),
}

impl Server {
    /// Opens the server. Its thread starts when the sandbox holds.
    ///
    /// # Errors
    /// The address is taken, or the system refuses; or other machines can reach the address, and there is no token.
    pub(crate) fn start(
        address: &Address,
        router: Arc<Router>,
        model: Model,
        token: Option<Arc<str>>,
    ) -> io::Result<Self> {
        let access = Access { read_only: false, token };
        must_have_token(address, &access)?;
        let (listener, url, file) = match address {
            Address::Tcp { host, port, or_next } => {
                let listener = bind_tcp(*host, *port, *or_next)?;
                listener.set_nonblocking(true)?;
                let url = format!("http://{}/", listener.local_addr()?);
                (Listener::Tcp(listener), url, None)
            }
            Address::Unix(path) => {
                let listener = bind_unix(path)?;
                listener.set_nonblocking(true)?;
                let url = format!("unix:{}", path.display());
                (Listener::Unix(listener), url, SocketFile::of(path))
            }
        };
        let (stop, stopped) = watch::channel(());
        let site = Arc::new(Site::new(router, model));
        let thread = gate::spawn("http", move || {
            if let Err(error) = serve(listener, site, access, stopped) {
                crate::messages::complain(format_args!("http: {error}"));
            }
        })?;
        Ok(Self { url, _file: file, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}

fn serve(
    listener: Listener,
    site: Arc<Site>,
    access: Access,
    stopped: watch::Receiver<()>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // One more for the events.
        .max_blocking_threads(ASKING_THREADS + 1)
        .thread_name("http-asks")
        .build()?;
    runtime.block_on(async {
        let taker = site.clone();
        let (events, flow) = Source::new(move || take(taker.clone()));
        let flow = tokio::spawn(flow);
        let desk = Arc::new(Desk::new(site, access, events));
        let hall = Hall { desk, seats: Arc::new(Semaphore::new(CONNECTIONS)), stopped };
        match listener {
            Listener::Tcp(listener) => hall.receive(TcpListener::from_std(listener)?).await,
            Listener::Unix(listener) => hall.receive(UnixListener::from_std(listener)?).await,
        }
        flow.abort();
        // Those who follow events end with the flow; others have a moment for their answers.
        let _ = timeout(FAREWELL, hall.seats.acquire_many(CONNECTIONS as u32)).await;
        io::Result::Ok(())
    })?;
    // A handler that still waits ends by itself.
    runtime.shutdown_background();
    Ok(())
}

/// A snapshot as text.
async fn take(site: Arc<Site>) -> Option<Vec<u8>> {
    let text = move || serde_json::to_vec(&site.snapshot());
    tokio::task::spawn_blocking(text).await.ok()?.ok()
}

/// Where clients come in.
struct Hall {
    desk: Arc<Desk>,
    seats: Arc<Semaphore>,
    stopped: watch::Receiver<()>,
}

/// A listener, and the connections that come.
trait Door {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>>;

    /// Writes what there is room for, and closes the connection.
    fn turn_away(stream: Self::Stream, answer: &[u8]);
}

impl Door for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn next(&self) -> io::Result<(Self::Stream, Peer)> {
        let (stream, address) = self.accept().await?;
        stream.set_nodelay(true)?;
        Ok((stream, Peer::of(address.ip())))
    }

    fn turn_away(stream: Self::Stream, answer: &[u8]) {
        // The client may have left already.
        let _ = stream.try_write(answer);
    }
}

impl Door for UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn next(&self) -> io::Result<(Self::Stream, Peer)> {
        Ok((self.accept().await?.0, Peer::Owner))
    }

    fn turn_away(stream: Self::Stream, answer: &[u8]) {
        let _ = stream.try_write(answer);
    }
}

const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nretry-after: 10\r\nconnection: close\r\n\r\n";

impl Hall {
    /// Receives clients until the server stops.
    async fn receive<D: Door>(&self, door: D) {
        let mut stopped = self.stopped.clone();
        while let Some(next) = unless_stopped(&mut stopped, door.next()).await {
            match (next, self.seats.clone().try_acquire_owned()) {
                (Ok((stream, peer)), Ok(seat)) => {
                    tokio::spawn(converse(self.desk.clone(), stream, peer, stopped.clone(), seat));
                }
                (Ok((stream, _)), Err(_)) => D::turn_away(stream, FULL),
                // For example, no descriptor is free: others may be closed before the next attempt.
                (Err(_), _) => sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

/// Serves one connection to its end.
async fn converse<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    desk: Arc<Desk>,
    stream: S,
    peer: Peer,
    mut stopped: watch::Receiver<()>,
    _seat: OwnedSemaphorePermit,
) {
    let service = service_fn(|request| {
        let desk = desk.clone();
        async move { Ok::<_, Infallible>(desk.answer(peer, request).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE)
            .max_buf_size(HEAD)
            .max_headers(HEADERS)
            .serve_connection(TokioIo::new(Patient::new(stream)), service)
    );
    // What goes wrong with a connection is its client's business.
    if unless_stopped(&mut stopped, connection.as_mut()).await.is_none() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(FAREWELL, connection).await;
    }
}

/// The outcome of a future, unless the server stops before.
async fn unless_stopped<F: Future>(
    stopped: &mut watch::Receiver<()>,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut end = pin!(stopped.changed());
    poll_fn(|cx| match (future.as_mut().poll(cx), Pin::new(&mut end).poll(cx)) {
        (Poll::Ready(outcome), _) => Poll::Ready(Some(outcome)),
        (_, Poll::Ready(_)) => Poll::Ready(None),
        _ => Poll::Pending,
    })
    .await
}
