//! KernelTap - creates a virtual Ethernet interface (TAP) of the machine
//!
//! # Synopsis
//! `KernelTap(ADDR/MASK [, GATEWAY, keywords ETHER, MTU, HEADROOM, BURST, DEVNAME, N_QUEUES,
//! MAXTHREADS, THREADOFFSET, IGNORE_QUEUE_OVERFLOWS, TAP])`
//!
//! # Description
//! Creates an interface of the machine whose other end is this element: it pushes the Ethernet frames
//! that the machine sends through the interface, and the machine receives the frames that arrive at the
//! input. The interface gets the address ADDR, and the machine routes the network of MASK to it. When
//! the program ends, in whatever way, the interface disappears. It requires root or CAP_NET_ADMIN.
//!
//! The machine resolves its neighbours by ARP, and needs replies before it sends anything else. It
//! ignores frames that are not addressed to ETHER or to a group such as broadcast.
//!
//! The machine leaves segmentation and checksums to its interfaces. So the element cuts TCP segments
//! beyond the MTU and completes checksums in packets from the machine. In packets to the machine, it
//! merges consecutive segments of a connection.
//!
//! It has as many queues as threads, each with flows of its own. The machine sends a flow to the queue
//! from which it last received packets of that flow.
//!
//! # Arguments
//! - ADDR/MASK: the machine's address on the interface and its network. Positional, mandatory.
//! - GATEWAY: a host of that network that the machine uses as its default gateway. Positional.
//! - ETHER: the interface's Ethernet address. Default 00:01:02:03:04:05.
//! - MTU: the longest packet in either direction, without its Ethernet header. Default 1500.
//! - HEADROOM: free bytes before each packet, at most 8190. Default 128.
//! - BURST: maximum number of packets at a time, 1 to 256. Default 64.
//! - DEVNAME: the interface's name. By default the kernel chooses `tap0`, `tap1`, ... An existing
//!   interface, made by `ip tuntap add`, is used and left in place afterwards. DEV_NAME is an old name
//!   for this argument.
//! - N_QUEUES: number of queues, 1 to 256. Default: as many as threads.
//! - MAXTHREADS: maximum number of threads that receive from it. Default: all.
//! - THREADOFFSET: the first of them. Default: chosen by the plan.
//! - IGNORE_QUEUE_OVERFLOWS: accepted without effect: errors of one kind are always reported only once.
//! - TAP: if false, the element is a KernelTun. Default true.
//!
//! # Ports
//! One optional agnostic input. One push output; only KernelTun has a use for a second one.
//!
//! # Handlers
//! - `dev_name` (read): the interface's name.
//! - `packets` (read): packets that the machine sent. `sent` (read): packets sent to the machine.
//! - `segmented` (read): packets that were cut into several.
//! - `queues` (read): number of queues.
//! - `home_thread` (read): the threads that receive.
//!
//! # Drops
//! - truncated: the packet has no complete Ethernet header.
//! - too big: the packet is longer than the MTU.
//! - transmit full: the machine has no memory for it.
//! - device error: the interface is down.
//!
//! # Example
//! ```click
//! tap :: KernelTap(192.0.2.1/24, ETHER 02:00:00:00:00:01);
//! tap -> sent :: Classifier(12/0806 20/0001, -);
//! sent [0] -> ARPResponder(192.0.2.0/24 02:00:00:00:00:02) -> tap;
//! sent [1] -> Discard;
//! ```
//!
//! # See also
//! KernelTun, FromHost, ToHost

use millrace_core::{Class, register};
use millrace_io::tap::TapKind;

use super::interface::tap_port::{TapClass, TapElement};

/// The class; its manual is at the top of the file.
pub struct KernelTap;

register!(TapElement<KernelTap>, "kernel_tap.rs");

impl TapClass for KernelTap {
    const CLASS: Class = Class::new("KernelTap", "0-1/1-2", "a/h").flow("x/y");
    const KIND: TapKind = TapKind::Tap;
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason, Timestamp};

    use crate::devices::interface::test_rig::rig;

    #[test]
    fn frames_flow_in_both_directions() {
        let element = "KernelTap(10.0.0.1/24, 10.0.0.254, DEVNAME tap7, HEADROOM 64)";
        let (mut rig, machine) = rig("tap7", element, 1, 1);
        machine.send(Packet::from_bytes(&[7; 60]).unwrap()).unwrap();
        let out = rig.pass(Timestamp::ZERO);
        assert_eq!(out[0][0].data(), [7; 60]);
        assert_eq!(out[0][0].mac_header(), Some(0));
        let out = rig.push(0, &[&[1; 60][..], &[2; 13], &[3; 1514], &[4; 1515]]);
        assert!(out[0].is_empty());
        let lengths: Vec<_> = std::iter::from_fn(|| machine.receive()).map(|p| p.len()).collect();
        assert_eq!(lengths, [60, 1514]);
        assert_eq!(rig.stats().drops, [(Reason::Truncated, 1), (Reason::TooBig, 1)]);
        for (handler, value) in [("dev_name", "tap7"), ("packets", "1"), ("sent", "2")] {
            assert_eq!(rig.read(handler).unwrap(), value, "{handler}");
        }
        assert!(rig.stats().balanced());
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in [
            "KernelTap",
            "KernelTap(10.0.0.1)",
            "KernelTap(10.0.0.1/24, 10.0.1.1)",
            "KernelTap(10.0.0.1/24, MTU 19)",
            "KernelTap(10.0.0.1/24, BURST 0)",
            "KernelTap(10.0.0.1/24, N_QUEUES 257)",
            "KernelTap(10.0.0.1/24, HEADROOM 9000)",
        ] {
            assert!(Rig::new(bad, 1, 1).is_err(), "{bad}");
        }
    }
}
