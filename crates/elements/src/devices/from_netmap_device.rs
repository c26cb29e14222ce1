//! FromNetmapDevice - receives packets from a network interface, for FastClick's netmap configurations
//!
//! # Synopsis
//! `FromNetmapDevice(DEVNAME [, QUEUE, PROMISC, keywords N_QUEUES, BURST, MAXTHREADS, THREADOFFSET,
//! NUMA, ACTIVE, ALLOW_NONEXISTENT, VERBOSE, KEEPHAND, VLAN_FILTER, VLAN_STRIP, VLAN_EXTEND, LRO,
//! JUMBO])`
//!
//! # Description
//! Linux has no netmap of its own, and Millrace does not need it. So that FastClick's configurations
//! run unchanged, this element receives by the fastest method that the machine supports for the
//! interface: AF_XDP, as FromXDPDevice, or else packet sockets with rings, as FromDevice. It reports at
//! startup which method it uses.
//!
//! As with netmap, the kernel does not get the packets while the program runs.
//!
//! # Arguments
//! - DEVNAME: the interface: `netmap:eth0`, `netmap:eth0-2` for its queue 2 only, or `eth0`. A port of
//!   a VALE switch, `vale0:eth1`, stands for the interface eth1. Positional, mandatory.
//! - QUEUE: the first queue to receive from; -1, the default, for all of them. Positional.
//! - PROMISC: whether the interface also receives packets for other hosts. Positional, default false.
//! - N_QUEUES: number of queues to receive from. By default one for each thread that serves the
//!   interface, or one if QUEUE is given.
//! - BURST: maximum number of packets received from a queue at a time, 1 to 256. Default 32.
//! - MAXTHREADS, THREADOFFSET, NUMA: as in FromDevice.
//! - ACTIVE: whether it receives. Default true.
//! - ALLOW_NONEXISTENT: whether to run even if the interface does not exist. Default false.
//! - VERBOSE: accepted without effect: the method is always reported.
//! - KEEPHAND: accepted without effect: netmap itself is not used.
//! - VLAN_FILTER, VLAN_STRIP, VLAN_EXTEND, LRO, JUMBO: must be false.
//!
//! # Ports
//! One push output.
//!
//! # Handlers
//! - `count` (read): packets received. `reset_counts` (write): resets it to 0.
//! - `queues` (read): number of queues in use.
//! - `kernel_drops` or `dropped` (read): packets that the kernel dropped because they were not read in
//!   time.
//! - `segmented` (read): packets that were cut into several.
//! - `active` (read, write): whether it receives.
//! - `scheduled` (read, write), `home_thread` (read): its tasks, one for each receiving thread.
//!
//! # Drops
//! None of its own. `kernel_drops` counts packets lost before the element.
//!
//! # Example
//! ```click
//! FromNetmapDevice(netmap:eth0, PROMISC true) -> Counter -> ToNetmapDevice(netmap:eth1);
//! ```
//!
//! # See also
//! ToNetmapDevice, FromXDPDevice, FromDevice

use millrace_core::args::Kind;
use millrace_core::element::Receiving;
use millrace_core::{Batch, Class, Failed, Handlers, Setup, register};
use millrace_io::{Method, RxOptions, XdpOptions};

use super::interface::receive::{DeviceInput, InputClass, Reception, Wanted};
use super::interface::{method, netmap, threading};

/// The class; its manual is at the top of the file.
pub struct FromNetmapDevice;

register!(DeviceInput<FromNetmapDevice>, "from_netmap_device.rs");

impl InputClass for FromNetmapDevice {
    const CLASS: Class = Class::new("FromNetmapDevice", "0/1", "h/h");

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Reception), Failed> {
        let args = &mut setup.args;
        let port = netmap::port(args);
        let queue: Option<i32> = args.in_range("QUEUE", Kind::Positional, -1..=4095);
        let promiscuous = args.positional("PROMISC", false);
        netmap::refuse_others(args);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let active = args.keyword("ACTIVE", true);
        let allow_nonexistent = args.keyword("ALLOW_NONEXISTENT", false);
        args.ignored::<u32>("VERBOSE", Kind::Keyword, "the method is always reported");
        args.ignored::<bool>("KEEPHAND", Kind::Keyword, "netmap itself is not used");
        let first = queue.and_then(|queue| usize::try_from(queue).ok()).or(port.queue);
        let receiving = Receiving {
            first_queue: first.unwrap_or(0),
            queues: first.map(|_| 1),
            ..Receiving::default()
        };
        let receiving = threading::configure(args, receiving);
        args.complete()?;
        let best = Method::Best(XdpOptions::default());
        let options = RxOptions {
            method: method::with_queues(best, receiving.queues.is_some()),
            promiscuous,
            sniffer: false,
            ..RxOptions::default()
        };
        let wanted = Wanted {
            options,
            burst: burst.unwrap_or(32) as usize,
            active,
            optional: allow_nonexistent,
            receiving,
        };
        Ok((Self, Reception::configure(setup, port.interface, wanted)))
    }

    fn handlers(handlers: &mut Handlers<DeviceInput<Self>>) {
        handlers.read("dropped", |element, _| element.reception.counts().lost);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Timestamp};

    use crate::devices::interface::test_rig::{refuses, rig};

    #[test]
    fn emits_what_the_interface_receives() {
        for arguments in [
            "netmap:eth0",
            "netmap:eth0, -1, true",
            "netmap:eth0-0, PROMISC true, VERBOSE 2, KEEPHAND true",
            "vale0:eth0, 0, N_QUEUES 1, MAXTHREADS 1, THREADOFFSET 0, VLAN_STRIP false",
        ] {
            let element = format!("FromNetmapDevice({arguments})");
            let (mut rig, far) = rig("eth0", &element, 0, 1);
            far.send(Packet::from_bytes(b"packet").unwrap()).unwrap();
            assert_eq!(rig.pass(Timestamp::ZERO)[0].len(), 1, "{arguments}");
            assert_eq!(
                (rig.read("count").unwrap(), rig.read("dropped").unwrap()),
                ("1".into(), "0".into())
            );
            assert!(rig.stats().balanced());
        }
    }

    #[test]
    fn rejects_invalid_arguments() {
        let cases = [
            ("", "DEVNAME"),
            ("netmap:no-such-device", "no-such-device"),
            ("netmap:lo^", "a matter of netmap"),
            ("netmap:lo, LRO true", "ethtool"),
            ("netmap:lo, BURST 1024", "BURST"),
        ];
        refuses("FromNetmapDevice", 0, 1, &cases);
        let absent = "FromNetmapDevice(netmap:no-such-device, ALLOW_NONEXISTENT true)";
        assert!(Rig::new(absent, 0, 1).is_ok());
    }
}
