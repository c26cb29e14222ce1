//! Shared parts of KernelTap and KernelTun: an interface of the machine, and its packets in both
//! directions.

use std::marker::PhantomData;
use std::sync::OnceLock;

use millrace_core::args::Kind;
use millrace_core::element::Receiving;
use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_core::stats::MAX_THREADS;
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, Handlers, Init, Packet, Reason, Refused, Router,
    Setup,
};
use millrace_io::pcap::LinkType;
use millrace_io::tap::{Tap, TapKind, TapOptions};
use millrace_io::{RxOptions, TxOptions};

use super::backend::Source;
use super::force_ip::force_ip;
use super::receive::{self, Reception};
use super::transmit::{self, Transmission};

/// A class of elements that have such an interface.
pub(crate) trait TapClass: Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;

    /// What the interface carries, unless the argument TAP says otherwise.
    const KIND: TapKind;
}

/// An element of such a class.
pub(crate) struct TapElement<C>(TapPort, PhantomData<C>);

impl<C: TapClass> Element for TapElement<C> {
    const CLASS: Class = C::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Ok(Self(TapPort::configure(setup, C::KIND)?, PhantomData))
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let predecessor = init.predecessor::<Self>();
        self.0.initialize(init, predecessor.as_deref().map(|old| &old.0))
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.0.prepare(cx, batch);
        self.0.transmission.push(cx, batch);
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.0.run(cx)
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.0.transmission.run_timer();
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("dev_name", |e, _| e.0.name.get().cloned().unwrap_or_default());
        handlers.read("packets", |e, _| e.0.reception.received());
        handlers.read("sent", |e, _| e.0.transmission.sent());
        handlers.read("segmented", |e, _| e.0.reception.counts().segmented);
        handlers.read("queues", |e, _| e.0.reception.open_queues());
        handlers.read("home_thread", |e, _| e.0.reception.home_threads());
    }

    fn held(&self) -> usize {
        self.0.transmission.held()
    }

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        self.0.take_state(&old.0, init);
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        self.0.reception.cleanup();
        self.0.transmission.cleanup()
    }
}

/// An element's end of the interface.
struct TapPort {
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
    fn configure(setup: &mut Setup<'_>, kind: TapKind) -> Result<Self, Failed> {
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
    fn new(setup: &mut Setup<'_>, options: TapOptions, burst: usize, receiving: Receiving) -> Self {
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

    /// Creates the interface. If `predecessor`, the port that this one is to replace, has the same one, this waits until it
    /// [takes](Self::take_state) it over.
    fn initialize(&self, init: &Init<'_>, predecessor: Option<&Self>) -> Result<(), Refused> {
        if predecessor.is_some_and(|old| self.can_inherit(old)) {
            return Ok(());
        }
        let queues = self.reception.wanted_queues().max(1);
        let options = TapOptions { queues, ..self.options.clone() };
        let opened = Source::of(init.service()).open_tap(&options);
        let Tap { name, rx, tx } = opened.map_err(|error| Refused(error.to_string()))?;
        // An element is initialised once.
        let _ = self.name.set(name);
        self.reception.start(init, rx)?;
        self.transmission.start(init, tx)
    }

    fn can_inherit(&self, old: &Self) -> bool {
        self.options == old.options && self.reception.can_inherit(&old.reception)
    }

    /// Takes over the interface of the port that this one replaces, if it is the same one, and the packets that wait
    /// for room in it. Call this when the threads of `old` have ended.
    fn take_state(&self, old: &Self, init: &Init<'_>) {
        if self.name.get().is_some() || !self.can_inherit(old) {
            return self.transmission.take_state(&old.transmission);
        }
        // It was not set.
        let _ = old.name.get().map(|name| self.name.set(name.clone()));
        self.reception.inherit(&old.reception, init);
        if let Err(Refused(why)) = self.transmission.inherit(&old.transmission, init) {
            init.router().chatter(&format!("{}: {why}", init.name()));
        }
    }

    /// Emits the packets that the running task receives, or transmits those that it pulls.
    fn run(&self, cx: &mut Context) -> bool {
        // The pulling task is the first one.
        if cx.index() == 0 {
            return self.transmission.run(cx, |cx, batch| self.prepare(cx, batch));
        }
        self.reception.run(cx, |cx, batch| {
            if self.options.kind == TapKind::Tun {
                sort_out(cx, batch);
            }
            cx.push_batch(0, batch);
        })
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
