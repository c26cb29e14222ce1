//! FromDevice - receives packets from a network device
//!
//! # Synopsis
//! `FromDevice(DEVNAME [, PROMISC, SNAPLEN, keywords SNIFFER, FORCE_IP, METHOD, BPF_FILTER, ENCAP,
//! OUTBOUND, PROTOCOL, HEADROOM, BURST, TIMESTAMP, ACTIVE, QUEUE, N_QUEUES, MAXTHREADS,
//! THREADOFFSET, NUMA])`
//!
//! # Description
//! Emits the packets that a device receives. By default DEVNAME is an interface of the machine,
//! which requires root or CAP_NET_RAW. The program can replace all devices with other ones
//! (`millrace run --lab`).
//!
//! The machine's own network stack also receives every packet that this element emits, and may
//! answer or forward it. So the interfaces of a router should have no addresses. METHOD XDP and
//! DPDK take packets away from the kernel, as SNIFFER false does.
//!
//! Packets are complete and correct whatever offloads the sender or the card uses. TCP segments and
//! trains of UDP datagrams beyond the MTU are cut into packets, missing checksums are filled in, and
//! VLAN tags are in their places.
//!
//! The timestamp is the time at which the kernel received the packet. The packet type annotation
//! classifies the packet by its destination. The extra length annotation holds the number of bytes that
//! SNAPLEN cut off. The MAC header annotation is set.
//!
//! # Arguments
//! - DEVNAME: the device. Positional, mandatory.
//! - PROMISC: whether the device also receives packets for other hosts. Positional, default false.
//! - SNAPLEN: maximum number of bytes of a packet to keep, 14 to 65535. Positional, default 65535.
//! - SNIFFER: whether the kernel also processes the packets. Default true. With false, a program behind
//!   the packet sockets drops them until the run ends. (Before Linux 6.6, this program stays if
//!   Millrace is killed with signal 9; the next run removes it.) METHOD XDP and DPDK reject an explicit
//!   true, because they take packets away from the kernel.
//! - FORCE_IP: whether to emit only packets with an IP header, with their IP header annotations set.
//!   Others go to output 1. Default false.
//! - METHOD: how to receive. LINUX and PCAP are the same: packet sockets with rings shared with the
//!   kernel. SOCKET: packet sockets without rings; far slower, but no packet waits up to 1 ms for
//!   others (with rings, a lone packet does not wait either if the device has one queue). XDP. DPDK.
//!   NETMAP: AF_XDP, or packet sockets if that is unavailable. CAPTURE is an old name for METHOD.
//! - BPF_FILTER: a filter in the language of tcpdump (pcap-filter(7)), which the kernel runs. It
//!   requires libpcap (Debian: libpcap0.8). The filter sees TCP segments and trains of datagrams that
//!   arrive in one piece as one packet. Default none.
//! - ENCAP: must be ETHER.
//! - OUTBOUND: whether to also receive the packets that the machine transmits through the device.
//!   Default false.
//! - PROTOCOL: the EtherType that packets must have; 0, the default, accepts any.
//! - HEADROOM: free bytes before each packet, at most 8190. Default 128.
//! - BURST: maximum number of packets received at a time, 1 to 256. Default 64.
//! - TIMESTAMP: whether packets get a timestamp. Default true.
//! - ACTIVE: whether it receives. Default true.
//! - QUEUE, N_QUEUES, MAXTHREADS, THREADOFFSET, NUMA: the device queues and the threads to use. By
//!   default the program's threads are divided among the devices, and each thread has a queue of its
//!   own. QUEUE is the number of the first queue and N_QUEUES the number of queues. MAXTHREADS limits
//!   the threads (if there are more threads than queues, they share the queues by lock and may reorder
//!   packets). THREADOFFSET is the first thread. NUMA false ignores which NUMA node the threads are on.
//!
//! # Ports
//! Output 0 is push. Output 1 is push and optional: with FORCE_IP, it emits packets without an IP
//! header.
//!
//! # Handlers
//! - `count` (read): packets received. `reset_counts` (write): resets it to 0.
//! - `queues` (read): number of device queues in use.
//! - `kernel_drops` (read): packets that the kernel dropped because they were not read in time.
//! - `segmented` (read): packets that were cut into several because of offloads.
//! - `encap` (read): the link type, in the form that ToDump's ENCAP accepts.
//! - `active` (read, write): whether it receives.
//! - `scheduled` (read, write), `home_thread` (read): its tasks, one for each receiving thread.
//!
//! # Drops
//! - filtered: the packet's EtherType is not PROTOCOL (with packet sockets the kernel filters these
//!   out, uncounted); or, with FORCE_IP, the packet has no IP header and output 1 is not connected.
//!
//! # Example
//! ```click
//! FromDevice(eth0, PROMISC true) -> Counter -> Discard;
//! ```
//!
//! # See also
//! ToDevice, FromDump

use millrace_core::args::{Kind, Word};
use millrace_core::element::Receiving;
use millrace_core::{
    Args, Batch, Class, Context, Failed, Handlers, Packet, Reason, Setup, register,
};
use millrace_io::pcap::LinkType;
use millrace_io::{Method, RxOptions, bpf, libpcap};

use super::interface::force_ip::force_ip;
use super::interface::receive::{DeviceInput, InputClass, Reception, Wanted};
use super::interface::{method, threading};

/// The class; its manual is at the top of the file.
pub struct FromDevice {
    force_ip: bool,
    /// 0 accepts any.
    protocol: u16,
}

register!(DeviceInput<FromDevice>, "from_device.rs");

impl InputClass for FromDevice {
    const CLASS: Class = Class::new("FromDevice", "0/1-2", "h/h");

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Reception), Failed> {
        let args = &mut setup.args;
        let device: String = args.mandatory("DEVNAME");
        let promiscuous = args.positional("PROMISC", false);
        let snap_length = args.in_range("SNAPLEN", Kind::Positional, 14..=65_535u32);
        let sniffer = args.keyword("SNIFFER", true);
        let force_ip = args.keyword("FORCE_IP", false);
        let method = method::configure(args, "METHOD");
        let capture = method::configure(args, "CAPTURE");
        let filter = filter(args);
        let outbound = args.keyword("OUTBOUND", false);
        let protocol = args.keyword("PROTOCOL", 0);
        let headroom = args.in_range("HEADROOM", Kind::Keyword, 0..=8190u32).unwrap_or(128);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let timestamp = args.keyword("TIMESTAMP", true);
        let active = args.keyword("ACTIVE", true);
        let receiving = threading::configure(args, Receiving::default());
        let named = method.as_ref().or(capture.as_ref());
        let takes = matches!(named, Some(Method::Xdp(_) | Method::Dpdk(_)));
        if takes && sniffer && args.is_given("SNIFFER") {
            let problem = "AF_XDP and DPDK take packets away from the kernel: SNIFFER true needs \
                           METHOD LINUX";
            args.error("SNIFFER", problem);
        }
        args.complete()?;
        let method = method.or(capture).unwrap_or_else(|| method::default(setup));
        // Packets that the kernel filters out cost nothing.
        let in_kernel = matches!(method, Method::Ring | Method::Socket) && protocol != 0;
        let filter = if in_kernel { bpf::of_protocol(protocol, &filter) } else { filter };
        let options = RxOptions {
            method: method::with_queues(method, receiving.queues.is_some()),
            filter,
            promiscuous,
            snap_length: snap_length.unwrap_or(65_535) as usize,
            headroom: headroom as usize,
            outbound,
            sniffer,
            timestamp,
            ..RxOptions::default()
        };
        let burst = burst.unwrap_or(64) as usize;
        let wanted = Wanted { options, burst, active, optional: false, receiving };
        Ok((Self { force_ip, protocol }, Reception::configure(setup, device, wanted)))
    }

    fn sort_out(&self, cx: &mut Context, batch: &mut Batch) {
        if self.protocol != 0 {
            batch.map_filter(|packet| match ether_type(&packet) == Some(self.protocol) {
                true => Some(packet),
                false => cx.drop(packet, Reason::Filtered),
            });
        }
        if self.force_ip {
            batch.map_filter(|mut packet| match force_ip(&mut packet, LinkType::ETHER) {
                true => Some(packet),
                false => {
                    cx.push_or_drop(1, packet, Reason::Filtered);
                    None
                }
            });
        }
    }

    fn handlers(handlers: &mut Handlers<DeviceInput<Self>>) {
        handlers.read("encap", |_, _| LinkType::ETHER.to_string());
    }
}

fn ether_type(packet: &Packet) -> Option<u16> {
    packet.data().get(12..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Reads BPF_FILTER, and ENCAP, which names the link type that the filter inspects.
fn filter(args: &mut Args<'_>) -> Vec<bpf::Instruction> {
    let encap: Option<Word> = args.optional_keyword("ENCAP");
    if encap.is_some_and(|encap| encap.as_str() != "ETHER") {
        args.error("ENCAP", "packets of devices have Ethernet headers: ENCAP must be ETHER");
    }
    let filter: String = args.keyword("BPF_FILTER", String::new());
    libpcap::compile(&filter).unwrap_or_else(|error| {
        args.error("BPF_FILTER", format!("‘{filter}’: {error}"));
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::testing::Rig;
    use millrace_io::memory::End;

    use super::*;
    use crate::devices::interface::test_rig::rig;

    fn receive(arguments: &str, outputs: usize, frames: &[&[u8]]) -> (Rig, End) {
        let element = format!("FromDevice(eth0 {arguments})");
        let (rig, far) = rig("eth0", &element, 0, outputs);
        for frame in frames {
            far.send(Packet::from_bytes(frame).unwrap()).unwrap();
        }
        (rig, far)
    }

    fn frame(ether_type: u16) -> Vec<u8> {
        [&[0xff; 12][..], &ether_type.to_be_bytes(), &[0x45, 0, 0, 20], &[0; 16]].concat()
    }

    #[test]
    fn emits_what_the_device_receives() {
        let (mut rig, _far) = receive("", 1, &[&frame(0x800), b"short"]);
        let out = rig.pass(Timestamp::ZERO);
        assert_eq!(out[0].len(), 2);
        let first = &out[0][0];
        assert_eq!(first.mac_header(), Some(0));
        assert_eq!(first.timestamp(), rig.router().clock().now());
        assert_eq!(first.packet_type(), millrace_core::PacketType::Broadcast);
        for (handler, value) in
            [("count", "2"), ("kernel_drops", "0"), ("encap", "ETHER"), ("active", "true")]
        {
            assert_eq!(rig.read(handler).unwrap(), value, "{handler}");
        }
        assert!(rig.stats().balanced());
    }

    #[test]
    fn filters_by_protocol_and_ip_header() {
        let frames = [&frame(0x800)[..], &frame(0x806), &frame(0x86dd)];
        // With packet sockets, the kernel filters.
        for (method, drops) in [("SOCKET", &[][..]), ("XDP", &[(Reason::Filtered, 2)])] {
            let arguments = format!(", PROTOCOL 0x806, TIMESTAMP false, METHOD {method}");
            let (mut rig, _far) = receive(&arguments, 1, &frames);
            let out = rig.pass(Timestamp::ZERO);
            assert_eq!((out[0].len(), out[0][0].timestamp()), (1, Timestamp::ZERO));
            assert_eq!(rig.stats().drops, drops);
        }
        let (mut rig, _far) = receive(", FORCE_IP true, SNAPLEN 34", 2, &frames);
        let out = rig.pass(Timestamp::ZERO);
        assert_eq!((out[0].len(), out[1].len()), (2, 1));
        assert_eq!(out[0][0].network_offset(), Some(14));
        assert!(rig.stats().balanced());
    }

    #[test]
    fn filters_are_compiled_by_libpcap() {
        let frames = [&frame(0x800)[..], &frame(0x806), &frame(0x86dd)];
        let compiled = libpcap::compile("arp");
        if compiled == Err(libpcap::FilterError::Missing) {
            let test = millrace_testkit::enclosing(filters_are_compiled_by_libpcap);
            return millrace_testkit::announce(test, &"needs libpcap, which tcpdump brings");
        }
        for (filter, wanted) in [("arp or ip6", 2), ("not arp", 2), ("", 3), ("vlan 7", 0)] {
            let arguments = format!(", BPF_FILTER \"{filter}\"");
            let (mut rig, _far) = receive(&arguments, 1, &frames);
            assert_eq!(rig.pass(Timestamp::ZERO)[0].len(), wanted, "{filter}");
        }
        let (mut rig, _far) = receive(", PROTOCOL 0x806, BPF_FILTER \"greater 34\"", 1, &frames);
        assert_eq!(rig.pass(Timestamp::ZERO)[0][0].data()[12..14], [8, 6]);
        let error = Rig::new("FromDevice(lo, BPF_FILTER \"tcp prot 80\")", 0, 1).err().unwrap();
        assert!(format!("{error:?}").contains("tcp prot 80"), "{error:?}");
    }

    #[test]
    fn receives_nothing_while_inactive() {
        let (mut rig, far) = receive(", ACTIVE false, BURST 1", 1, &[b"a", b"b"]);
        assert!(rig.pass(Timestamp::ZERO)[0].is_empty());
        assert_eq!(far.unread(), 2);
        rig.write("active", "true").unwrap();
        assert_eq!(rig.pass(Timestamp::ZERO)[0].len(), 2);
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in [
            "FromDevice",
            "FromDevice(no-such-device)",
            "FromDevice(lo, BPF_FILTER \"tcp prot 80\")",
            "FromDevice(lo, METHOD NONSENSE)",
            "FromDevice(lo, METHOD XDP, SNIFFER true)",
            "FromDevice(lo, ENCAP IP)",
            "FromDevice(lo, SNAPLEN 13)",
            "FromDevice(lo, HEADROOM 9000)",
            "FromDevice(lo, BURST 0)",
        ] {
            assert!(Rig::new(bad, 0, 1).is_err(), "{bad}");
        }
    }
}
