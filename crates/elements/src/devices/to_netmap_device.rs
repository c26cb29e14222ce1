//! ToNetmapDevice - transmits packets through a network interface, for FastClick's netmap configurations
//!
//! # Synopsis
//! `ToNetmapDevice(DEVNAME [, QUEUE, keywords N_QUEUES, BURST, BLOCKING, IQUEUE, MAXTHREADS, ACTIVE,
//! ALLOW_NONEXISTENT, VERBOSE])`
//!
//! # Description
//! Transmits packets, which must have Ethernet headers, by the fastest method that the machine supports
//! for the interface, like FromNetmapDevice: AF_XDP, or else packet sockets with rings. It reports at
//! startup which method it uses.
//!
//! # Arguments
//! - DEVNAME: the interface: `netmap:eth0`, `netmap:eth0-2` for its queue 2, or `eth0`. A port of a
//!   VALE switch, `vale0:eth1`, stands for the interface eth1. Positional, mandatory.
//! - QUEUE: the first queue to transmit on. Positional, default 0.
//! - N_QUEUES, MAXTHREADS: maximum number of queues to transmit on; -1, the default, for one for each
//!   thread that reaches the element.
//! - BURST: maximum number of packets pulled at a time, 1 to 256. Default 32.
//! - BLOCKING: with a push input, whether to wait for room in the device; otherwise packets are
//!   dropped. Default true.
//! - IQUEUE: minimum number of packets that the device holds, a power of two from 64 to 32768, at least
//!   twice BURST. Default 512.
//! - ACTIVE: must be true.
//! - ALLOW_NONEXISTENT: whether to run, and drop all packets, if the interface does not exist. Default
//!   false.
//! - VERBOSE: accepted without effect: the method is always reported.
//!
//! # Ports
//! One agnostic input. Two optional push outputs: transmitted packets leave by output 0, packets that
//! the device rejected by output 1.
//!
//! # Handlers
//! - `count` (read): packets transmitted. `reset_counts` (write): resets it to 0.
//! - `queues` (read): number of device queues in use.
//! - `lost` or `dropped` (read): packets that the device dropped.
//! - `pulls` (read): number of pulls.
//! - `q` (read): whether packets are waiting for room in the device.
//! - `signal` (read): whether there may be packets to pull.
//! - `debug` (read, write): whether to report when the device is full.
//! - `scheduled` (read, write), `home_thread` (read): its task.
//!
//! # Drops
//! - transmit full: without BLOCKING, the device had no room; on virtual time, which stands still meanwhile, it had
//!   none for a quarter of a second, and from then on.
//! - device error: the device rejected the packet (it is longer than the MTU, or the device is down or
//!   gone), and output 1 is not connected.
//! - stopped: the program stopped while the packet waited for room, or the device does not exist.
//!
//! # Example
//! ```click
//! FromNetmapDevice(netmap:eth0) -> ToNetmapDevice(netmap:eth1);
//! ```
//!
//! # See also
//! FromNetmapDevice, ToXDPDevice, ToDevice

use millrace_core::args::Kind;
use millrace_core::{Batch, Class, Failed, Handlers, Setup, register};
use millrace_io::{Method, Queues, TxOptions, XdpOptions};

use super::interface::netmap;
use super::interface::transmit::{DeviceOutput, OutputClass, Transmission, Wanted};

/// The class; its manual is at the top of the file.
pub struct ToNetmapDevice;

/// The default of IQUEUE, as in FastClick.
const WAITING: u32 = 512;

register!(DeviceOutput<ToNetmapDevice>, "to_netmap_device.rs");

impl OutputClass for ToNetmapDevice {
    const CLASS: Class = Class::new("ToNetmapDevice", "1/0-2", "a/h");

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Transmission), Failed> {
        let args = &mut setup.args;
        let port = netmap::port(args);
        let queue: Option<i32> = args.in_range("QUEUE", Kind::Positional, -1..=4095);
        let count: Option<i32> = args.in_range("N_QUEUES", Kind::Keyword, -1..=4096);
        let threads: Option<i32> = args.in_range("MAXTHREADS", Kind::Keyword, -1..=4096);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let burst = burst.unwrap_or(32);
        let blocking = args.keyword("BLOCKING", true);
        let waiting = args.in_range("IQUEUE", Kind::Keyword, 64..=32_768u32).unwrap_or(WAITING);
        if !waiting.is_power_of_two() || waiting < 2 * burst {
            args.error("IQUEUE", "IQUEUE must be a power of 2, and at least twice BURST");
        }
        if !args.keyword("ACTIVE", true) {
            args.error("ACTIVE", "ACTIVE: an element that is to transmit nothing is Discard");
        }
        let allow_nonexistent = args.keyword("ALLOW_NONEXISTENT", false);
        args.ignored::<u32>("VERBOSE", Kind::Keyword, "the method is always reported");
        args.complete()?;
        let named = queue.and_then(|queue| usize::try_from(queue).ok()).or(port.queue);
        let positive = |n: i32| usize::try_from(n).ok().filter(|n| *n > 0);
        let wanted = Wanted {
            options: TxOptions {
                method: Method::Best(XdpOptions::default()),
                queues: Queues { first: named.unwrap_or(0), ..Queues::default() },
                named: named.is_some(),
                descriptors: Some(waiting as usize),
                ..TxOptions::default()
            },
            max_queues: [count, threads].into_iter().flatten().filter_map(positive).min(),
            burst: burst as usize,
            blocking,
            pad: false,
            debug: false,
            optional: allow_nonexistent,
        };
        Ok((Self, Transmission::configure(setup, port.interface, wanted)))
    }

    fn handlers(handlers: &mut Handlers<DeviceOutput<Self>>) {
        handlers.read("dropped", |element, _| element.transmission.lost());
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    use crate::devices::interface::test_rig::{refuses, rig};

    #[test]
    fn transmits_what_is_pushed() {
        let element =
            "ToNetmapDevice(netmap:eth0-0, N_QUEUES -1, BURST 32, IQUEUE 1024, VERBOSE 2)";
        let (mut rig, far) = rig("eth0", element, 1, 0);
        rig.push(0, &["a", "b"]);
        assert_eq!(far.waiting(), 2);
        assert_eq!(
            (rig.read("count").unwrap(), rig.read("dropped").unwrap()),
            ("2".into(), "0".into())
        );
        assert!(rig.stats().balanced());
    }

    #[test]
    fn rejects_invalid_arguments() {
        let cases = [
            ("", "DEVNAME"),
            ("netmap:no-such-device", "no-such-device"),
            ("vale0", "switch"),
            ("netmap:lo, IQUEUE 100", "power of 2"),
            ("netmap:lo, BURST 64, IQUEUE 64", "twice BURST"),
            ("netmap:lo, ACTIVE false", "Discard"),
        ];
        refuses("ToNetmapDevice", 1, 0, &cases);
        let absent = "ToNetmapDevice(netmap:no-such-device, ALLOW_NONEXISTENT true)";
        let mut rig = Rig::new(absent, 1, 0).unwrap();
        rig.push(0, &["a"]);
        assert!(rig.stats().balanced());
    }
}
