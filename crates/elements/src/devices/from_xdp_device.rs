//! FromXDPDevice - receives packets from a network interface past the kernel's network stack
//!
//! # Synopsis
//! `FromXDPDevice(DEVNAME [, PROMISC, keywords ONLY, EXCEPT, MODE, ZEROCOPY, BUSY_POLL, BURST, NDESC,
//! SNAPLEN, HEADROOM, TIMESTAMP, RSS_SYMMETRIC, ACTIVE, QUEUE, N_QUEUES, MAXTHREADS, THREADOFFSET,
//! NUMA, PROG, TRACE])`
//!
//! # Description
//! Takes packets that the machine's interface DEVNAME receives from the kernel, and sends them. The
//! packets come straight into this program's packet memory (AF_XDP), so that from here to a
//! ToXDPDevice nothing is copied by this program. It takes root's rights. `FromDevice(DEVNAME, METHOD
//! XDP)` does the same with the choices below at their defaults.
//!
//! Unlike FromDevice it takes the packets away from the kernel, which does not see them any more:
//! an address of the interface is dead unless EXCEPT or ONLY leaves the kernel what it needs.
//!
//! A small program of the kernel's XDP decides about each packet. It runs in the interface's driver
//! where that can, which most cards' drivers, virtio and virtual Ethernet cables can, and else where
//! the kernel takes packets over, which is slower. The drivers of many cards can also write packets
//! into our memory by themselves (zero copy; it takes huge pages); with others the kernel copies each
//! packet once. What was found, and everything that was set up, is said at the start, and undone at the
//! end; however the program ends, the kernel has its packets back.
//!
//! Of a neighbour on the same machine, unfinished packets may come: checksums are filled in, and
//! with MODE GENERIC TCP segments beyond the MTU are cut. VLAN tags that the neighbour's kernel
//! keeps beside the packet are lost (`ethtool -K lan txvlan off` at its end keeps them).
//!
//! The packet type annotation says to whom the packet was sent; the MAC header annotation is set.
//!
//! # Arguments
//! - DEVNAME: the interface. Positional, mandatory.
//! - PROMISC: whether the interface receives packets for other hosts too. Positional, default false.
//! - ONLY: the packets to take, as a list of rules separated by commas; all by default. A rule is a row of
//!   words that must all be fulfilled: ip, ip6, arp, ether 0x88cc; icmp, icmp6, tcp, udp, sctp, proto
//!   47; port 53, src port 53, dst port 6000-6063; net 10.0.0.0/8, src net ..., dst net .... Fragments
//!   but the first have no ports, and IPv6 extension headers are not looked behind.
//! - EXCEPT: the packets of those that are left to the kernel, likewise. Default none.
//! - MODE: where the XDP program runs: NATIVE (or drv) in the driver, GENERIC (or skb) in the network
//!   stack, AUTO in the driver if it can. Default AUTO.
//! - ZEROCOPY: true refuses devices that cannot write to our memory, false has the kernel copy. By
//!   default as the device can.
//! - BUSY_POLL: has the thread poll the device itself for so many microseconds a call, in place of
//!   interrupts; 0, the default, does not. The thread then only naps.
//! - BURST: most packets received from a queue each time, 1 to 256. Default 64.
//! - NDESC: packets that a queue's ring holds, a power of two from 64 to 32768. Default 2048.
//! - SNAPLEN: the most bytes of a packet that are kept, 14 to 65535. Default 65535.
//! - HEADROOM: free bytes that each packet needs before it, at most 256, which is what there are.
//! - TIMESTAMP: whether packets get the time when they were taken from the ring. Default true.
//! - RSS_SYMMETRIC: whether both directions of a connection come by the same queue; refused where the
//!   device cannot. Default false.
//! - ACTIVE: whether it receives. Default true.
//! - QUEUE, N_QUEUES, MAXTHREADS, THREADOFFSET, NUMA: as in FromDevice. When no queue is named,
//!   packets of all of the device's queues are received: a card is given as many queues as there are
//!   threads for it, and elsewhere a thread receives from several. What comes by queues that are not
//!   named stays with the kernel.
//! - PROG, TRACE: for FastClick's XDPFromDevice; must be xdpallrx and false.
//!
//! # Ports
//! One push output.
//!
//! # Handlers
//! - `count` (read): packets received. `reset_counts` (write): sets it to 0.
//! - `queues` (read): how many queues it receives from.
//! - `kernel_drops` (read): packets that the kernel dropped because they were not taken in time, or
//!   there was no memory for them.
//! - `segmented` (read): packets that were cut into several.
//! - `active` (read, write): whether it receives.
//! - `scheduled` (read, write), `home_thread` (read): its tasks, one for each thread that receives.
//!
//! # Drops
//! None of its own. `kernel_drops` counts what was lost before.
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
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Refused, Router, Setup, register,
};
use millrace_io::{Method, RxOptions, Spread, XdpOptions};

use super::receive::{self, Receives, Reception, Wanted};
use super::{method, threading, xdp};

/// The element; its manual is at the top of the file.
pub struct FromXdpDevice {
    reception: Reception,
}

register!(FromXdpDevice, "from_xdp_device.rs");

impl Element for FromXdpDevice {
    const CLASS: Class = Class::new("FromXDPDevice", "0/1", "h/h").aliases(&["XDPFromDevice"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
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
        Ok(Self { reception: Reception::configure(setup, device, wanted) })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.reception.initialize(init)
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.reception.run(cx, |cx, batch| cx.push_batch(0, batch))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        receive::handlers(handlers);
    }

    fn cleanup(&self, router: &Router) -> Result<(), Refused> {
        receive::cleanup(self, router)
    }
}

impl Receives for FromXdpDevice {
    fn reception(&self) -> &Reception {
        &self.reception
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::services::Services;
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Registry, Timestamp};
    use millrace_io::Devices;
    use millrace_io::memory::{Interface, Network};

    #[test]
    fn sends_what_the_device_receives() {
        let network = Network::default();
        let far = network.connect(Interface::new("eth0"), Interface::new("host"));
        let mut services = Services::default();
        services.insert(Devices(Box::new(network)));
        let element = "XDPFromDevice(eth0, MODE skb, PROG xdpallrx, ONLY \"arp, udp port 53\", \
                       EXCEPT \"tcp dst port 22\", ZEROCOPY false, BUSY_POLL 20, NDESC 512, \
                       HEADROOM 256, N_QUEUES 1)";
        let mut rig = Rig::with(Registry::linked(), element, 0, 1, services).unwrap();
        far.send(Packet::from_bytes(b"packet").unwrap()).unwrap();
        assert_eq!(rig.pass(Timestamp::ZERO)[0].len(), 1);
        assert_eq!(rig.read("count").unwrap(), "1");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        for (bad, problem) in [
            ("", "DEVNAME"),
            ("no-such-device", "no-such-device"),
            ("lo, MODE NONSENSE", "AUTO, NATIVE or GENERIC"),
            ("lo, PROG mine.o", "ONLY"),
            ("lo, TRACE true", "Print"),
            ("lo, ONLY \"tpc\"", "tpc"),
            ("lo, HEADROOM 300", "HEADROOM"),
            ("lo, NDESC 100", "power of two"),
            ("lo, QUEUE 5", "no queue 5"),
        ] {
            let refused = Rig::new(&format!("FromXDPDevice({bad})"), 0, 1).err();
            let said = format!("{refused:?}");
            assert!(said.contains(problem), "{bad}: {said}");
        }
    }
}
