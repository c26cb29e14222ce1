//! ToHost - sends packets to the machine through a virtual interface
//!
//! # Synopsis
//! `ToHost(DEVNAME [, keywords BURST])`
//!
//! # Description
//! Sends Ethernet frames to the machine's own network stack, as if they had arrived at the interface
//! DEVNAME. A FromHost in the same configuration must create this interface. If that FromHost has TYPE
//! IP, packets are IP packets.
//!
//! The machine accepts frames addressed to the interface's Ethernet address or to a group such as
//! broadcast, and among IP packets those to its own addresses, unless it forwards.
//!
//! # Arguments
//! - DEVNAME: the interface. Positional, mandatory.
//! - BURST: with a pull input, maximum number of packets pulled at a time, 1 to 256. Default 64.
//!
//! # Ports
//! One agnostic input.
//!
//! # Handlers
//! - `dev_name` (read): the interface's name.
//! - `drops` (read): packets dropped.
//! - `count` (read): packets sent. `reset_counts` (write): resets it to 0.
//! - `pulls` (read): number of pulls.
//! - `q` (read): whether packets are waiting.
//! - `lost` (read): packets that the machine lost, as far as it reports them.
//! - `queues` (read): number of queues.
//! - `signal` (read): whether there may be packets to pull.
//! - `debug` (read, write): whether to report when the machine has no room.
//! - `scheduled` (read, write), `home_thread` (read): its task.
//!
//! # Drops
//! - truncated: the packet has no complete Ethernet header.
//! - transmit full: the machine has no memory for it.
//! - device error: the interface is down, or the interface needs IP packets and this is not one.
//!
//! # Example
//! ```click
//! FromHost(fake, 192.0.2.1/24) -> Discard;
//! InfiniteSource(LIMIT 10) -> EtherEncap(0x0800, 2:0:0:0:0:2, 2:0:0:0:0:1) -> ToHost(fake);
//! ```
//!
//! # See also
//! FromHost, KernelTap, KernelTun

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::{
    Batch, Class, Context, Failed, Handlers, Init, Reason, Refused, Setup, register,
};
use millrace_io::TxOptions;
use millrace_io::tap::TapKind;

use super::interface::transmit::{DeviceOutput, OutputClass, Transmission, Wanted};
use crate::capability::HostInterface;

/// The class; its manual is at the top of the file.
pub struct ToHost {
    device: String,
    /// Whether packets must have an Ethernet header.
    ethernet: AtomicBool,
}

register!(DeviceOutput<ToHost>, "to_host.rs");

const ETHERNET_HEADER: usize = 14;

impl OutputClass for ToHost {
    const CLASS: Class = Class::new("ToHost", "1/0", "a/h").phase(1);

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Transmission), Failed> {
        let device: String = setup.args.mandatory("DEVNAME");
        let burst = setup.args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        setup.args.complete()?;
        let wanted = Wanted {
            options: TxOptions::default(),
            max_queues: None,
            burst: burst.map_or(64, |burst| burst as usize),
            blocking: false,
            pad: false,
            debug: false,
            optional: false,
        };
        let transmission = Transmission::configure(setup, device.clone(), wanted).without_outputs();
        Ok((Self { device, ethernet: true.into() }, transmission))
    }

    fn start(&self, transmission: &Transmission, init: &Init<'_>) -> Result<(), Refused> {
        let router = init.router();
        let mut all = router.all_offered::<dyn HostInterface>();
        let host = all.find(|(_, host)| host.interface() == self.device);
        let missing = || {
            Refused(format!("there is no FromHost({}) that has made this interface", self.device))
        };
        let (_, host) = host.ok_or_else(missing)?;
        self.ethernet.store(host.kind() == TapKind::Tap, Relaxed);
        transmission.start(init, host.queues().ok_or_else(missing)?)
    }

    fn prepare(&self, cx: &mut Context, batch: &mut Batch) {
        if !self.ethernet.load(Relaxed) {
            return;
        }
        batch.map_filter(|packet| match packet.len() < ETHERNET_HEADER {
            true => cx.drop(packet, Reason::Truncated),
            false => Some(packet),
        });
    }

    fn handlers(handlers: &mut Handlers<DeviceOutput<Self>>) {
        handlers.read("dev_name", |host, _| host.class.device.clone());
        handlers.read("drops", |_, call| {
            let stats = call.router().stats_of(call.element());
            stats.drops.iter().map(|(_, count)| count).sum::<u64>()
        });
    }
}
