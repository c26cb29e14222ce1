//! KernelTun - creates a virtual IP interface (TUN) of the machine
//!
//! # Synopsis
//! `KernelTun(ADDR/MASK [, GATEWAY, keywords MTU, HEADROOM, BURST, DEVNAME, N_QUEUES, MAXTHREADS,
//! THREADOFFSET, ETHER, IGNORE_QUEUE_OVERFLOWS, TAP])`
//!
//! # Description
//! Like KernelTap, but for IP packets instead of Ethernet frames. It creates an interface of the
//! machine, pushes the IP packets that the machine sends through it, and the machine receives the
//! packets that arrive at the input. Packets to ADDR itself stay in the machine; packets to other
//! addresses of ADDR/MASK come here.
//!
//! Packets from the machine have their IP header annotations set. Packets to the machine must have
//! them: the element strips everything in front of the IP header.
//!
//! # Arguments
//! - ADDR/MASK: the machine's address on the interface and its network. Positional, mandatory.
//! - GATEWAY: a host of that network that the machine uses as its default gateway. Positional.
//! - MTU: the longest packet in either direction. Default 1500.
//! - HEADROOM: free bytes before each packet, at most 8190. Default 128.
//! - BURST: maximum number of packets at a time, 1 to 256. Default 64.
//! - DEVNAME (or DEV_NAME), N_QUEUES, MAXTHREADS, THREADOFFSET, IGNORE_QUEUE_OVERFLOWS: as in KernelTap,
//!   except that the kernel chooses the name `tun0`, `tun1`, ... by default.
//! - ETHER: accepted without effect: a TUN interface has no Ethernet address.
//! - TAP: if true, the element is a KernelTap. Default false.
//!
//! # Ports
//! One optional agnostic input. Two push outputs. The second is optional: it emits packets that are not
//! IP packets or have no complete IP header.
//!
//! # Handlers
//! - `dev_name` (read): the interface's name.
//! - `packets` (read): packets that the machine sent. `sent` (read): packets sent to the machine.
//! - `segmented` (read): packets that were cut into several.
//! - `queues` (read): number of queues.
//! - `home_thread` (read): the threads that receive.
//!
//! # Drops
//! - header not set: the packet has no IP header annotation, or less than an IP header follows there.
//! - bad version: its IP version is neither 4 nor 6.
//! - too big: the packet is longer than the MTU.
//! - filtered: the machine sent a packet that is not IP, and output 1 is not connected.
//! - transmit full: the machine has no memory for it.
//! - device error: the interface is down.
//!
//! # Example
//! ```click
//! tun :: KernelTun(192.0.2.1/24);
//! tun -> IPClassifier(icmp type echo) -> ICMPPingResponder -> tun;
//! ```
//!
//! # See also
//! KernelTap, FromHost, ToHost

use millrace_core::{Class, register};
use millrace_io::tap::TapKind;

use super::interface::tap_port::{TapClass, TapElement};

/// The class; its manual is at the top of the file.
pub struct KernelTun;

register!(TapElement<KernelTun>, "kernel_tun.rs");

impl TapClass for KernelTun {
    const CLASS: Class = Class::new("KernelTun", "0-1/1-2", "a/h").flow("x/y");
    const KIND: TapKind = TapKind::Tun;
}

#[cfg(test)]
mod tests {
    use millrace_core::{Packet, Reason, Timestamp};

    use crate::devices::interface::test_rig::rig;

    const ELEMENT: &str = "KernelTun(10.0.0.1/24, DEVNAME tun7, MTU 100)";

    fn ip(length: usize) -> Vec<u8> {
        let mut packet = vec![0; length];
        packet[0] = 0x45;
        packet[3] = length as u8;
        packet
    }

    #[test]
    fn ip_packets_have_header_annotations() {
        for outputs in [1, 2] {
            let (mut rig, machine) = rig("tun7", ELEMENT, 1, outputs);
            for bytes in [ip(60), vec![0; 60], ip(60)] {
                machine.send(Packet::from_bytes(&bytes).unwrap()).unwrap();
            }
            let out = rig.pass(Timestamp::ZERO);
            assert_eq!(out[0].len(), 2);
            let first = &out[0][0];
            assert_eq!((first.mac_header(), first.network_offset()), (None, Some(0)));
            match out.get(1) {
                Some(others) => assert_eq!(others.len(), 1),
                None => assert_eq!(rig.stats().drops, [(Reason::Filtered, 1)]),
            }
            assert!(rig.stats().balanced());
        }
    }

    #[test]
    fn the_machine_gets_only_the_ip_packet() {
        let (mut rig, machine) = rig("tun7", ELEMENT, 1, 1);
        let packet = |front: usize, bytes: &[u8], header: Option<isize>| {
            let mut packet = Packet::from_bytes(&[&vec![9; front], bytes].concat()).unwrap();
            header.into_iter().for_each(|at| packet.set_network_header(at, 20));
            packet
        };
        let mut stripped = packet(14, &ip(40), Some(14));
        assert!(stripped.strip(30));
        let mut odd = ip(40);
        odd[0] = 0x55;
        rig.push_packets(
            0,
            vec![
                packet(14, &ip(40), Some(14)),
                packet(0, &ip(100), Some(0)),
                stripped,
                packet(0, &ip(101), Some(0)),
                packet(0, &ip(40), None),
                packet(0, &odd, Some(0)),
                packet(30, &ip(40)[..19], Some(30)),
            ],
        );
        let got: Vec<_> =
            std::iter::from_fn(|| machine.receive()).map(|p| p.data().to_vec()).collect();
        assert_eq!(got, [ip(40), ip(100), ip(40)]);
        let mut drops = rig.stats().drops;
        drops.sort();
        assert_eq!(drops, [(Reason::BadVersion, 1), (Reason::TooBig, 1), (Reason::NoHeader, 2)]);
        assert!(rig.stats().balanced());
    }
}
