//! Shared parts of KernelTap and KernelTun: an interface of the machine, and its packets in both
//! directions.

use std::sync::OnceLock;

use millrace_core::args::Kind;
use millrace_core::element::Receiving;
use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_core::stats::MAX_THREADS;
use millrace_core::{
    Args, Batch, Context, Element, Failed, Handlers, Init, Packet, Reason, Refused, Setup,
};
use millrace_io::pcap::LinkType;
use millrace_io::tap::{Tap, TapKind, TapOptions};
use millrace_io::{RxOptions, TxOptions};

use super::backend::Source;
use super::force_ip::force_ip;
use super::receive::{self, Reception};
use super::transmit::{self, Transmission};

/// An element that has such an interface.
pub(crate) trait HasTap: Element {
    /// Its interface.
    fn port(&self) -> &TapPort;
}

/// An element's end of the interface.
pub(crate) struct TapPort {
    options: TapOptions,
    mtu: usize,
    reception: Reception,
    transmission: Transmission,
    /// The name; set when the interface exists.
    name: OnceLock<String>,
}

/// The element's default MTU, which is also the kernel's.
const DEFAULT_MTU: usize = 1500;
/// Length of an Ethernet header.
const ETHERNET_HEADER: usize = 14;
/// The minimum MTU: an IP header.
const SHORTEST_MTU: u32 = 20;

impl TapPort {
    /// Reads the arguments, which are the same for both kinds. TAP can turn a KernelTun into a
    /// KernelTap and vice versa.
    pub(crate) fn configure(setup: &mut Setup<'_>, kind: TapKind) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let ipv4: Ipv4Prefix = args.mandatory("ADDR");
        let gateway: Option<std::net::Ipv4Addr> = args.optional("GATEWAY");
        let gateway = gateway.filter(|gateway| !gateway.is_unspecified());
        let kind = match args.keyword("TAP", kind == TapKind::Tap) {
            true => TapKind::Tap,
            false => TapKind::Tun,
        };
        let headroom = args.in_range("HEADROOM", Kind::Keyword, 0..=8190u32).unwrap_or(128);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let ether: Option<EtherAddress> = match kind {
            TapKind::Tap => args.optional_keyword("ETHER"),
            TapKind::Tun => {
                let reason = "a TUN interface has no Ethernet address";
                args.ignored::<EtherAddress>("ETHER", Kind::Keyword, reason);
                None
            }
        };
        args.ignored::<bool>(
            "IGNORE_QUEUE_OVERFLOWS",
            Kind::Keyword,
            "errors of one kind are always reported only once",
        );
        let mtu = args.in_range("MTU", Kind::Keyword, SHORTEST_MTU..=65_521);
        let name = device_name(args);
        let receiving = receiving(args);
        if gateway.is_some_and(|gateway| !ipv4.contains(gateway)) {
            args.error("GATEWAY", format!("GATEWAY must be in the network {}", ipv4.truncated()));
        }
        args.complete()?;
        let options = TapOptions {
            kind,
            name,
            ipv4: Some(ipv4),
            gateway,
            ether: match kind {
                TapKind::Tap => Some(ether.unwrap_or(DEFAULT_ETHER)),
                TapKind::Tun => None,
            },
            mtu: mtu.map(|mtu| mtu as usize),
            headroom: headroom as usize,
            ..TapOptions::default()
        };
        Ok(Self::new(setup, options, burst.map_or(64, |burst| burst as usize), receiving))
    }

    /// Makes the port of an interface.
    pub(crate) fn new(
        setup: &mut Setup<'_>,
        options: TapOptions,
        burst: usize,
        receiving: Receiving,
    ) -> Self {
        // Until the kernel has named the interface, it goes by the name of the element.
        let device = options.name.clone().unwrap_or_else(|| setup.name().to_owned());
        let outgoing = transmit::Wanted {
            options: TxOptions::default(),
            max_queues: None,
            burst,
            blocking: false,
            pad: false,
            debug: false,
            optional: false,
        };
        let incoming = receive::Wanted {
            options: RxOptions::default(),
            burst,
            active: true,
            optional: false,
            receiving,
        };
        Self {
            mtu: options.mtu.unwrap_or(DEFAULT_MTU),
            options,
            transmission: Transmission::configure(setup, device.clone(), outgoing)
                .without_outputs(),
            reception: Reception::configure(setup, device, incoming),
            name: OnceLock::new(),
        }
    }

    /// Creates the interface.
    pub(crate) fn initialize(&self, init: &Init<'_>) -> Result<(), Refused> {
        let queues = self.reception.wanted_queues().max(1);
        let options = TapOptions { queues, ..self.options.clone() };
        let opened = Source::of(init.service()).open_tap(&options);
        let Tap { name, rx, tx } = opened.map_err(|error| Refused(error.to_string()))?;
        // An element is initialised once.
        let _ = self.name.set(name);
        self.reception.start(init, rx)?;
        self.transmission.start(init, tx)
    }

    /// Emits the packets that the running task receives, or transmits those that it pulls.
    pub(crate) fn run(&self, cx: &mut Context) -> bool {
        // The pulling task is the first one.
        if cx.index() == 0 {
            return self.transmission.run_with(cx, |cx, batch| self.prepare(cx, batch));
        }
        self.reception.run(cx, |cx, batch| {
            if self.options.kind == TapKind::Tun {
                sort_out(cx, batch);
            }
            cx.push_batch(0, batch);
        })
    }

    pub(crate) fn push(&self, cx: &mut Context, batch: &mut Batch) {
        self.prepare(cx, batch);
        self.transmission.push(cx, batch);
    }

    pub(crate) fn run_timer(&self) {
        self.transmission.run_timer();
    }

    pub(crate) fn held(&self) -> usize {
        self.transmission.held()
    }

    pub(crate) fn cleanup(&self) -> Result<(), Refused> {
        self.reception.cleanup();
        self.transmission.cleanup()
    }

    /// Drops the packets that the interface cannot accept, and strips the others to what it
    /// accepts.
    fn prepare(&self, cx: &mut Context, batch: &mut Batch) {
        let (kind, mtu) = (self.options.kind, self.mtu);
        batch.map_filter(|mut packet| {
            let reason = match kind {
                TapKind::Tap if packet.len() < ETHERNET_HEADER => Some(Reason::Truncated),
                TapKind::Tap => (packet.len() > mtu + ETHERNET_HEADER).then_some(Reason::TooBig),
                TapKind::Tun => strip_to_ip(&mut packet).err(),
            };
            let reason = reason
                .or_else(|| (kind == TapKind::Tun && packet.len() > mtu).then_some(Reason::TooBig));
            match reason {
                Some(reason) => cx.drop(packet, reason),
                None => Some(packet),
            }
        });
    }
}

/// KernelTap's default Ethernet address, as in Click's manual.
const DEFAULT_ETHER: EtherAddress = EtherAddress([0, 1, 2, 3, 4, 5]);

/// Strips everything in front of the IP header.
fn strip_to_ip(packet: &mut Packet) -> Result<(), Reason> {
    const IPV4_HEADER: usize = 20;
    let network = packet.network_header().ok_or(Reason::NoHeader)?;
    let in_place = match usize::try_from(network) {
        Ok(behind) => packet.strip(behind),
        Err(_) => packet.unstrip(network.unsigned_abs()),
    };
    if !in_place || packet.len() < IPV4_HEADER {
        return Err(Reason::NoHeader);
    }
    match packet.data().first().map(|first| first >> 4) {
        Some(4 | 6) => Ok(()),
        _ => Err(Reason::BadVersion),
    }
}

/// Sends packets that are not IP to output 1; sets the header annotations of the others.
fn sort_out(cx: &mut Context, batch: &mut Batch) {
    batch.map_filter(|mut packet| {
        packet.clear_mac_header();
        if force_ip(&mut packet, LinkType::IP) {
            return Some(packet);
        }
        cx.push_or_drop(1, packet, Reason::Filtered);
        None
    });
}

/// Reads DEVNAME, or DEV_NAME, its old name.
pub(crate) fn device_name(args: &mut Args<'_>) -> Option<String> {
    let old: Option<String> = args.optional_keyword("DEV_NAME");
    args.optional_keyword("DEVNAME").or(old)
}

/// Reads N_QUEUES, MAXTHREADS and THREADOFFSET.
pub(crate) fn receiving(args: &mut Args<'_>) -> Receiving {
    /// `MAX_TAP_QUEUES` of the kernel.
    const MAX_QUEUES: u32 = 256;
    let queues = args.in_range("N_QUEUES", Kind::Keyword, 1..=MAX_QUEUES);
    let threads = args.in_range("MAXTHREADS", Kind::Keyword, 1..=MAX_THREADS as u32);
    let offset = args.in_range("THREADOFFSET", Kind::Keyword, 0..=MAX_THREADS as u32 - 1);
    Receiving {
        queues: queues.map(|queues| queues as usize),
        max_threads: threads.map(|threads| threads as usize),
        thread_offset: offset.map(|offset| offset as usize),
        ..Receiving::default()
    }
}

/// Registers the handlers that both kinds have.
pub(crate) fn handlers<E: HasTap>(handlers: &mut Handlers<E>) {
    handlers.read("dev_name", |e, _| e.port().name.get().cloned().unwrap_or_default());
    handlers.read("packets", |e, _| e.port().reception.received());
    handlers.read("sent", |e, _| e.port().transmission.sent());
    handlers.read("segmented", |e, _| e.port().reception.counts().segmented);
    handlers.read("queues", |e, _| e.port().reception.open_queues());
    handlers.read("home_thread", |e, _| e.port().reception.home_threads());
}

/// The methods of an element whose field is a [`TapPort`].
macro_rules! methods {
    () => {
        fn initialize(
            &self,
            init: &mut ::millrace_core::Init<'_>,
        ) -> Result<(), ::millrace_core::Refused> {
            self.0.initialize(init)
        }

        fn push(
            &self,
            cx: &mut ::millrace_core::Context,
            (): &mut (),
            _port: usize,
            batch: &mut ::millrace_core::Batch,
        ) {
            self.0.push(cx, batch);
        }

        fn run_task(&self, cx: &mut ::millrace_core::Context, (): &mut ()) -> bool {
            self.0.run(cx)
        }

        fn run_timer(&self, _cx: &mut ::millrace_core::Context, (): &mut ()) {
            self.0.run_timer();
        }

        fn held(&self) -> usize {
            self.0.held()
        }

        fn handlers(handlers: &mut ::millrace_core::Handlers<Self>) {
            tap_port::handlers(handlers);
        }

        fn cleanup(
            &self,
            _router: &::millrace_core::Router,
        ) -> Result<(), ::millrace_core::Refused> {
            self.0.cleanup()
        }
    };
}

pub(crate) use methods;
