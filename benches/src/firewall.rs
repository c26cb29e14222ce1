//! The stateful firewall of the examples between two hosts, beside nftables with the same rules, the kernel's forwarding
//! without rules, and Millrace without the firewall.
//!
//! Hosts and box are network namespaces that share the machine's cores ([`middlebox`]). Datagrams come
//! from one program, which has a core of its own, as Millrace has for them; servers, clients and Millrace between them run
//! where the system puts them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use millrace_testkit::Namespace;
use serde_json::{Value, json};

use crate::machine::{self, Machine};
use crate::middlebox::client::{Client, Question};
use crate::middlebox::cost::Spent;
use crate::middlebox::hosts::{FAMILIES, Family, Hosts, Side, Wiring};
use crate::middlebox::router::{Configuration, Kind, Source};
use crate::middlebox::sender::{FLOWS, Traffic, What};
use crate::middlebox::server::Server;
use crate::middlebox::table::{Table, field};
use crate::middlebox::{self, memory};
use crate::report;

/// How to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each case is measured; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// The duration of each measurement in milliseconds
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    window: u64,

    /// Flows of datagrams, whose packets arrive in turn; may be given several times
    #[arg(long, value_name = "N", default_values_t = [1000, 100_000], value_parser = clap::value_parser!(u32).range(1..=i64::from(FLOWS)))]
    flows: Vec<u32>,

    /// Connections that a box remembers while its memory is measured
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    connections: u32,

    /// Measures only these: datagrams, tcp, connections, memory
    #[arg(long, value_name = "PART")]
    only: Vec<String>,

    /// Writes the report for programs to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The rules of the example.
const NFTABLES: &str = "table inet firewall {
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state invalid drop
        iifname eth0 accept
        ct state established,related accept
        ct state new tcp dport 22 accept
        ct state new icmp type echo-request accept
        ct state new icmpv6 type echo-request accept
    }
}";

/// What the firewall is compared with.
const FORWARDER: &str = "FromDevice(eth0, PROMISC true) -> ToDevice(eth1);
    FromDevice(eth1, PROMISC true) -> ToDevice(eth0);";

const METHODS: [&str; 2] = ["LINUX", "XDP"];
const PARTS: [&str; 4] = ["datagrams", "tcp", "connections", "memory"];

/// Connections that are open at a time while new ones are counted.
const CONCURRENT: usize = 64;
const PAGE: &[u8] = b"a small answer\n";

/// A box, and its name in the tables.
struct Case {
    name: String,
    kind: Kind,
    /// Whether it follows connections.
    is_firewall: bool,
}

/// The boxes; the first one is what the others are compared with.
fn cases(core: Option<usize>) -> Vec<Case> {
    let case = |name: &str, kind, is_firewall| Case { name: name.to_owned(), kind, is_firewall };
    let mut cases =
        vec![case("kernel", Kind::Kernel, false), case("nftables", Kind::Nftables(NFTABLES), true)];
    for method in METHODS {
        let kind = |source| {
            let variables = vec!["INSIDE=eth0".to_owned(), "OUTSIDE=eth1".to_owned()];
            Kind::Millrace(Configuration { source, variables, method, core })
        };
        cases.push(case(&format!("forward, {method}"), kind(Source::Text(FORWARDER)), false));
        let firewall = kind(Source::Example("stateful-firewall.click"));
        cases.push(case(&format!("firewall, {method}"), firewall, true));
    }
    cases
}

impl Options {
    /// Measures and reports.
    ///
    /// # Errors
    /// There are no privileges, programs are missing, or a box lets pass what it should not, or the other way around.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        middlebox::require(&["ip", "sysctl", "nft", "nginx", "iperf3", "ethtool"])?;
        Namespace::delete_abandoned();
        let known = |part: &String| PARTS.contains(&part.as_str());
        ensure!(self.only.iter().all(known), "--only: the parts are {}", PARTS.join(", "));
        let cores = machine::cores()?;
        let [first, .., last] = cores[..] else { anyhow::bail!("this takes two cores") };
        let machine = Machine::look();
        println!(
            "{}, {} cores for client, box and server; commit {}\n{} rounds of {} ms",
            machine.cpu,
            cores.len(),
            machine.commit,
            self.rounds,
            self.window
        );
        let mut datagrams = Table::new(
            "datagrams of established flows",
            &["Mpps", "box ns/packet", "all ns/packet", "offered Mpps"],
        );
        let mut tcp = Table::new("one TCP connection", &["Gb/s", "box ns/KB", "all ns/KB"]);
        let mut connections =
            Table::new("connections", &["per second", "box us each", "all us each"]);
        let mut memory = Table::new("memory", &["bytes each", "MB without", "of the table"]);
        for round in 0..self.rounds {
            if self.wants("datagrams") {
                for case in cases(Some(last)) {
                    for (family, &flows) in self.families_and_flows() {
                        let figures = self.datagrams(&case, family, flows, first);
                        let context = || format!("datagrams, {family}: {}", case.name);
                        let group = format!("{family}, {flows} flows:");
                        datagrams.add(&group, &case.name, figures.with_context(context)?);
                    }
                }
            }
            for case in cases(None) {
                for family in FAMILIES {
                    for offloads in [true, false] {
                        let name = if offloads { "" } else { ", packets of the MTU" };
                        let group = format!("{family}{name}:");
                        // The second family shows nothing new here.
                        if self.wants("tcp") && (offloads || family == Family::Four) {
                            let figures = self.tcp(&case, family, offloads);
                            let context = || format!("TCP, {group} {}", case.name);
                            tcp.add(&group, &case.name, figures.with_context(context)?);
                        }
                    }
                    if self.wants("connections") {
                        let figures = self.connections(&case, family);
                        let context = || format!("connections, {family}: {}", case.name);
                        let group = format!("{family}:");
                        connections.add(&group, &case.name, figures.with_context(context)?);
                    }
                }
                // It is the same each time, and for each way to receive.
                let is_first = round == 0 && case.is_firewall && !case.name.contains("XDP");
                if self.wants("memory") && is_first {
                    let figures = self.memory(&case, first);
                    let context = || format!("memory: {}", case.name);
                    memory.add("TCP:", &case.name, figures.with_context(context)?);
                }
            }
        }
        let tables = [datagrams, tcp, connections, memory];
        tables.iter().for_each(|table| print!("{}", table.tell()));
        let options = json!({
            "suite": "firewall", "rounds": self.rounds, "window_ms": self.window,
            "connections": self.connections, "cores": cores,
        });
        let rows: Vec<Value> = tables.iter().flat_map(Table::json).collect();
        report::write(self.json.as_deref(), &machine, options, rows)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }

    fn window(&self) -> Duration {
        Duration::from_millis(self.window)
    }

    /// IPv4 with each number of flows, IPv6 with the first.
    fn families_and_flows(&self) -> impl Iterator<Item = (Family, &u32)> {
        let four = self.flows.iter().map(|flows| (Family::Four, flows));
        four.chain(self.flows.first().map(|flows| (Family::Six, flows)))
    }

    /// Datagrams that answer others, so that a firewall lets them pass, from the server's side as fast as they go.
    fn datagrams(
        &self,
        case: &Case,
        family: Family,
        flows: u32,
        core: usize,
    ) -> anyhow::Result<Vec<Option<f64>>> {
        const WARM_UP: Duration = Duration::from_millis(200);
        let hosts = Hosts::new(case.kind.wiring())?;
        let running = case.kind.start(&hosts)?;
        let routed = case.kind.wiring() == Wiring::Routed;
        let traffic = |from| Traffic { family, from, what: What::Udp, flows, routed, once: false };
        if case.is_firewall {
            let arrived = passed(&hosts, traffic(Side::Server))?;
            ensure!(arrived < FEW, "{arrived} of {flows} datagrams that nobody asked for pass");
        }
        pass_all(&hosts, traffic(Side::Client))?;
        pass_all(&hosts, traffic(Side::Server))?;

        let quiet = hosts.counts(Side::Client)?.packets;
        let sender = traffic(Side::Server).send_on(&hosts, core)?;
        wait_for(|| Ok(hosts.counts(Side::Client)?.packets > quiet + FEW))?;
        std::thread::sleep(WARM_UP);
        let look = || -> anyhow::Result<_> {
            let spent = Spent::now(&hosts, running.id())?;
            Ok((hosts.counts(Side::Client)?, hosts.counts(Side::Server)?.sent, spent))
        };
        let (before, sent_before, early) = look()?;
        std::thread::sleep(self.window());
        let (after, sent_after, late) = look()?;
        drop(sender);
        let packets = (after.packets - before.packets) as f64;
        ensure!(packets > 0.0, "nothing arrives");
        let length = (after.bytes - before.bytes) as f64 / packets;
        let wanted = traffic(Side::Server).frame_length() as f64;
        ensure!((length - wanted).abs() < 1.0, "frames arrive with {length:.1} bytes");
        let cost = late.since(&early);
        let seconds = cost.wall.as_secs_f64();
        running.stop()?;
        Ok(vec![
            Some(packets / seconds / 1e6),
            cost.router_ns(packets),
            Some(cost.all_ns(packets)),
            Some((sent_after - sent_before) as f64 / seconds / 1e6),
        ])
    }

    /// One TCP connection that carries as much as it can from the client to the server. Without offloads, hosts and box
    /// handle packets that have the length of the links' MTU; otherwise the kernel moves 64 KiB as one.
    fn tcp(&self, case: &Case, family: Family, offloads: bool) -> anyhow::Result<Vec<Option<f64>>> {
        let hosts = Hosts::new(case.kind.wiring())?;
        if !offloads {
            hosts.forbid_offloads()?;
        }
        let running = case.kind.start(&hosts)?;
        let _server = Server::iperf(&hosts.server)?;
        let address = Hosts::server_address(family);
        let seconds = (self.window as f64 / 1e3).max(1.0).round();
        let mut command = hosts.client.command("iperf3");
        command.args(["-J", "-c", &address.to_string(), "-t", &seconds.to_string()]);
        let early = Spent::now(&hosts, running.id())?;
        let said: Value = serde_json::from_str(&middlebox::output(&mut command)?)?;
        let cost = Spent::now(&hosts, running.id())?.since(&early);
        let rate = field(&said, "/end/sum_received/bits_per_second")?;
        let bytes = field(&said, "/end/sum_received/bytes")?;
        let sent = field(&said, "/end/sum_sent/bytes")?;
        // The server stops counting when the client has stopped sending.
        ensure!(bytes > 0.0 && bytes <= sent, "{bytes} bytes arrived of {sent}");
        running.stop()?;
        let kilobytes = bytes / 1e3;
        Ok(vec![Some(rate / 1e9), cost.router_ns(kilobytes), Some(cost.all_ns(kilobytes))])
    }

    /// New connections, each of which carries a question and an answer.
    fn connections(&self, case: &Case, family: Family) -> anyhow::Result<Vec<Option<f64>>> {
        let hosts = Hosts::new(case.kind.wiring())?;
        let running = case.kind.start(&hosts)?;
        let _server = Server::nginx(&hosts.server, &[("page", PAGE)])?;
        let (question, id) = (Question::new("page", PAGE, true), running.id());
        let address = SocketAddr::new(Hosts::server_address(family), 80);
        let mut early = None;
        let answered = hosts.client.enter(|| {
            let mut client = Client::new(address, &question)?;
            client.connect_again_and_again(CONCURRENT, self.window(), || {
                early = Some(Spent::now(&hosts, id)?);
                Ok(())
            })
        })?;
        let late = Spent::now(&hosts, running.id())?;
        let cost = late.since(&early.context("the window did not begin")?);
        let answered = answered as f64;
        ensure!(answered > 0.0, "no connection is answered");
        running.stop()?;
        Ok(vec![
            Some(answered / cost.wall.as_secs_f64()),
            cost.router_ns(answered).map(|ns| ns / 1e3),
            Some(cost.all_ns(answered) / 1e3),
        ])
    }

    /// What TCP connections take that are open at the same time.
    fn memory(&self, case: &Case, core: usize) -> anyhow::Result<Vec<Option<f64>>> {
        let hosts = Hosts::new(case.kind.wiring())?;
        let running = case.kind.start(&hosts)?;
        let routed = case.kind.wiring() == Wiring::Routed;
        let traffic = |from, what, flows| Traffic {
            family: Family::Four,
            from,
            what,
            flows,
            routed,
            once: true,
        };
        // Packet memory, which has nothing to do with connections, is touched before.
        let sender = traffic(Side::Client, What::Udp, 1).send_on(&hosts, core)?;
        std::thread::sleep(Duration::from_millis(500));
        drop(sender);
        std::thread::sleep(Duration::from_millis(200));
        let millrace = running.id().is_some();
        let used = || running.id().map_or_else(memory::of_conntrack, memory::resident);
        let before = used()?;
        let handshake =
            [(Side::Client, What::Syn), (Side::Server, What::SynAck), (Side::Client, What::Ack)];
        for (from, what) in handshake {
            pass_all(&hosts, traffic(from, what, self.connections))?;
        }
        let after = used()?;
        let known = match millrace {
            true => running.read(&hosts, "tracker.open")?.parse()?,
            false => memory::connections(&hosts)?,
        };
        ensure!(is_about(known, self.connections), "{known} connections are known");
        running.stop()?;
        Ok(vec![
            Some((after - before) / known as f64),
            millrace.then_some(before / 1e6),
            if millrace { None } else { Some(memory::object_size("nf_conntrack")?) },
        ])
    }
}

/// Packets that arrive though nobody sent them on purpose.
const FEW: u64 = 10;

/// Whether all arrived, but for some that the machine lost.
fn is_about(arrived: u64, wanted: u32) -> bool {
    arrived.abs_diff(wanted.into()) < FEW + u64::from(wanted) / 100
}

/// Waits until it is so: on a busy machine a sender takes a while to start.
fn wait_for(is_so: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(20);
    let end = Instant::now() + PATIENCE;
    while !is_so()? {
        ensure!(Instant::now() < end, "nothing arrives");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Sends a packet of each flow, again if the machine was too busy to receive all, until all have arrived at once.
fn pass_all(hosts: &Hosts, traffic: Traffic) -> anyhow::Result<()> {
    const ATTEMPTS: usize = 10;
    let mut arrived = 0;
    for _ in 0..ATTEMPTS {
        arrived = passed(hosts, traffic)?;
        if is_about(arrived, traffic.flows) {
            return Ok(());
        }
    }
    anyhow::bail!("{arrived} of {} packets pass: {:?}", traffic.flows, traffic.what)
}

/// How many packets arrive at the other side when one of each flow is sent.
fn passed(hosts: &Hosts, traffic: Traffic) -> anyhow::Result<u64> {
    const PATIENCE: Duration = Duration::from_millis(100);
    let to = if traffic.from == Side::Client { Side::Server } else { Side::Client };
    let before = hosts.counts(to)?;
    traffic.send_once(hosts)?;
    std::thread::sleep(PATIENCE);
    Ok(hosts.counts(to)?.packets - before.packets)
}
