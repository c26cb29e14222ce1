//! AF_XDP sockets: packets go between an interface and our own packet memory, bypassing the kernel's network
//! stack.
//!
//! Source: `Documentation/networking/af_xdp.rst` of the kernel.
//!
//! # How it works
//! A program of a few instructions runs in the interface's driver, or where the kernel begins to process a
//! packet. It sends each selected packet to the socket of the queue that it arrived on, and leaves the others
//! to the kernel. A socket has four rings. We lend empty packets through the *fill* ring and get them back,
//! received, through the *receive* ring; we lend packets through the *transmit* ring and get them back
//! through the *completion* ring.
//!
//! **All sockets share the packet arena itself as their memory** (`frames.rs`): a received packet is a
//! [`Packet`](millrace_core::Packet) at once, and this program copies no packet that goes from one interface
//! to another. The arena's slots are an odd number of cache lines long, so the memory is registered with
//! unaligned chunks. Packets that the kernel has are recorded, and only those are ever taken back from it.
//!
//! - With *zero copy* the device itself reads and writes the arena. Drivers of cards can do this on huge
//!   pages; otherwise the kernel copies each packet once in each direction (*copy mode*), which is reported.
//! - A shared packet is transmitted in place and kept until the kernel returns it.
//! - A packet that is not in the memory (in a jumbo slot, on the heap, on another NUMA node) is copied on
//!   transmit, and so is a received packet that occupied several slots; both are counted.
//!
//! # Changes to the machine
//! The program, promiscuous mode, the number of queues and other settings are set for as long as the queues
//! are open. The program and promiscuous mode end with the process, however it ends.
//!
//! # Packets that the kernel has not finished
//! See `offload/partial.rs`: there is no information about a packet besides its bytes. A neighbour on the
//! same machine leaves checksums to its virtual interface; such packets are recognised by their sum and
//! finished. If a program runs in the driver of a virtual Ethernet pair, the kernel itself prevents the other
//! end from sending segments beyond the MTU; in generic mode they arrive and are cut here (only TCP). VLAN
//! tags that a neighbour's kernel keeps outside the packet are lost: `ethtool -K INTERFACE txvlan off` on its
//! side helps.

mod device;
mod frames;
mod line;
mod port;
mod program;
mod receive;
mod ring;
mod socket;
mod sys;
mod take;
mod transmit;
mod watch;

use std::io;
use std::sync::Arc;

use millrace_core::Need;
use millrace_core::net::{EtherAddress, Ipv4Prefix};

use device::Device;
use frames::HEADROOM;
use line::Line;
use port::{AttachError, Port, Registry};
use program::Selection;
use receive::{Finish, Receiver};
use socket::{Socket, Wish};
use transmit::Transmitter;

use crate::af_packet::{AfPacket, is_down};
use crate::method::{Method, XdpHook, XdpOptions};
use crate::offload::Finisher;
use crate::options::{RxOptions, Spread, TxOptions};
use crate::queue::{Backend, Capabilities, DeviceError, DeviceFacts, Opened, RxQueue, TxQueue};
use crate::reopening::Reopening;

/// Receives from and transmits to the machine's interfaces through AF_XDP sockets.
///
/// In this process, all receiving from and transmitting to queue `n` of a device uses one socket. A queue may
/// be opened twice, for example when one configuration takes over from another; then each gets some of its
/// packets. Needs `CAP_NET_ADMIN`, `CAP_NET_RAW`, `CAP_BPF` and `CAP_IPC_LOCK`, which root has, and Linux
/// 5.11.
///
/// # Resource usage
/// The whole arena of standard slots is locked in memory. Each queue lends the kernel up to 2,048 packets of
/// it to receive into, twice as many with zero copy; all queues of a device together lend at most a quarter
/// of the arena.
#[derive(Clone, Copy, Debug, Default)]
pub struct AfXdp;

/// The default number of entries of the receive and the transmit ring.
const DESCRIPTORS: usize = 2048;

impl Backend for AfXdp {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        refuse(device, options)?;
        let xdp = xdp_options(&options.method);
        let mut registry = Registry::lock();
        let port = usable(&mut registry, device)?;
        let mut changes = Vec::new();
        let found = choose_queues(&port, device, options, &xdp, &mut changes)?;
        let opening = Opening {
            device: device.to_owned(),
            hook: xdp.hook,
            selection: Selection { only: xdp.only.clone(), except: xdp.except.clone() },
            promiscuous: options.promiscuous,
            wish: Wish {
                queue: 0,
                of_queues: found.iter().map(Vec::len).sum(),
                descriptors: descriptors(device, options.descriptors)?,
                zero_copy: xdp.zero_copy,
                busy_poll: xdp.busy_poll,
                node: options.numa_node.or_else(|| port.device.numa_node()),
            },
        };
        let finish = Finish {
            finisher: Finisher { headroom: HEADROOM, snap_length: options.snap_length },
            ether: port.device.ether(),
            may_be_unfinished: port.may_be_unfinished(),
        };
        let mut zero_copy = true;
        let mut queues: Vec<Box<dyn RxQueue>> = Vec::new();
        for queues_of_one in found {
            let lines = opening.lines(&port, &queues_of_one, &mut changes)?;
            zero_copy &= lines.iter().all(|line| line.socket.mode.zero_copy);
            let again = opening.clone();
            let reopening = Reopening::new(move || again.lines_again(&queues_of_one).ok());
            let receiver = Receiver::new(lines, reopening, finish, xdp.busy_poll.is_some())
                .map_err(|source| DeviceError::refused(device, "watch the queue", source))?;
            queues.push(Box::new(receiver));
        }
        if options.promiscuous {
            changes.push("promiscuous mode is on while the router runs".to_owned());
        }
        announce_port(&port, device, zero_copy, &mut changes);
        Ok(opened(&port, queues, zero_copy, changes))
    }

    fn open_tx(
        &self,
        device: &str,
        options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        let xdp = xdp_options(&options.method);
        let mut registry = Registry::lock();
        let port = usable(&mut registry, device)?;
        let first = options.queues.first;
        let (_, has) = port.device.queues();
        if first >= has {
            return Err(DeviceError::unsupported(
                device,
                format!("there is no transmit queue {first}: it has {has}"),
            ));
        }
        let wish = Wish {
            queue: 0,
            of_queues: options.queues.count,
            descriptors: descriptors(device, options.descriptors)?,
            zero_copy: xdp.zero_copy,
            busy_poll: xdp.busy_poll,
            node: options.numa_node.or_else(|| port.device.numa_node()),
        };
        let mut changes = Vec::new();
        let mut zero_copy = true;
        let mut queues: Vec<Box<dyn TxQueue>> = Vec::new();
        let may_be_direct = xdp.hook != XdpHook::Generic && xdp.zero_copy != Some(false);
        let attachment =
            if port.is_hardware && may_be_direct { port.attach_to_transmit() } else { None };
        let in_driver = attachment.is_some();
        if in_driver && port.is_idle() {
            changes.push(
                "an XDP program that leaves received packets to the kernel runs in the driver \
                 while the router runs, because zero copy needs it"
                    .to_owned(),
            );
        }
        for queue in first..has.min(first.saturating_add(options.queues.count)) {
            let wish = Wish { queue: queue as u32, ..wish };
            let is_new = port.is_idle();
            let socket = port
                .socket(&wish, in_driver)
                .map_err(|source| DeviceError::refused(device, "open an AF_XDP socket", source))?;
            if is_new {
                announce_port(&port, device, socket.mode.zero_copy, &mut changes);
            }
            changes.extend(ring_note(&socket, &wish));
            zero_copy &= socket.mode.zero_copy;
            let name = device.to_owned();
            let reopening = Reopening::new(move || {
                let port = Registry::lock().port(&name).ok()?;
                let attachment = if in_driver { port.attach_to_transmit() } else { None };
                Some((port.socket(&wish, attachment.is_some()).ok()?, attachment))
            });
            queues.push(Box::new(Transmitter::new((socket, attachment.clone()), reopening)));
        }
        Ok(opened(&port, queues, zero_copy, changes))
    }

    fn facts(&self, device: &str, _method: &Method) -> DeviceFacts {
        let Ok(device) = Device::new(device) else { return DeviceFacts::default() };
        let (receive, transmit) = device.queues();
        DeviceFacts {
            rx_queues: Some(receive),
            tx_queues: Some(transmit),
            numa_node: device.numa_node(),
        }
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        AfPacket.ether(device)
    }

    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix> {
        AfPacket.ipv4(device)
    }
}

/// How to open queues, and to open them again when the interface comes back.
#[derive(Clone, Debug)]
struct Opening {
    device: String,
    hook: XdpHook,
    selection: Selection,
    promiscuous: bool,
    wish: Wish,
}

impl Opening {
    /// Takes the packets of these queues from the kernel.
    fn lines(
        &self,
        port: &Arc<Port>,
        queues: &[u32],
        changes: &mut Vec<String>,
    ) -> Result<Vec<Line>, DeviceError> {
        let step =
            |step: &'static str| move |source| DeviceError::refused(&self.device, step, source);
        let (attachment, refusal) =
            port.attach(self.hook, &self.selection).map_err(|error| self.not_attached(error))?;
        let in_driver = attachment.in_driver;
        if changes.iter().all(|change| !change.starts_with(TAKEN)) {
            changes.push(self.announcement(in_driver, refusal));
            if !in_driver {
                for undo in port.device.stop_merging() {
                    port.remember(undo);
                    changes.push("the kernel does not merge received packets".to_owned());
                }
            }
        }
        let mut lines = Vec::new();
        for &queue in queues {
            let wish = Wish { queue, ..self.wish };
            let own_device = in_driver && port.is_hardware;
            let socket = port.socket(&wish, own_device).map_err(step("open an AF_XDP socket"))?;
            changes.extend(ring_note(&socket, &wish));
            if *socket.receivers.lock() > 0 {
                changes.push(format!("queue {queue} is shared with another element"));
            }
            let promiscuous = if self.promiscuous {
                let index = port.device.index.cast_signed();
                Some(sys::promiscuous(index).map_err(step("set promiscuous mode"))?)
            } else {
                None
            };
            let line = Line::new(Arc::clone(&attachment), socket, promiscuous);
            lines.push(line.map_err(step("direct a queue to its socket"))?);
        }
        Ok(lines)
    }

    /// The same, after the interface has come back.
    fn lines_again(&self, queues: &[u32]) -> io::Result<Vec<Line>> {
        let port = Registry::lock().port(&self.device)?;
        let lines = self.lines(&port, queues, &mut Vec::new());
        lines.map_err(|error| io::Error::other(error.to_string()))
    }

    fn not_attached(&self, error: AttachError) -> DeviceError {
        let device = &self.device;
        match error {
            AttachError::Elsewhere => DeviceError::unsupported(
                device,
                "another element has attached an XDP program in the other mode",
            ),
            AttachError::TooManyRules => {
                DeviceError::unsupported(device, "more rules than a program can hold")
            }
            AttachError::Load(source) => {
                DeviceError::refused(device, "load an XDP program", source)
            }
            AttachError::Link(source)
                if matches!(source.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) =>
            {
                let what = format!(
                    "another XDP program is attached (‘ip link show {device}’ shows it, ‘ip link \
                     set {device} xdp off’ removes most kinds)"
                );
                DeviceError::unsupported(device, what)
            }
            AttachError::Link(source) => {
                DeviceError::refused(device, "attach an XDP program", source)
            }
        }
    }

    /// What happens to the packets, as text.
    fn announcement(&self, in_driver: bool, refusal: Option<String>) -> String {
        let hook = if in_driver {
            "in the driver (native mode)".to_owned()
        } else {
            let why = refusal.map_or(String::new(), |why| format!(": the driver says ‘{why}’"));
            format!("in the network stack (generic mode, slower{why})")
        };
        let list = |rules: &[crate::rule::Rule]| {
            rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let Selection { only, except } = &self.selection;
        let packets = match (only.is_empty(), except.is_empty()) {
            (true, true) => "all packets".to_owned(),
            (true, false) => format!("all packets but ‘{}’", list(except)),
            (false, true) => format!("packets that are ‘{}’", list(only)),
            (false, false) => format!("packets that are ‘{}’, not ‘{}’", list(only), list(except)),
        };
        format!("{TAKEN} {packets}, {hook}, while the router runs")
    }
}

/// The start of the message about the program.
const TAKEN: &str = "an XDP program takes from the kernel";

/// Rejects options that AF_XDP does not support.
fn refuse(device: &str, options: &RxOptions) -> Result<(), DeviceError> {
    if !options.filter.is_empty() {
        let what = "BPF_FILTER is for packet sockets; FromXDPDevice has ONLY and EXCEPT";
        return Err(DeviceError::unsupported(device, what));
    }
    if options.outbound {
        return Err(DeviceError::unsupported(
            device,
            "AF_XDP does not receive packets that the machine sends (OUTBOUND)",
        ));
    }
    if options.headroom > HEADROOM {
        let what = format!("AF_XDP leaves {HEADROOM} bytes before a packet (HEADROOM)");
        return Err(DeviceError::unsupported(device, what));
    }
    Ok(())
}

fn descriptors(device: &str, wanted: Option<usize>) -> Result<u32, DeviceError> {
    const RANGE: std::ops::RangeInclusive<usize> = 64..=32_768;
    let wanted = wanted.unwrap_or(DESCRIPTORS);
    if !RANGE.contains(&wanted) || !wanted.is_power_of_two() {
        let what = format!("{wanted} descriptors: AF_XDP takes a power of two from 64 to 32768");
        return Err(DeviceError::unsupported(device, what));
    }
    Ok(wanted as u32)
}

/// A note about the requested ring size, if there are rings already.
fn ring_note(socket: &Socket, wish: &Wish) -> Option<String> {
    let (queue, size) = (socket.queue, socket.descriptors);
    let what = || format!("queue {queue} is open already, with rings of {size} packets (NDESC)");
    (size != wish.descriptors).then(what)
}

fn xdp_options(method: &Method) -> XdpOptions {
    match method {
        Method::Xdp(options) => options.clone(),
        _ => XdpOptions::default(),
    }
}

/// The queues of the device that each of our queues stands for.
fn choose_queues(
    port: &Port,
    name: &str,
    options: &RxOptions,
    xdp: &XdpOptions,
    changes: &mut Vec<String>,
) -> Result<Vec<Vec<u32>>, DeviceError> {
    let device = &port.device;
    let first = options.queues.first;
    let wanted = first.saturating_add(options.queues.count.max(1));
    let (mut has, _) = device.queues();
    let set = |queues: usize, has: usize, changes: &mut Vec<String>| match device
        .set_receive_queues(u32::try_from(queues).unwrap_or(u32::MAX))
    {
        Ok(undo) => {
            port.remember(undo);
            changes.push(format!("it has {queues} queues while the router runs ({has} before)"));
            queues
        }
        Err(error) => {
            changes.push(format!(
                "it has {has} queues, which cannot be changed to {queues}: \
                                  {error}"
            ));
            has
        }
    };
    // Fewer queues are for cards alone: a cable's other end would do without the driver's hook.
    let may_shrink = first == 0 && xdp.every_queue && port.is_hardware && port.is_free_from(wanted);
    if wanted > has || wanted < has && may_shrink {
        has = set(wanted, has, changes);
    }
    if first >= has {
        let what = format!("there is no queue {first}: it has {has}");
        return Err(DeviceError::unsupported(name, what));
    }
    let count = has.min(wanted) - first;
    let mut queues: Vec<Vec<u32>> =
        (first..first + count).map(|queue| vec![queue as u32]).collect();
    if xdp.every_queue && first == 0 && has > count {
        changes.push(format!(
            "packets arrive by {has} queues of it, and all of them are received \
                              from"
        ));
        for queue in count..has {
            if let Some(of_one) = queues.get_mut(queue % count) {
                of_one.push(queue as u32);
            }
        }
    } else if has > count {
        changes.push(format!(
            "the kernel gets the packets of its other queues (it has {has}; {count} are used, \
             from {first} on)"
        ));
    }
    if options.spread == Spread::Symmetric && has > 1 {
        let undo = device.hash_symmetrically().map_err(|error| {
            let what = format!("it cannot distribute flows symmetrically over its queues: {error}");
            DeviceError::unsupported(name, what)
        })?;
        port.remember(undo);
        changes.push(
            "both directions of a flow arrive by the same queue while the router \
                      runs"
                .to_owned(),
        );
    }
    Ok(queues)
}

fn announce_port(port: &Port, name: &str, zero_copy: bool, changes: &mut Vec<String>) {
    changes.push(if zero_copy {
        "the device reads and writes packets in place (zero copy)".to_owned()
    } else {
        let driver = if port.driver.is_empty() { "this kind of device" } else { &port.driver };
        format!("THE KERNEL COPIES EACH PACKET (copy mode): no zero copy with {driver}")
    });
    if is_down(name) {
        changes.push("the interface is down: packets flow when it is up".to_owned());
    }
}

/// Queues of a port. The interface may go and come back, and settings are restored at the end.
fn opened<Q: ?Sized>(
    port: &Port,
    queues: Vec<Box<Q>>,
    zero_copy: bool,
    changes: Vec<String>,
) -> Opened<Q> {
    let needs = vec![Need::RawSockets, Need::NetworkSettings, Need::KernelPrograms];
    Opened { changes, needs, ..Opened::with(queues, capabilities(port, zero_copy)) }
}

fn capabilities(port: &Port, zero_copy: bool) -> Capabilities {
    Capabilities {
        backend: "AF_XDP",
        zero_copy,
        numa_node: port.device.numa_node(),
        max_length: Some(port.max_length()).filter(|length| *length != usize::MAX),
        ..Capabilities::default()
    }
}

/// The port of an interface, if its packets have Ethernet headers.
fn usable(registry: &mut Registry, device: &str) -> Result<Arc<Port>, DeviceError> {
    let port = registry.port(device).map_err(|source| match source.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => DeviceError::Unknown(device.to_owned()),
        _ => DeviceError::refused(device, "look the interface up", source),
    })?;
    match port.device.is_ethernet() {
        Ok(true) => Ok(port),
        Ok(false) => Err(DeviceError::unsupported(device, "its packets have no Ethernet header")),
        Err(source) => Err(DeviceError::refused(device, "ask for its type", source)),
    }
}
