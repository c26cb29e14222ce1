//! Numbered datagrams from the hosts inside to the one outside, which sends each back.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use super::Fault;
use super::network::Network;
use super::windows::Windows;

/// The port outside; the configuration counts what goes to and comes from it.
pub(super) const PORT: u16 = 9000;

/// The flows, one for each host inside.
pub(super) struct Traffic {
    flows: Vec<Arc<Flow>>,
    threads: Vec<JoinHandle<()>>,
    common: Arc<Common>,
}

struct Common {
    ends: AtomicBool,
    pauses: AtomicBool,
    /// What came to the host outside.
    there: AtomicU64,
    /// What came back to the hosts inside.
    back: AtomicU64,
    windows: Arc<Windows>,
}

struct Flow {
    ledger: Mutex<Ledger>,
}

/// What became of the packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) sent: u64,
    /// Of these, how many came to the host outside, and how many back from there.
    pub(super) arrived: u64,
    pub(super) returned: u64,
    /// Packets that came twice or more often, on either way.
    pub(super) twice: u64,
    /// Packets that did not come back, by the fault that explains it.
    pub(super) lost: Vec<(Fault, u64)>,
    /// Packets that did not come back without a reason: flow, number, when it was sent in seconds, and whether it had
    /// come to the host outside.
    pub(super) unexplained: Vec<(usize, u64, f64, bool)>,
    /// Those that are not listed any more.
    pub(super) unexplained_more: u64,
}

#[derive(Debug, Default)]
struct Ledger {
    /// The number of the first open entry.
    first: u64,
    open: VecDeque<Entry>,
    settled: Tally,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    sent: Instant,
    there: u8,
    back: u8,
}

/// What has not come after this time counts as lost.
const SETTLED: Duration = Duration::from_secs(8);
/// Bytes of a datagram: its flow and its number come first.
const HEADER: usize = 9;
const LONGEST: usize = 1000;
/// For a receiver to see that it is to end.
const TICK: Duration = Duration::from_millis(100);

impl Traffic {
    /// Begins to send `rate` packets a second from each host inside.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub(super) fn start(
        network: &Network,
        windows: &Arc<Windows>,
        rate: u32,
        seed: u64,
    ) -> io::Result<Self> {
        let common = Arc::new(Common {
            ends: false.into(),
            pauses: true.into(),
            there: 0.into(),
            back: 0.into(),
            windows: Arc::clone(windows),
        });
        let inside = network.hosts.len() - 1;
        let flows: Vec<Arc<Flow>> =
            (0..inside).map(|_| Arc::new(Flow { ledger: Mutex::default() })).collect();
        let mut threads = Vec::new();
        let outside = socket(network, inside, PORT)?;
        threads.push(start("echo", {
            let (flows, common) = (flows.clone(), Arc::clone(&common));
            move || echo(&outside, &flows, &common)
        })?);
        for (n, flow) in flows.iter().enumerate() {
            let sending = socket(network, n, 0)?;
            let receiving = sending.try_clone()?;
            threads.push(start("sender", {
                let (flow, common) = (Arc::clone(flow), Arc::clone(&common));
                let random = fastrand::Rng::with_seed(seed.wrapping_add(n as u64));
                move || send(&sending, n, &flow, &common, rate, random)
            })?);
            threads.push(start("receiver", {
                let (flow, common) = (Arc::clone(flow), Arc::clone(&common));
                move || receive(&receiving, &flow, &common)
            })?);
        }
        Ok(Self { flows, threads, common })
    }

    /// Stops sending for a while, or goes on.
    pub(super) fn pause(&self, pauses: bool) {
        self.common.pauses.store(pauses, Relaxed);
    }

    /// How many packets were sent, came to the host outside, and came back, each copy counted.
    pub(super) fn counts(&self) -> [u64; 3] {
        let sent = self.flows.iter().map(|flow| {
            let ledger = flow.lock();
            ledger.first + ledger.open.len() as u64
        });
        [sent.sum(), self.common.there.load(Relaxed), self.common.back.load(Relaxed)]
    }

    /// Judges what is old enough. Returns how much was lost without a reason so far.
    pub(super) fn settle(&self) -> u64 {
        let judge = |(n, flow): (usize, &Arc<Flow>)| {
            let mut ledger = flow.lock();
            ledger.settle(n, SETTLED, &self.common.windows);
            ledger.settled.unexplained()
        };
        self.flows.iter().enumerate().map(judge).sum()
    }

    /// Ends it. What is on its way may still come for a while.
    pub(super) fn end(self) -> Tally {
        self.pause(true);
        sleep(Duration::from_secs(2));
        self.common.ends.store(true, Relaxed);
        for thread in self.threads {
            // A thread that panicked has said so, and its packets are missing.
            let _ = thread.join();
        }
        let mut all = Tally::default();
        for (n, flow) in self.flows.iter().enumerate() {
            let mut ledger = flow.lock();
            ledger.settle(n, Duration::ZERO, &self.common.windows);
            all.add(&ledger.settled);
        }
        all
    }
}

impl Flow {
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.open.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn settle(&mut self, flow: usize, age: Duration, windows: &Windows) {
        while let Some(entry) =
            self.open.front().copied().filter(|entry| entry.sent.elapsed() >= age)
        {
            let tally = &mut self.settled;
            tally.sent += 1;
            tally.arrived += u64::from(entry.there > 0);
            tally.returned += u64::from(entry.back > 0);
            tally.twice += u64::from(entry.there > 1 || entry.back > 1);
            if entry.back == 0 {
                match windows.explains_loss(entry.sent) {
                    Some(fault) => tally.lose(fault, 1),
                    None => {
                        let at = windows.seconds(entry.sent);
                        tally.report((flow, self.first, at, entry.there > 0));
                    }
                }
            }
            self.open.pop_front();
            self.first += 1;
        }
    }
}

impl Tally {
    /// How many packets were lost without a reason.
    pub(super) fn unexplained(&self) -> u64 {
        self.unexplained.len() as u64 + self.unexplained_more
    }

    /// How many packets were lost with a reason.
    pub(super) fn explained(&self) -> u64 {
        self.lost.iter().map(|(_, count)| count).sum()
    }

    fn lose(&mut self, fault: Fault, count: u64) {
        match self.lost.iter_mut().find(|(known, _)| *known == fault) {
            Some((_, known)) => *known += count,
            None => self.lost.push((fault, count)),
        }
    }

    fn report(&mut self, packet: (usize, u64, f64, bool)) {
        const MOST: usize = 20;
        if self.unexplained.len() < MOST {
            self.unexplained.push(packet);
        } else {
            self.unexplained_more += 1;
        }
    }

    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.arrived += other.arrived;
        self.returned += other.returned;
        self.twice += other.twice;
        other.lost.iter().for_each(|(fault, count)| self.lose(*fault, *count));
        other.unexplained.iter().for_each(|packet| self.report(*packet));
        self.unexplained_more += other.unexplained_more;
    }
}

/// A socket of a host. Its buffer has room for what comes while its thread waits for a processor.
fn socket(network: &Network, host: usize, port: u16) -> io::Result<UdpSocket> {
    const BUFFER: usize = 16 << 20;
    let namespace = network.hosts.get(host).ok_or(io::ErrorKind::NotFound)?;
    let address = Ipv4Addr::new(10, 0, host as u8, 2);
    let socket = namespace.enter(|| UdpSocket::bind((address, port)))?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)?;
    socket.set_read_timeout(Some(TICK))?;
    Ok(socket)
}

fn start(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

fn send(
    socket: &UdpSocket,
    n: usize,
    flow: &Flow,
    common: &Common,
    rate: u32,
    mut random: fastrand::Rng,
) {
    let pace = Duration::from_secs(1) / rate.max(1);
    let to: SocketAddr = (Ipv4Addr::new(10, 0, 2, 2), PORT).into();
    let mut next = Instant::now();
    let mut bytes = [n as u8; LONGEST];
    while !common.ends.load(Relaxed) {
        let now = Instant::now();
        if common.pauses.load(Relaxed) || now < next {
            sleep(pace.min(next.saturating_duration_since(now)).max(Duration::from_micros(100)));
            continue;
        }
        // Who slept for long does not send in bursts what no ring has room for.
        next = (next + pace).max(now.checked_sub(Duration::from_millis(20)).unwrap_or(now));
        let length = random.usize(HEADER..=LONGEST);
        let Some(datagram) = bytes.get_mut(..length) else { continue };
        let mut ledger = flow.lock();
        let number = ledger.first + ledger.open.len() as u64;
        if let Some(place) = datagram.get_mut(1..HEADER) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        // Whether it is sent is known when this returns, and it may have come back by then.
        if socket.send_to(datagram, to).is_ok() {
            ledger.open.push_back(Entry { sent: now, there: 0, back: 0 });
        }
    }
}

/// The flow and the number of a datagram.
fn read(datagram: &[u8]) -> Option<(usize, u64)> {
    let (flow, rest) = datagram.split_first()?;
    Some(((*flow).into(), u64::from_be_bytes(*rest.first_chunk()?)))
}

fn echo(socket: &UdpSocket, flows: &[Arc<Flow>], common: &Common) {
    let mut bytes = [0; 2048];
    while !common.ends.load(Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
        let datagram = bytes.get(..length).unwrap_or_default();
        common.there.fetch_add(1, Relaxed);
        if let Some((flow, number)) = read(datagram)
            && let Some(flow) = flows.get(flow)
            && let Some(entry) = flow.lock().entry(number)
        {
            entry.there = entry.there.saturating_add(1);
        }
        // What cannot be sent because an interface is away is lost.
        let _ = socket.send_to(datagram, from);
    }
}

fn receive(socket: &UdpSocket, flow: &Flow, common: &Common) {
    let mut bytes = [0; 2048];
    while !common.ends.load(Relaxed) {
        let Ok(length) = socket.recv(&mut bytes) else { continue };
        common.back.fetch_add(1, Relaxed);
        if let Some((_, number)) = read(bytes.get(..length).unwrap_or_default())
            && let Some(entry) = flow.lock().entry(number)
        {
            entry.back = entry.back.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_judged_by_what_came_of_them() {
        let windows = Windows::new();
        let mut ledger = Ledger::default();
        let now = Instant::now();
        for (there, back) in [(1, 1), (1, 0), (0, 0), (2, 1), (1, 2)] {
            ledger.open.push_back(Entry { sent: now, there, back });
        }
        ledger.entry(0).unwrap().back += 0;
        assert!(ledger.entry(5).is_none());
        ledger.settle(0, Duration::from_secs(3600), &windows);
        assert_eq!(ledger.settled.sent, 0, "it is too early");
        ledger.settle(0, Duration::ZERO, &windows);
        let tally = &ledger.settled;
        assert_eq!((tally.sent, tally.arrived, tally.returned, tally.twice), (5, 4, 3, 2));
        assert_eq!(tally.unexplained(), 2);
        let numbers: Vec<_> = tally.unexplained.iter().map(|lost| (lost.1, lost.3)).collect();
        assert_eq!(numbers, [(1, true), (2, false)]);
        assert!(ledger.entry(4).is_none() && ledger.first == 5);
    }
}
