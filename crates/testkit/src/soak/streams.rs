//! TCP connections of the hosts' kernels through the router, one after the other: what comes back is what was sent.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use super::network::Network;
use super::windows::Windows;

const PORT: u16 = 9001;
/// Bytes in each direction of a connection.
const LENGTH: usize = 256 << 10;
/// A connection that brings nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// What became of the connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams {
    pub(super) complete: u64,
    /// Connections that failed while something was done that may break them.
    pub(super) broken: u64,
    /// Others.
    pub(super) problems: Vec<String>,
}

/// Connections that are made until this is ended.
pub(super) struct Connecting {
    ends: Arc<AtomicBool>,
    outcome: Arc<Mutex<Streams>>,
    threads: Vec<JoinHandle<()>>,
}

impl Connecting {
    /// Begins to connect the first host inside to the one outside.
    ///
    /// # Errors
    /// Nobody can listen there.
    pub(super) fn start(network: &Network, windows: &Arc<Windows>) -> io::Result<Self> {
        let ends = Arc::new(AtomicBool::new(false));
        let outcome = Arc::new(Mutex::new(Streams::default()));
        let address: SocketAddr = (Ipv4Addr::new(10, 0, 2, 2), PORT).into();
        let outside = network.hosts.last().ok_or(io::ErrorKind::NotFound)?;
        let inside = network.hosts.first().ok_or(io::ErrorKind::NotFound)?;
        let listener = outside.enter(|| TcpListener::bind(address))?;
        listener.set_nonblocking(true)?;
        let serving = std::thread::Builder::new().name("server".to_owned()).spawn({
            let ends = Arc::clone(&ends);
            move || serve(&listener, &ends)
        })?;
        let name = inside.name().to_owned();
        let connecting = std::thread::Builder::new().name("client".to_owned()).spawn({
            let (ends, outcome, windows) =
                (Arc::clone(&ends), Arc::clone(&outcome), Arc::clone(windows));
            move || {
                if let Err(error) = crate::namespace::move_to(&name) {
                    note(&outcome, |all| all.problems.push(error.to_string()));
                    return;
                }
                while !ends.load(Relaxed) {
                    let begun = Instant::now();
                    let result = exchange(address);
                    let excused = windows.explains_stall(begun, Instant::now());
                    note(&outcome, |all| match result {
                        Ok(()) => all.complete += 1,
                        Err(_) if excused || ends.load(Relaxed) => all.broken += 1,
                        Err(error) => all.problems.push(format!(
                            "the TCP connection of {:.1} s failed after {:.1} s: {error}",
                            windows.seconds(begun),
                            begun.elapsed().as_secs_f64()
                        )),
                    });
                    sleep(Duration::from_millis(500));
                }
            }
        })?;
        Ok(Self { ends, outcome, threads: vec![serving, connecting] })
    }

    /// Makes no further connection, and waits for the last.
    pub(super) fn end(self) -> Streams {
        self.ends.store(true, Relaxed);
        for thread in self.threads {
            // Who panicked has said so.
            let _ = thread.join();
        }
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn note(outcome: &Mutex<Streams>, change: impl FnOnce(&mut Streams)) {
    change(&mut outcome.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Sends back what comes, each connection on a thread of its own.
fn serve(listener: &TcpListener, ends: &AtomicBool) {
    while !ends.load(Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            sleep(Duration::from_millis(50));
            continue;
        };
        // A connection that breaks is the client's to report.
        let _ = std::thread::Builder::new().name("connection".to_owned()).spawn(move || {
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut reading = stream.try_clone()?;
            io::copy(&mut reading, &mut stream)
        });
    }
}

fn exchange(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut sending = stream.try_clone()?;
    let sender = std::thread::spawn(move || {
        let result = sending.write_all(&pattern());
        result.and_then(|()| sending.shutdown(std::net::Shutdown::Write))
    });
    let mut returned = Vec::with_capacity(LENGTH);
    stream.read_to_end(&mut returned)?;
    let sent = sender.join().map_err(|_| io::Error::other("the sender panicked"))?;
    sent?;
    match returned == pattern() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{} of {LENGTH} bytes, or others", returned.len()))),
    }
}

/// Bytes of which no two stretches are the same.
fn pattern() -> Vec<u8> {
    (0..LENGTH as u32 / 4).flat_map(|n| n.wrapping_mul(0x9e37_79b1).to_be_bytes()).collect()
}
