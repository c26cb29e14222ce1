//! KernelTap - a virtual Ethernet interface of the machine
//!
//! # Synopsis
//! `KernelTap(ADDR/MASK [, GATEWAY, keywords ETHER, MTU, HEADROOM, BURST, DEVNAME, N_QUEUES,
//! MAXTHREADS, THREADOFFSET, IGNORE_QUEUE_OVERFLOWS, TAP])`
//!
//! # Description
//! Makes an interface of the machine whose far end is this element: the Ethernet frames that the
//! machine sends by it are pushed out, and what arrives at the input the machine receives by it. It
//! gets the address ADDR, and the machine sends by it what goes to the network of MASK. When the
//! program ends, however it does, the interface goes. That takes the rights of root or CAP_NET_ADMIN.
//!
//! The machine asks for its neighbours by ARP, and wants answers before it sends anything else. What it
//! receives must be addressed to ETHER (or to all), or it ignores it.
//!
//! TCP segments beyond the MTU and unfinished checksums, which the machine leaves to its interfaces, are
//! cut and finished on the way out; on the way in, consecutive segments of a connection are merged.
//!
//! It has as many queues as threads, each with flows of its own. The machine sends a flow to the queue
//! by which packets of that flow came to it last.
//!
//! # Arguments
//! - ADDR/MASK: the machine's address on the interface, and its network. Positional, mandatory.
//! - GATEWAY: a host of that network by which the machine shall reach all others. Positional.
//! - ETHER: the interface's Ethernet address. Default 00:01:02:03:04:05.
//! - MTU: the longest packet in either direction, without its Ethernet header. Default 1500.
//! - HEADROOM: free bytes before each packet, at most 8190. Default 128.
//! - BURST: most packets at a time, 1 to 256. Default 64.
//! - DEVNAME: the interface's name. The kernel chooses `tap0`, `tap1`, ... unless it is given. One
//!   that was made by `ip tuntap add` is used, and left as it was. DEV_NAME is an old name of it.
//! - N_QUEUES: how many queues it has, 1 to 256. As many as threads unless it is given.
//! - MAXTHREADS: the most threads that receive from it. All unless it is given.
//! - THREADOFFSET: the first of them. The plan's choice unless it is given.
//! - IGNORE_QUEUE_OVERFLOWS: accepted for Click's sake. Errors of one kind are told once in any case.
//! - TAP: if false, it is a KernelTun. Default true.
//!
//! # Ports
//! One agnostic input, which may be left out. One push output; a second one is for KernelTun alone.
//!
//! # Handlers
//! - `dev_name` (read): the interface's name.
//! - `packets` (read): packets that the machine sent. `sent` (read): packets to the machine.
//! - `segmented` (read): packets that were cut into several.
//! - `queues` (read): how many queues there are.
//! - `home_thread` (read): the threads that receive.
//!
//! # Drops
//! - truncated: the packet has no whole Ethernet header.
//! - too big: it is longer than the MTU.
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

use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Refused, Router, Setup, register,
};
use millrace_io::tap::TapKind;

use super::tap_port::{self, HasTap, TapPort};

/// The element; its manual is at the top of the file.
pub struct KernelTap(TapPort);

register!(KernelTap, "kernel_tap.rs");

impl Element for KernelTap {
    const CLASS: Class = Class::new("KernelTap", "0-1/1-2", "a/h").flow("x/y");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        TapPort::configure(setup, TapKind::Tap).map(Self)
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.0.initialize(init)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.0.push(cx, batch);
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.0.run(cx)
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.0.run_timer();
    }

    fn held(&self) -> usize {
        self.0.held()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        tap_port::handlers(handlers);
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        self.0.cleanup()
    }
}

impl HasTap for KernelTap {
    fn port(&self) -> &TapPort {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::services::Services;
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason, Registry, Timestamp};
    use millrace_io::Devices;
    use millrace_io::memory::{End, Interface, Network};

    fn rig(element: &str, inputs: usize, outputs: usize) -> (Rig, End) {
        let network = Network::default();
        let machine = network.connect(Interface::new("tap7"), Interface::new("machine"));
        let mut services = Services::default();
        services.insert(Devices(Box::new(network)));
        let rig = Rig::with(Registry::linked(), element, inputs, outputs, services).unwrap();
        (rig, machine)
    }

    #[test]
    fn frames_go_both_ways() {
        let element = "KernelTap(10.0.0.1/24, 10.0.0.254, DEVNAME tap7, HEADROOM 64)";
        let (mut rig, machine) = rig(element, 1, 1);
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
    fn refuses_what_makes_no_sense() {
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
