//! A program that sends the packets of many flows through an interface, with the rings of AF_XDP.

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use etherparse::{PacketBuilder, PacketBuilderStep, UdpHeader};
use millrace_core::{Batch, Packet};
use millrace_io::af_xdp::AfXdp;
use millrace_io::{Backend, Method, TxOptions, XdpOptions};
use millrace_testkit::Program;

use super::hosts::{FAR_ADDRESSES, Family, Hosts, NOWHERE, Side};
use super::output;

/// What is sent, by the program that `Traffic::command` starts.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Traffic {
    #[arg(long)]
    pub(crate) family: Family,
    /// The side that sends.
    #[arg(long)]
    pub(crate) from: Side,
    #[arg(long)]
    pub(crate) what: What,
    /// The number of flows, whose packets go in turn.
    #[arg(long)]
    pub(crate) flows: u32,
    /// Sends to the gateway, not to the host.
    #[arg(long)]
    pub(crate) routed: bool,
    /// One packet of each flow, at a pace at which none is lost.
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum What {
    /// Datagrams of 18 bytes, which in IPv4 makes frames of 60.
    Udp,
    /// The first segment of a handshake.
    Syn,
    /// The second, from the server.
    SynAck,
    /// The third.
    Ack,
}

/// Packets of one turn.
const BURST: usize = 64;
/// Flows with the same addresses. Their ports begin with [`FIRST_PORT`].
const PORTS: u32 = 60_000;
const FIRST_PORT: u16 = 2000;
/// The most flows.
pub(crate) const FLOWS: u32 = PORTS * FAR_ADDRESSES as u32;
/// The server's port of the flows, which the firewall's rules do not name.
const PORT: u16 = 7;
const DATA: [u8; 18] = [0; 18];
/// The variable that names the core to run on.
const CORE: &str = "MILLRACE_SENDER_CORE";
/// Between bursts of packets of which none may be lost.
const PAUSE: Duration = Duration::from_millis(1);
const WINDOW: u16 = 64_000;
/// The numbers of the first bytes of client and server.
const FIRST_BYTES: (u32, u32) = (1000, 9000);

impl Traffic {
    /// The length of its frames.
    pub(crate) fn frame_length(&self) -> usize {
        let ip = if self.family == Family::Four { 20 } else { 40 };
        14 + ip + if self.what == What::Udp { UdpHeader::LEN + DATA.len() } else { 20 }
    }

    /// The program that sends this.
    fn command(&self, hosts: &Hosts) -> anyhow::Result<Command> {
        let program = std::env::current_exe()?;
        let mut command = hosts.at(self.from).command(&program.to_string_lossy());
        let word = |value: Option<clap::builder::PossibleValue>| {
            value.map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        command.args(["middlebox-sender", "--family", &word(self.family.to_possible_value())]);
        command.args(["--from", &word(self.from.to_possible_value())]);
        command.args(["--what", &word(self.what.to_possible_value())]);
        command.args(["--flows", &self.flows.to_string()]);
        command.args(self.routed.then_some("--routed")).args(self.once.then_some("--once"));
        Ok(command)
    }

    /// Sends one packet of each flow.
    ///
    /// # Errors
    /// The sender fails.
    pub(crate) fn send_once(mut self, hosts: &Hosts) -> anyhow::Result<()> {
        self.once = true;
        output(&mut self.command(hosts)?).map(drop)
    }

    /// Sends until the result is dropped, on a core of its own.
    ///
    /// # Errors
    /// The sender fails.
    pub(crate) fn send_on(mut self, hosts: &Hosts, core: usize) -> anyhow::Result<Program> {
        self.once = false;
        let mut command = self.command(hosts)?;
        command.env(CORE, core.to_string());
        Program::start(&mut command).context("the sender")
    }

    /// The frame of a flow.
    fn frame(&self, flow: u32) -> anyhow::Result<Vec<u8>> {
        let host = 200 + u8::try_from(flow / PORTS)?;
        let client = Side::Client.address(self.family, 200);
        let server = Side::Server.address(self.family, host);
        let port = FIRST_PORT + u16::try_from(flow % PORTS)?;
        let (ends, ports) = match self.from {
            Side::Client => ((client, server), (port, PORT)),
            Side::Server => ((server, client), (PORT, port)),
        };
        let to = if self.routed { self.from.gateway() } else { NOWHERE };
        let ether = PacketBuilder::ethernet2([2, 0, 0, 0, 0x0e, 0x0e], to);
        let packet = match ends {
            (IpAddr::V4(from), IpAddr::V4(to)) => ether.ipv4(from.octets(), to.octets(), 64),
            (IpAddr::V6(from), IpAddr::V6(to)) => ether.ipv6(from.octets(), to.octets(), 64),
            _ => anyhow::bail!("two families"),
        };
        self.finish(packet, ports)
    }

    fn finish(
        &self,
        packet: PacketBuilderStep<etherparse::IpHeaders>,
        (from, to): (u16, u16),
    ) -> anyhow::Result<Vec<u8>> {
        let (client, server) = FIRST_BYTES;
        let mut frame = Vec::with_capacity(self.frame_length());
        match self.what {
            What::Udp => packet.udp(from, to).write(&mut frame, &DATA)?,
            What::Syn => packet.tcp(from, to, client, WINDOW).syn().write(&mut frame, &[])?,
            What::SynAck => {
                let packet = packet.tcp(from, to, server, WINDOW).syn().ack(client + 1);
                packet.write(&mut frame, &[])?;
            }
            What::Ack => {
                let packet = packet.tcp(from, to, client + 1, WINDOW).ack(server + 1);
                packet.write(&mut frame, &[])?;
            }
        }
        Ok(frame)
    }

    /// The program itself.
    ///
    /// # Errors
    /// The interface does not send.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if let Ok(core) = std::env::var(CORE) {
            crate::machine::pin(core.parse()?)?;
        }
        let frames = (0..self.flows).map(|flow| self.frame(flow));
        let frames = frames.collect::<anyhow::Result<Vec<_>>>()?;
        let method = Method::Xdp(XdpOptions::default());
        let opened = AfXdp.open_tx("lan", &TxOptions { method, ..TxOptions::default() })?;
        let mut tx = opened.queues.into_iter().next().context("no queue")?;
        let mut batch = Batch::new();
        let mut turn = frames.iter();
        loop {
            while batch.len() < BURST
                && let Some(frame) = turn.next()
            {
                let packet = Packet::from_bytes(frame).context("no memory for packets")?;
                if batch.push(packet).is_err() {
                    break;
                }
            }
            tx.transmit(&mut batch)?;
            if turn.len() > 0 || !batch.is_empty() {
                if self.once {
                    std::thread::sleep(PAUSE);
                }
                continue;
            }
            if self.once {
                break;
            }
            turn = frames.iter();
        }
        tx.flush()?;
        // What is in the ring must leave before the interface is closed.
        std::thread::sleep(Duration::from_millis(50));
        Ok(())
    }
}
