//! The virtual network: hosts around every device, and what they try.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_core::{Phase, Router};
use serde_json::{Value, json};

use super::devices::{Device, hosts};
use super::exchange::{Exchange, Kind};
use super::frame::Frame;
use super::host::{Event, Host};
use super::trace::Trace;

/// Hosts on each network.
const HOSTS: usize = 3;
/// Exchanges have identifiers from here on.
const FIRST_ID: u16 = 10_000;
/// Packets are taken for lost when nothing has come for so long.
const PATIENCE: Duration = Duration::from_millis(300);
/// And the router has gone on so many times meanwhile.
const TURNS: u32 = 20;
/// Where no router routes to (RFC 5737).
const NOWHERE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 99);

/// What the hosts of a lab saw.
pub(crate) struct Report {
    /// For people.
    pub(crate) text: String,
    /// For programs.
    pub(crate) json: Value,
    /// Whether all arrived that should have.
    pub(crate) complete: bool,
}

/// The networks around the devices of a configuration.
pub(super) struct World {
    wires: Vec<Wire>,
    hosts: Vec<Host>,
    exchanges: Vec<Exchange>,
    /// Packets of each exchange that are taken for lost.
    lost: Vec<u32>,
    random: fastrand::Rng,
    bad_checksums: u64,
    reassembled: u64,
    last_progress: Instant,
    /// The last progress that was seen, and how many turns ago.
    seen_progress: Instant,
    turns: u32,
    finished: bool,
    router: Arc<OnceLock<Weak<Router>>>,
}

/// A device and what is connected to it.
struct Wire {
    name: String,
    hosts: Vec<usize>,
    /// Frames on their way to the router.
    to_router: VecDeque<Frame>,
    trace: Option<Trace>,
    /// Frames that the router received and sent here.
    received: u64,
    sent: u64,
}

impl World {
    pub(super) fn new(
        devices: &[Device],
        traces: Vec<Option<Trace>>,
        attacks: bool,
        seed: u64,
    ) -> Self {
        let mut world = Self {
            wires: Vec::new(),
            hosts: Vec::new(),
            exchanges: Vec::new(),
            lost: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            bad_checksums: 0,
            reassembled: 0,
            last_progress: Instant::now(),
            seen_progress: Instant::now(),
            turns: 0,
            finished: false,
            router: Arc::default(),
        };
        for (index, (device, trace)) in devices.iter().zip(traces).enumerate() {
            let hosts = if trace.is_some() { Vec::new() } else { world.populate(index, device) };
            world.wires.push(Wire {
                name: device.name.clone(),
                hosts,
                to_router: VecDeque::new(),
                trace,
                received: 0,
                sent: 0,
            });
        }
        world.plan(attacks);
        world
    }

    /// What to stop when everything has been tried.
    pub(super) fn router(&self) -> Arc<OnceLock<Weak<Router>>> {
        self.router.clone()
    }

    /// The next frame that the router receives by a device.
    pub(super) fn receive(&mut self, wire: usize) -> Option<Frame> {
        if self.wires[wire].to_router.is_empty() {
            self.go_on();
        }
        let wire = &mut self.wires[wire];
        let frame = match &mut wire.trace {
            Some(trace) => trace.next(),
            None => wire.to_router.pop_front(),
        };
        wire.received += u64::from(frame.is_some());
        frame
    }

    /// Takes a frame that the router sends by a device.
    pub(super) fn transmit(&mut self, wire: usize, frame: &[u8]) {
        self.last_progress = Instant::now();
        self.wires[wire].sent += 1;
        self.deliver(wire, frame);
        self.collect();
    }

    /// Gives a frame to the hosts of a network. Returns whether one of them has its address.
    fn deliver(&mut self, wire: usize, frame: &[u8]) -> bool {
        let mut meant = false;
        for at in 0..self.wires[wire].hosts.len() {
            let host = self.wires[wire].hosts[at];
            meant |= frame.starts_with(&self.hosts[host].ether.octets());
            match self.hosts[host].take(frame) {
                Some(Event::BadChecksum) => self.bad_checksums += 1,
                Some(Event::Reassembled) => self.reassembled += 1,
                Some(event @ (Event::Answer(id) | Event::Error { id, .. })) => {
                    let exchange = id.checked_sub(FIRST_ID).map(usize::from);
                    let exchange = exchange.and_then(|index| self.exchanges.get_mut(index));
                    if let Some(exchange) = exchange.filter(|exchange| exchange.host == host) {
                        exchange.take(event);
                    }
                }
                Some(Event::Echoed) | None => {}
            }
        }
        meant
    }

    /// What was tried and what came of it.
    pub(super) fn report(&self) -> Report {
        let mut tried: BTreeMap<Kind, (u64, u64)> = BTreeMap::new();
        for exchange in &self.exchanges {
            let counts = tried.entry(exchange.kind).or_default();
            counts.0 += u64::from(exchange.answered);
            counts.1 += u64::from(exchange.packets());
        }
        let mut text = String::from("The lab\n");
        for (kind, (came, due)) in &tried {
            let (what, answer) = kind.words();
            text.push_str(&format!("  {what:<32} {came:>6} of {due:>6}  {answer}\n"));
        }
        for wire in &self.wires {
            let kind = match &wire.trace {
                Some(trace) => format!("replays {}", trace.name()),
                None => {
                    let known: usize = wire.hosts.iter().map(|&h| self.hosts[h].neighbours()).sum();
                    format!("{} hosts, {known} addresses resolved", wire.hosts.len())
                }
            };
            let (name, received, sent) = (&wire.name, wire.received, wire.sent);
            text.push_str(&format!(
                "  {name}: {received} frames to the router, {sent} from it ({kind})\n"
            ));
        }
        if self.bad_checksums > 0 {
            text.push_str(&format!("  wrong checksums: {}\n", self.bad_checksums));
        }
        let exchanges: serde_json::Map<String, serde_json::Value> = tried
            .iter()
            .map(|(kind, (came, due))| (kind.key().to_owned(), json!({"came": came, "due": due})))
            .collect();
        let devices: Vec<_> = self
            .wires
            .iter()
            .map(|wire| json!({"name": wire.name, "received": wire.received, "sent": wire.sent}))
            .collect();
        let json = json!({
            "exchanges": exchanges,
            "devices": devices,
            "reassembled": self.reassembled,
            "bad_checksums": self.bad_checksums,
        });
        Report { text, json, complete: self.bad_checksums == 0 }
    }

    /// Puts hosts on the network of a device. Devices without an address share one network, with
    /// no router in between.
    fn populate(&mut self, index: usize, device: &Device) -> Vec<usize> {
        let common = Ipv4Prefix::new(Ipv4Addr::new(10, 0, 0, 1), 8);
        let Some(network) = device.router.or(common) else { return Vec::new() };
        let shared = device.router.is_none();
        let skip = if shared { index * HOSTS } else { 0 };
        let addresses: Vec<Ipv4Addr> = hosts(network).skip(skip).take(HOSTS).collect();
        let first = self.hosts.len();
        for ip in addresses {
            let number = self.hosts.len() as u16;
            let [high, low] = number.to_be_bytes();
            let ether = EtherAddress([0x02, 0x1a, 0xb0, 0, high, low]);
            let gateway = (!shared).then(|| network.address());
            self.hosts.push(Host::new(ip, ether, network.truncated(), gateway));
        }
        (first..self.hosts.len()).collect()
    }

    /// Thinks out what the hosts try; suspicious texts, too, where somebody looks for them.
    fn plan(&mut self, attacks: bool) {
        let wires: Vec<Vec<usize>> = self.wires.iter().map(|wire| wire.hosts.clone()).collect();
        for (index, near) in wires.iter().enumerate() {
            let Some(&host) = near.first() else { continue };
            let ip = |host: usize| self.hosts[host].ip;
            let gateway = self.hosts[host].gateway;
            let mut new = Vec::new();
            if let Some(gateway) = gateway {
                new.push(Exchange::new(Kind::PingRouter, host, gateway));
                new.push(Exchange::new(Kind::NoRoute, host, NOWHERE));
                if let Some(&neighbour) = near.get(1) {
                    new.push(Exchange::new(Kind::Redirect, host, ip(neighbour)).by(gateway));
                }
            }
            for far in
                wires.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, far)| far)
            {
                for (&from, &to) in near.iter().zip(far) {
                    new.push(Exchange::new(Kind::Flow, from, ip(to)));
                }
                let Some(&to) = far.last() else { continue };
                let kinds: &[Kind] = match gateway {
                    Some(_) => &[
                        Kind::Ping,
                        Kind::Expire,
                        Kind::Fragment,
                        Kind::DontFragment,
                        Kind::RecordRoute,
                    ],
                    None => &[Kind::Ping],
                };
                for &kind in kinds {
                    new.push(Exchange::new(kind, host, ip(to)));
                }
                if attacks {
                    new.push(Exchange::new(Kind::Attack, host, ip(to)));
                }
            }
            self.exchanges.extend(new);
        }
        self.lost = vec![0; self.exchanges.len()];
    }

    /// Lets every exchange send what it may; finds out whether all is over.
    fn go_on(&mut self) {
        let mut sent = false;
        for (index, exchange) in self.exchanges.iter_mut().enumerate() {
            if exchange.is_done() {
                continue;
            }
            let id = FIRST_ID + index as u16;
            let length = self.random.usize(18..1400);
            sent |= exchange.go_on(id, self.lost[index], &mut self.hosts[exchange.host], length);
        }
        if sent {
            self.last_progress = Instant::now();
        }
        self.collect();
        // A busy machine may have let the router wait for as long: it has had its turns, too.
        self.turns = if self.last_progress == self.seen_progress { self.turns + 1 } else { 0 };
        self.seen_progress = self.last_progress;
        let quiet = self.turns > TURNS && self.last_progress.elapsed() > PATIENCE;
        let replayed = self.wires.iter().all(|wire| wire.trace.as_ref().is_none_or(Trace::is_over));
        if quiet {
            for (exchange, lost) in self.exchanges.iter().zip(&mut self.lost) {
                *lost = exchange.outstanding();
            }
        }
        let answered = self.exchanges.iter().all(Exchange::is_done);
        let soon = answered && !self.exchanges.is_empty();
        if (soon && replayed && self.last_progress.elapsed() > PATIENCE / 6)
            || (quiet && !sent && replayed)
        {
            self.finish();
        }
    }

    fn finish(&mut self) {
        self.finished = true;
        if let Some(router) = self.router.get().and_then(Weak::upgrade) {
            router.request_stop();
            router.enter(Phase::Draining);
        }
    }

    /// Carries the frames that hosts want to send to each other and to the router, and those that
    /// these set off.
    fn collect(&mut self) {
        for wire in 0..self.wires.len() {
            while let Some(frame) = self.next_from_hosts(wire) {
                if !self.deliver(wire, &frame) {
                    self.wires[wire].to_router.push_back(frame);
                }
            }
        }
    }

    fn next_from_hosts(&mut self, wire: usize) -> Option<Frame> {
        let hosts = &self.wires[wire].hosts;
        hosts.iter().find_map(|&host| self.hosts[host].outbox.pop_front())
    }
}
