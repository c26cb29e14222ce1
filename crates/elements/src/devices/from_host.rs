//! FromHost - creates a virtual interface (TAP or TUN) and receives what the machine sends through it
//!
//! # Synopsis
//! `FromHost(DEVNAME [, DST, keywords GATEWAY, DST6, ETHER, MTU, HEADROOM, TYPE, BURST, N_QUEUES,
//! MAXTHREADS, THREADOFFSET])`
//!
//! # Description
//! Creates an interface of the machine called DEVNAME and pushes the Ethernet frames that the machine
//! sends through it. ToHost with the same DEVNAME sends frames to the machine. KernelTap does both in
//! one element; its manual says more about such interfaces.
//!
//! Packets have their MAC header annotation set. IP packets also have their IP header annotations set
//! and, for IPv4, their destination annotation. While the downstream Queues are full, packets wait in
//! the machine.
//!
//! # Arguments
//! - DEVNAME: the interface. An existing one, made by `ip tuntap add`, is used and left in place
//!   afterwards. Positional, mandatory.
//! - DST: the machine's address on the interface and its network, such as 18.26.4.9/24. Without DST
//!   and DST6, the element does not bring the interface up. Positional; PREFIX is another name for it.
//! - GATEWAY: a host of that network that the machine uses as its default gateway.
//! - DST6: the machine's IPv6 address on the interface and its network.
//! - ETHER: the interface's Ethernet address. By default the kernel chooses.
//! - MTU: the longest packet without its Ethernet header. By default the kernel's 1500.
//! - HEADROOM: free bytes before each packet, at most 8190. Default 128.
//! - TYPE: ETHER for Ethernet frames, IP for IP packets. Default ETHER.
//! - BURST: maximum number of packets at a time, 1 to 256. Default 64.
//! - N_QUEUES, MAXTHREADS, THREADOFFSET: as in KernelTap.
//!
//! # Ports
//! One push output.
//!
//! # Handlers
//! - `dev_name` (read): the interface's name.
//! - `signal` (read): whether the downstream Queues have room.
//! - `count` (read): packets received. `reset_counts` (write): resets it to 0.
//! - `kernel_drops` (read): packets that could not be used.
//! - `segmented` (read): packets that were cut into several.
//! - `queues` (read): number of queues.
//! - `active` (read, write): whether it receives.
//! - `scheduled` (read, write), `home_thread` (read): its tasks.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromHost(fake, 192.0.2.1/24, ETHER 02:00:00:00:00:01)
//!     -> sent :: Classifier(12/0806 20/0001, -);
//! sent [0] -> ARPResponder(192.0.2.0/24 02:00:00:00:00:02) -> ToHost(fake);
//! sent [1] -> Discard;
//! ```
//!
//! # See also
//! ToHost, KernelTap, KernelTun

use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

use millrace_core::args::{Kind, Word};
use millrace_core::element::Listening;
use millrace_core::net::{EtherAddress, Ipv4Prefix, Ipv6Prefix};
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Offers, Packet, Refused,
    Router, Setup, register,
};
use millrace_io::pcap::LinkType;
use millrace_io::tap::{Tap, TapKind, TapOptions};
use millrace_io::{Capabilities, Opened, QueueCounts, RxOptions, TxQueue};

use super::interface::backend::Source;
use super::interface::force_ip::force_ip;
use super::interface::receive::{self, Receives, Reception};
use super::interface::tap_port;
use crate::capability::HostInterface;

/// The element; its manual is at the top of the file.
pub struct FromHost {
    options: TapOptions,
    reception: Reception,
    /// The queues that ToHost transmits through; set when the interface exists.
    to_host: OnceLock<ToHostQueues>,
    room: OnceLock<Vec<Listening>>,
}

/// Queues to the machine, shared by any number of ToHosts.
struct ToHostQueues {
    queues: Lock<Vec<SharedQueue>>,
    capabilities: Capabilities,
}

impl ToHostQueues {
    /// The same queues.
    fn share(&self) -> Self {
        let queues = Lock::new(self.queues.lock().clone());
        Self { queues, capabilities: self.capabilities.clone() }
    }
}

register!(FromHost, "from_host.rs");

impl Element for FromHost {
    const CLASS: Class = Class::new("FromHost", "0/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let name: String = args.mandatory("DEVNAME");
        let dst: Option<Ipv4Prefix> = args.optional("DST");
        let ipv4 = args.optional_keyword("PREFIX").or(dst);
        let gateway: Option<Ipv4Addr> = args.optional_keyword("GATEWAY");
        let gateway = gateway.filter(|gateway| !gateway.is_unspecified());
        let ipv6: Option<Ipv6Prefix> = args.optional_keyword("DST6");
        let ether: Option<EtherAddress> = args.optional_keyword("ETHER");
        let mtu = args.in_range("MTU", Kind::Keyword, 68..=65_521u32);
        let headroom = args.in_range("HEADROOM", Kind::Keyword, 0..=8190u32).unwrap_or(128);
        let kind = kind(args);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let receiving = tap_port::receiving(args);
        if name.is_empty() {
            args.error("DEVNAME", "DEVNAME must name the interface");
        }
        if let (Some(ipv4), Some(gateway)) = (ipv4, gateway)
            && !ipv4.contains(gateway)
        {
            args.error("GATEWAY", format!("GATEWAY must be in the network {}", ipv4.truncated()));
        }
        if kind == TapKind::Tun && ether.is_some() {
            args.error("ETHER", "an interface of TYPE IP has no Ethernet address");
        }
        args.complete()?;
        let options = TapOptions {
            kind,
            name: Some(name.clone()),
            ipv4,
            ipv6,
            gateway,
            ether,
            mtu: mtu.map(|mtu| mtu as usize),
            up: ipv4.is_some() || ipv6.is_some(),
            headroom: headroom as usize,
            ..TapOptions::default()
        };
        let burst = burst.map_or(64, |burst| burst as usize);
        let wanted = receive::Wanted {
            options: RxOptions::default(),
            burst,
            active: true,
            optional: false,
            receiving,
        };
        let reception = Reception::configure(setup, name, wanted);
        Ok(Self { options, reception, to_host: OnceLock::new(), room: OnceLock::new() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let tasks = self.reception.tasks().iter();
        let _ = self.room.set(tasks.map(|task| init.listen_for_room(0, task)).collect());
        if let Some(old) = init.predecessor::<Self>().filter(|old| self.can_inherit(old)) {
            // ToHost wants its queues now; the others follow when the state is taken.
            let _ = old.to_host.get().map(|queues| self.to_host.set(queues.share()));
            return Ok(());
        }
        let queues = self.reception.wanted_queues().max(1);
        let options = TapOptions { queues, ..self.options.clone() };
        let opened = Source::of(init.service()).open_tap(&options);
        let Tap { rx, tx, .. } = opened.map_err(|error| Refused(error.to_string()))?;
        // An element is initialised once.
        let _ = self.to_host.set(ToHostQueues {
            capabilities: tx.capabilities,
            queues: Lock::new(tx.queues.into_iter().map(|q| Arc::new(Lock::new(q))).collect()),
        });
        self.reception.start(init, rx)
    }

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        self.reception.inherit(&old.reception, init);
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        if !self.has_room(cx.router()) {
            self.rest(cx);
            return false;
        }
        self.reception.run(cx, |cx, batch| {
            batch.for_each(|packet| annotate(packet, self.options.kind));
            cx.push_batch(0, batch);
        })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        receive::handlers(handlers);
        handlers.read("dev_name", |host, _| host.interface().to_owned());
        handlers.read("signal", |host, call| host.has_room(call.router()));
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn HostInterface>(self.clone());
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        self.reception.cleanup();
        if let Some(to_host) = self.to_host.get() {
            to_host.queues.lock().clear();
        }
        Ok(())
    }
}

impl Receives for FromHost {
    fn reception(&self) -> &Reception {
        &self.reception
    }
}

impl HostInterface for FromHost {
    fn interface(&self) -> &str {
        self.options.name.as_deref().unwrap_or_default()
    }

    fn kind(&self) -> TapKind {
        self.options.kind
    }

    fn queues(&self) -> Option<Opened<dyn TxQueue>> {
        let ToHostQueues { queues, capabilities } = self.to_host.get()?;
        let queues = queues.lock();
        let shared = |queue: &SharedQueue| Box::new(Shared(queue.clone())) as Box<dyn TxQueue>;
        Some(Opened::with(queues.iter().map(shared).collect(), capabilities.clone()))
    }
}

impl FromHost {
    /// Whether `old` has the interface that this element would create.
    fn can_inherit(&self, old: &Self) -> bool {
        self.options == old.options && self.reception.can_inherit(&old.reception)
    }

    fn has_room(&self, router: &Router) -> bool {
        let mut room = self.room.get().into_iter().flatten();
        room.all(|room| !room.is_bounded() || room.active(router))
    }

    /// Takes the tasks off the schedule until there is room downstream.
    fn rest(&self, cx: &Context) {
        let room = self.room.get().into_iter().flatten();
        for (task, room) in self.reception.tasks().iter().zip(room) {
            room.rest(task, cx.router());
        }
    }
}

/// A handle to a queue that several elements share.
struct Shared(SharedQueue);

type SharedQueue = Arc<Lock<Box<dyn TxQueue>>>;

impl TxQueue for Shared {
    fn transmit(&mut self, batch: &mut Batch) -> std::io::Result<usize> {
        self.0.lock().transmit(batch)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.lock().flush()
    }

    fn counts(&self) -> QueueCounts {
        self.0.lock().counts()
    }
}

/// Sets the header annotations of a packet, and its destination annotation.
fn annotate(packet: &mut Packet, kind: TapKind) {
    const IPV4_DESTINATION: usize = 16;
    let link_type = match kind {
        TapKind::Tap => LinkType::ETHER,
        TapKind::Tun => {
            packet.clear_mac_header();
            LinkType::IP
        }
    };
    if !force_ip(packet, link_type) {
        return;
    }
    let header = packet.network_data().filter(|header| header.first().is_some_and(|b| b >> 4 == 4));
    let address = header.and_then(|header| header.get(IPV4_DESTINATION..)?.first_chunk::<4>());
    if let Some(address) = address.map(|octets| Ipv4Addr::from(*octets)) {
        packet.set_dst_ip(address);
    }
}

/// Reads TYPE.
fn kind(args: &mut Args<'_>) -> TapKind {
    let kind: Option<Word> = args.optional_keyword("TYPE");
    match kind.as_ref().map(Word::as_str) {
        None | Some("ETHER") => TapKind::Tap,
        Some("IP") => TapKind::Tun,
        Some(_) => {
            args.error("TYPE", "TYPE must be ETHER or IP");
            TapKind::Tap
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::testing::Rig;
    use millrace_io::memory::End;

    use super::*;
    use crate::devices::interface::test_rig;

    fn rig(arguments: &str) -> (Rig, End) {
        test_rig::rig("fake", &format!("FromHost(fake, {arguments})"), 0, 1)
    }

    #[test]
    fn packets_have_header_and_destination_annotations() {
        let ip = [&[0x45, 0, 0, 20][..], &[0; 12], &[10, 0, 0, 9]].concat();
        let frame = [&[0; 12][..], &[8, 0], &ip].concat();
        for (arguments, bytes, network) in
            [("10.0.0.1/8", &frame, Some(14)), ("PREFIX 10.0.0.1/8, TYPE IP", &ip, Some(0))]
        {
            let (mut rig, machine) = rig(arguments);
            machine.send(Packet::from_bytes(bytes).unwrap()).unwrap();
            machine.send(Packet::from_bytes(&[1; 60]).unwrap()).unwrap();
            let out = rig.pass(Timestamp::ZERO).remove(0);
            assert_eq!(out[0].network_offset(), network);
            assert_eq!(out[0].dst_ip(), Ipv4Addr::new(10, 0, 0, 9));
            assert_eq!((out.len(), out[1].network_offset()), (2, None));
            for (handler, value) in [("dev_name", "fake"), ("count", "2"), ("signal", "true")] {
                assert_eq!(rig.read(handler).unwrap(), value, "{handler}");
            }
        }
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in [
            "FromHost",
            "FromHost(\"\")",
            "FromHost(fake, 10.0.0.1)",
            "FromHost(fake, 10.0.0.1/24, GATEWAY 10.0.1.1)",
            "FromHost(fake, TYPE FDDI)",
            "FromHost(fake, TYPE IP, ETHER 2:0:0:0:0:1)",
        ] {
            assert!(Rig::new(bad, 0, 1).is_err(), "{bad}");
        }
        assert!(Rig::new("ToHost(fake)", 1, 0).is_err(), "without FromHost");
    }
}
