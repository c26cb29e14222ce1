//! ToXDPDevice - transmits packets through a network interface by AF_XDP, bypassing the kernel's network stack
//!
//! # Synopsis
//! `ToXDPDevice(DEVNAME [, keywords BURST, BLOCKING, NO_PAD, NDESC, MODE, ZEROCOPY, BUSY_POLL, DEBUG,
//! QUEUE, MAXQUEUES, PROG, TRACE])`
//!
//! # Description
//! Transmits packets, which must have Ethernet headers, through the machine's interface DEVNAME
//! (AF_XDP). It requires root. `ToDevice(DEVNAME, METHOD XDP)` does the same with the options below at
//! their defaults.
//!
//! Packets are transmitted directly from this program's packet memory, including packets that share
//! their bytes with others. Only packets outside the memory that the interface uses (packets of more
//! than 2,304 bytes, or on another NUMA node) are copied; the copy counters count them. The drivers of
//! many cards read packets directly (zero copy); with other drivers the kernel copies each packet once,
//! bypassing its queueing disciplines. The element reports at startup which mode it uses.
//!
//! A packet's checksums must be correct, and it must be no longer than the MTU.
//!
//! With a pull input, it pulls packets whenever the device has room; with a push input it transmits at
//! once, like ToDevice.
//!
//! # Arguments
//! - DEVNAME: the interface. Positional, mandatory.
//! - BURST: maximum number of packets pulled at a time, 1 to 256. Default 64.
//! - BLOCKING: with a push input, whether to wait for room in the device. Default true.
//! - NO_PAD: whether to leave packets shorter than 60 bytes unpadded. Default true.
//! - NDESC: packets that a queue's ring holds, a power of two from 64 to 32768. Default 2048. Among
//!   elements that use the same queue, the first one sets it.
//! - MODE: GENERIC makes the kernel copy packets, as XDP programs in that mode need; otherwise AUTO or
//!   NATIVE. Default AUTO.
//! - ZEROCOPY: true rejects devices that cannot read the program's memory; false makes the kernel copy.
//!   By default whatever the device supports.
//! - DEBUG: whether to report when the device is full. Default false.
//! - QUEUE: the first device queue to transmit on. Default 0.
//! - MAXQUEUES: maximum number of queues to transmit on. By default each thread that reaches the
//!   element has a queue of its own; if the device has fewer queues, threads share them by lock.
//! - PROG, TRACE: for FastClick's XDPToDevice; must be xdpallrx and false.
//! - BUSY_POLL: microseconds that each call polls the device; 0, the default, disables polling.
//!
//! # Ports
//! One agnostic input. Two optional push outputs: transmitted packets leave by output 0, packets that
//! the device rejected by output 1.
//!
//! # Handlers
//! - `count` (read): packets transmitted. `reset_counts` (write): resets it to 0.
//! - `queues` (read): number of device queues in use.
//! - `lost` (read): packets that the device dropped.
//! - `pulls` (read): number of pulls.
//! - `q` (read): whether packets are waiting for room in the device.
//! - `signal` (read): whether there may be packets to pull.
//! - `debug` (read, write): the value of DEBUG.
//! - `scheduled`, `home_thread` (read, write): its task, and the thread that runs it.
//!
//! # Drops
//! - transmit full: without BLOCKING, the device had no room; on virtual time, which stands still meanwhile, it had
//!   none for a quarter of a second, and from then on.
//! - device error: the device rejected the packet (it is longer than the MTU, or the device is down or
//!   gone), and output 1 is not connected.
//! - stopped: the program stopped while the packet waited for room.
//!
//! # Example
//! ```click
//! FromXDPDevice(eth0) -> ToXDPDevice(eth1);
//! ```
//!
//! # See also
//! FromXDPDevice, ToDevice

use millrace_core::args::Kind;
use millrace_core::{Class, Failed, Setup, register};
use millrace_io::Method;

use super::interface::transmit::{DeviceOutput, OutputClass, Transmission, Wanted};
use super::interface::xdp;

/// The class; its manual is at the top of the file.
pub struct ToXdpDevice;

register!(DeviceOutput<ToXdpDevice>, "to_xdp_device.rs");

impl OutputClass for ToXdpDevice {
    const CLASS: Class = Class::new("ToXDPDevice", "1/0-2", "a/h").aliases(&["XDPToDevice"]);

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Transmission), Failed> {
        let args = &mut setup.args;
        let device: String = args.mandatory("DEVNAME");
        let mut wanted = Wanted::read(args);
        let descriptors = args.in_range("NDESC", Kind::Keyword, 64..=32_768u32);
        wanted.options.method = Method::Xdp(xdp::configure(args));
        wanted.options.descriptors = descriptors.map(|descriptors| descriptors as usize);
        args.complete()?;
        Ok((Self, Transmission::configure(setup, device, wanted)))
    }
}

#[cfg(test)]
mod tests {

    use crate::devices::interface::test_rig::{refuses, rig};

    #[test]
    fn transmits_what_is_pushed() {
        let element = "XDPToDevice(eth0, MODE skb, TRACE false, ZEROCOPY false, NDESC 512)";
        let (mut rig, far) = rig("eth0", element, 1, 0);
        rig.push(0, &["a", "b"]);
        assert_eq!(far.waiting(), 2);
        assert_eq!(rig.read("count").unwrap(), "2");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn rejects_invalid_arguments() {
        let cases = [
            ("", "DEVNAME"),
            ("no-such-device", "no-such-device"),
            ("lo, MODE NONSENSE", "AUTO, NATIVE or GENERIC"),
            ("lo, NDESC 65", "power of two"),
            ("lo, QUEUE 5", "no transmit queue 5"),
        ];
        refuses("ToXDPDevice", 1, 0, &cases);
    }
}
