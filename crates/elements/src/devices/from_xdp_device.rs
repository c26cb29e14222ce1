//! FromXDPDevice - receives packets from a network interface by AF_XDP, bypassing the kernel's network stack
//!
//! # Synopsis
//! `FromXDPDevice(DEVNAME [, PROMISC, keywords ONLY, EXCEPT, MODE, ZEROCOPY, BUSY_POLL, BURST, NDESC,
//! SNAPLEN, HEADROOM, TIMESTAMP, RSS_SYMMETRIC, ACTIVE, QUEUE, N_QUEUES, MAXTHREADS, THREADOFFSET,
//! NUMA, PROG, TRACE])`
//!
//! # Description
//! Takes the packets that the machine's interface DEVNAME receives away from the kernel, and emits
//! them. The packets go directly into this program's packet memory (AF_XDP), so that this program
//! copies nothing between here and a ToXDPDevice. It requires root. `FromDevice(DEVNAME, METHOD XDP)`
//! does the same with the options below at their defaults.
//!
//! Unlike FromDevice, it takes the packets away from the kernel, which does not see them any more: an
//! address of the interface is unreachable unless EXCEPT or ONLY leaves the kernel the packets that it
//! needs.
//!
//! A small XDP program in the kernel decides about each packet. It runs in the interface's driver if
//! the driver supports it (most cards' drivers, virtio and virtual Ethernet pairs do); otherwise it
//! runs in the kernel's generic receive path, which is slower. The drivers of many cards can also write
//! packets directly into the program's memory (zero copy, which needs huge pages); with other drivers
//! the kernel copies each packet once. The element reports at startup which mode it uses and everything
//! that it sets up. It undoes the setup at the end. However the program ends, the kernel gets its
//! packets again.
//!
//! A neighbour on the same machine may send unfinished packets: checksums are filled in, and with MODE
//! GENERIC TCP segments beyond the MTU are cut. VLAN tags that the neighbour's kernel keeps beside the
//! packet are lost (`ethtool -K lan txvlan off` on its side keeps them).
//!
//! The packet type annotation classifies the packet by its destination. The MAC header annotation is
//! set.
//!
//! # Arguments
//! - DEVNAME: the interface. Positional, mandatory.
//! - PROMISC: whether the interface also receives packets for other hosts. Positional, default false.
//! - ONLY: the packets to receive, as a list of rules separated by commas; all by default. A rule is a
//!   sequence of conditions that must all match: ip, ip6, arp, ether 0x88cc; icmp, icmp6, tcp, udp,
//!   sctp, proto 47; port 53, src port 53, dst port 6000-6063; net 10.0.0.0/8, src net ..., dst net
//!   .... Fragments other than the first have no ports, and the rules do not look behind IPv6 extension
//!   headers.
//! - EXCEPT: the packets among those that are left to the kernel, in the same format. Default none.
//! - MODE: where the XDP program runs: NATIVE (or drv) in the driver, GENERIC (or skb) in the network
//!   stack, AUTO in the driver if it can. Default AUTO.
//! - ZEROCOPY: true rejects devices that cannot write to the program's memory; false makes the kernel
//!   copy. By default whatever the device supports.
//! - BUSY_POLL: microseconds that each call polls the device instead of waiting for interrupts; 0, the
//!   default, disables polling. With polling, an idle thread takes only short naps.
//! - BURST: maximum number of packets received from a queue at a time, 1 to 256. Default 64.
//! - NDESC: packets that a queue's ring holds, a power of two from 64 to 32768. Default 2048.
//! - SNAPLEN: maximum number of bytes of a packet to keep, 14 to 65535. Default 65535.
//! - HEADROOM: required free bytes before each packet, at most 256, which is what is available.
//! - TIMESTAMP: whether packets are timestamped when they are read from the ring. Default true.
//! - RSS_SYMMETRIC: whether both directions of a connection arrive on the same queue; rejected if the
//!   device cannot do it. Default false.
//! - ACTIVE: whether it receives. Default true.
//! - QUEUE, N_QUEUES, MAXTHREADS, THREADOFFSET, NUMA: as in FromDevice. If neither QUEUE nor N_QUEUES
//!   is given, the element receives from all queues of the device: a card is configured to use as many
//!   queues as there are threads for it; with other devices a thread receives from several queues.
//!   Otherwise packets on other queues stay with the kernel.
//! - PROG, TRACE: for FastClick's XDPFromDevice; must be xdpallrx and false.
//!
//! # Ports
//! One push output.
//!
//! # Handlers
//! - `count` (read): packets received. `reset_counts` (write): resets it to 0.
//! - `queues` (read): number of queues in use.
//! - `kernel_drops` (read): packets that the kernel dropped because they were not read in time, or
//!   because there was no memory for them.
//! - `segmented` (read): packets that were cut into several.
//! - `active` (read, write): whether it receives.
//! - `scheduled` (read, write), `home_thread` (read): its tasks, one for each receiving thread.
//!
//! # Drops
//! None of its own. `kernel_drops` counts packets lost before the element.
//!
//! # Example
//! ```click
//! FromXDPDevice(eth0, ONLY "udp dst port 53") -> Counter -> ToXDPDevice(eth1);
//! ```
//!
//! # See also
//! ToXDPDevice, FromDevice

use millrace_core::args::Kind;
use millrace_core::element::Receiving;
use millrace_core::{Batch, Class, Failed, Setup, register};
use millrace_io::{Method, RxOptions, Spread, XdpOptions};

use super::interface::receive::{DeviceInput, InputClass, Reception, Wanted};
use super::interface::{method, threading, xdp};

/// The class; its manual is at the top of the file.
pub struct FromXdpDevice;

register!(DeviceInput<FromXdpDevice>, "from_xdp_device.rs");

impl InputClass for FromXdpDevice {
    const CLASS: Class = Class::new("FromXDPDevice", "0/1", "h/h").aliases(&["XDPFromDevice"]);

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Reception), Failed> {
        let args = &mut setup.args;
        let device: String = args.mandatory("DEVNAME");
        let promiscuous = args.positional("PROMISC", false);
        let xdp = XdpOptions {
            only: xdp::rules(args, "ONLY"),
            except: xdp::rules(args, "EXCEPT"),
            ..xdp::configure(args)
        };
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let descriptors = args.in_range("NDESC", Kind::Keyword, 64..=32_768u32);
        let snap_length = args.in_range("SNAPLEN", Kind::Keyword, 14..=65_535u32);
        let headroom = args.in_range("HEADROOM", Kind::Keyword, 0..=256u32);
        let timestamp = args.keyword("TIMESTAMP", true);
        let symmetric = args.keyword("RSS_SYMMETRIC", false);
        let active = args.keyword("ACTIVE", true);
        let receiving = threading::configure(args, Receiving::default());
        args.complete()?;
        let options = RxOptions {
            method: method::with_queues(Method::Xdp(xdp), receiving.queues.is_some()),
            descriptors: descriptors.map(|descriptors| descriptors as usize),
            spread: if symmetric { Spread::Symmetric } else { Spread::Flow },
            promiscuous,
            snap_length: snap_length.unwrap_or(65_535) as usize,
            headroom: headroom.unwrap_or(128) as usize,
            timestamp,
            ..RxOptions::default()
        };
        let wanted = Wanted {
            options,
            burst: burst.unwrap_or(64) as usize,
            active,
            optional: false,
            receiving,
        };
        Ok((Self, Reception::configure(setup, device, wanted)))
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::{Packet, Timestamp};

    use crate::devices::interface::test_rig::{refuses, rig};

    #[test]
    fn emits_what_the_device_receives() {
        let element = "XDPFromDevice(eth0, MODE skb, PROG xdpallrx, ONLY \"arp, udp port 53\", \
                       EXCEPT \"tcp dst port 22\", ZEROCOPY false, BUSY_POLL 20, NDESC 512, \
                       HEADROOM 256, N_QUEUES 1)";
        let (mut rig, far) = rig("eth0", element, 0, 1);
        far.send(Packet::from_bytes(b"packet").unwrap()).unwrap();
        assert_eq!(rig.pass(Timestamp::ZERO)[0].len(), 1);
        assert_eq!(rig.read("count").unwrap(), "1");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn rejects_invalid_arguments() {
        let cases = [
            ("", "DEVNAME"),
            ("no-such-device", "no-such-device"),
            ("lo, MODE NONSENSE", "AUTO, NATIVE or GENERIC"),
            ("lo, PROG mine.o", "ONLY"),
            ("lo, TRACE true", "Print"),
            ("lo, ONLY \"tpc\"", "tpc"),
            ("lo, HEADROOM 300", "HEADROOM"),
            ("lo, NDESC 100", "power of two"),
            ("lo, QUEUE 5", "no queue 5"),
        ];
        refuses("FromXDPDevice", 0, 1, &cases);
    }
}
