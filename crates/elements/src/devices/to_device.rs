//! ToDevice - transmits packets through a network device
//!
//! # Synopsis
//! `ToDevice(DEVNAME [, keywords BURST, METHOD, BLOCKING, NO_PAD, DEBUG, QUEUE, MAXQUEUES])`
//!
//! # Description
//! Transmits packets, which must have Ethernet headers, through a device. By default DEVNAME is an
//! interface of the machine, which requires root or CAP_NET_RAW. The program can replace all
//! devices with other ones (`millrace run --lab`).
//!
//! With a pull input, it pulls packets whenever the device has room, so that a Queue in front of it
//! absorbs bursts. With a push input, it transmits at once; while the device has no room, it waits or,
//! without BLOCKING, drops the packets.
//!
//! # Arguments
//! - DEVNAME: the device. Positional, mandatory.
//! - BURST: maximum number of packets pulled at a time, 1 to 256. Default 64.
//! - METHOD: how to transmit. LINUX and PCAP are the same: packet sockets with rings shared with the
//!   kernel. SOCKET: packet sockets without rings. XDP. DPDK. NETMAP: the best method that the machine
//!   supports.
//! - BLOCKING: with a push input, whether to wait for room in the device. Default true.
//! - NO_PAD: whether to leave packets shorter than 60 bytes unpadded. Default true, because most cards
//!   pad them.
//! - DEBUG: whether to report when the device is full. Default false.
//! - QUEUE: the first device queue to transmit on. Default 0.
//! - MAXQUEUES: maximum number of queues to transmit on. By default each thread that reaches the
//!   element has a queue of its own; if the device has fewer queues, threads share them by lock.
//!
//! # Ports
//! One agnostic input. Two optional push outputs: transmitted packets leave by output 0, packets that
//! the device rejected by output 1.
//!
//! # Handlers
//! - `count` (read): packets transmitted. `reset_counts` (write): resets it to 0.
//! - `queues` (read): number of device queues in use.
//! - `lost` (read): packets that the device lost.
//! - `pulls` (read): number of pulls.
//! - `q` (read): whether packets are waiting for room in the device.
//! - `signal` (read): whether there may be packets to pull.
//! - `debug` (read, write): the value of DEBUG.
//! - `scheduled`, `home_thread` (read, write): its task, and the thread that runs it.
//!
//! # Drops
//! - transmit full: without BLOCKING, the device had no room; on virtual time, which stands still meanwhile, it had
//!   none for a quarter of a second, and from then on.
//! - device error: the device rejected the packet (it is longer than the MTU, or the device is down),
//!   and output 1 is not connected.
//! - stopped: the program stopped while the packet waited for room.
//!
//! # Example
//! ```click
//! FromDevice(eth0) -> Queue(1000) -> ToDevice(eth1);
//! ```
//!
//! # See also
//! FromDevice, ToDump, Queue

use millrace_core::{Class, Failed, Setup, register};

use super::interface::method;
use super::interface::transmit::{DeviceOutput, OutputClass, Transmission, Wanted};

/// The class; its manual is at the top of the file.
pub struct ToDevice;

register!(DeviceOutput<ToDevice>, "to_device.rs");

impl OutputClass for ToDevice {
    const CLASS: Class = Class::new("ToDevice", "1/0-2", "a/h");

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Transmission), Failed> {
        let args = &mut setup.args;
        let device: String = args.mandatory("DEVNAME");
        let mut wanted = Wanted::read(args);
        let method = method::configure(args, "METHOD");
        args.complete()?;
        wanted.options.method = method.unwrap_or_else(|| method::default(setup));
        Ok((Self, Transmission::configure(setup, device, wanted)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use millrace_core::Reason;
    use millrace_core::testing::Rig;
    use millrace_io::memory::{End, Interface};

    use crate::devices::interface::test_rig::rig_towards;

    fn rig(arguments: &str, outputs: usize, capacity: usize) -> (Rig, End) {
        let host = Interface { capacity, ..Interface::new("host") };
        let element = format!("ToDevice(eth0 {arguments})");
        rig_towards(host, "eth0", &element, 1, outputs)
    }

    fn arrived(far: &End) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| far.receive()).map(|packet| packet.data().to_vec()).collect()
    }

    #[test]
    fn transmits_what_is_pushed() {
        let (mut rig, far) = rig("", 0, 99);
        rig.push(0, &["a", "b"]);
        assert_eq!(arrived(&far), [b"a", b"b"]);
        assert_eq!((rig.read("count").unwrap(), rig.stats().consumed), ("2".to_owned(), 2));
        rig.write("reset_counts", "").unwrap();
        rig.push(0, &["c"]);
        assert_eq!(rig.read("count").unwrap(), "1");
        assert_eq!(arrived(&far), [b"c"]);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn transmitted_packets_leave_by_output_0() {
        let (mut rig, far) = rig(", NO_PAD false", 2, 99);
        let out = rig.push(0, &["a", "b"]);
        assert_eq!((out[0].len(), out[1].len()), (2, 0));
        let frames = arrived(&far);
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [60, 60]);
        assert_eq!(out[0], frames);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn drops_without_blocking_when_full() {
        let (mut rig, far) = rig(", BLOCKING false", 0, 2);
        rig.push(0, &["a", "b", "c"]);
        assert_eq!(rig.stats().drops, [(Reason::TransmitFull, 1)]);
        assert_eq!(arrived(&far), [b"a", b"b"]);
    }

    #[test]
    fn waits_again_on_virtual_time_once_there_was_room() {
        let (mut rig, far) = rig("", 0, 2);
        let mut push = |packets: &[&str]| {
            let start = Instant::now();
            rig.push(0, packets);
            start.elapsed() > Duration::from_millis(200)
        };
        assert!(push(&["a", "b", "c"]), "it waits for room");
        assert!(!push(&["d"]), "it has waited in vain");
        assert_eq!(arrived(&far), [b"a", b"b"]);
        assert!(!push(&["e", "f"]), "there is room");
        assert!(push(&["g"]), "it waits for room again");
        assert_eq!(rig.stats().drops, [(Reason::TransmitFull, 3)]);
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in [
            "ToDevice",
            "ToDevice(no-such-device)",
            "ToDevice(lo, METHOD DEVBPF)",
            "ToDevice(lo, MAXQUEUES 0)",
        ] {
            assert!(Rig::new(bad, 1, 0).is_err(), "{bad}");
        }
    }
}
