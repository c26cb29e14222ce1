//! FromDevice - receives packets from a network device
//!
//! # Synopsis
//! `FromDevice(DEVNAME [, PROMISC, SNAPLEN, keywords SNIFFER, FORCE_IP, METHOD, BPF_FILTER, ENCAP,
//! OUTBOUND, PROTOCOL, HEADROOM, BURST, TIMESTAMP, ACTIVE, QUEUE, N_QUEUES, MAXTHREADS,
//! THREADOFFSET, NUMA])`
//!
//! # Description
//! Sends the packets that a device receives. By default they are those of the machine's interface
//! DEVNAME, which takes the rights of root or CAP_NET_RAW; the program can put other devices in
//! place of all of them (`millrace run --lab`).
//!
//! It listens beside the machine's own network stack: what it sends on is also received, and
//! perhaps answered or forwarded, by the kernel. A router's interfaces should have no addresses.
//! With METHOD XDP and DPDK packets are taken away from the kernel.
//!
//! Packets are whole and right whatever offloads the sender or the card uses: TCP segments and
//! trains of UDP datagrams beyond the MTU come cut into packets, and missing checksums are filled
//! in. VLAN tags are in their places.
//!
//! The timestamp says when the kernel received the packet, and the packet type annotation to whom
//! it was sent. What SNAPLEN cut off is told by the extra length annotation. The MAC header
//! annotation is set.
//!
//! # Arguments
//! - DEVNAME: the device. Positional, mandatory.
//! - PROMISC: whether the device receives packets for other hosts too. Positional, default false.
//! - SNAPLEN: the most bytes of a packet that are kept, 14 to 65535. Positional, default 65535.
//! - SNIFFER: whether the kernel goes on to receive the packets. Default true. With false, a program
//!   behind the packet sockets drops them until the run ends. (Only before Linux 6.6, and only when
//!   this program is killed with signal 9, it stays; the next run takes it away.) METHOD XDP and DPDK
//!   refuse true where it is said, for they take packets away from the kernel.
//! - FORCE_IP: whether to send packets with an IP header only, with their IP header annotations
//!   set. Others leave by output 1. Default false.
//! - METHOD: LINUX or PCAP, which are the same here: packet sockets with rings that are shared with
//!   the kernel; SOCKET: without rings, slower by far, but no packet waits up to 1 ms for others (with rings
//!   one that comes alone does not either, where the device has one queue); XDP; DPDK; NETMAP: AF_XDP or
//!   else packet sockets. CAPTURE is an old name of it.
//! - BPF_FILTER: a filter in the language of tcpdump (pcap-filter(7)), which the kernel runs. It needs
//!   libpcap (Debian: libpcap0.8). TCP segments and trains of datagrams that come in one piece are
//!   judged by it in one piece. Default none.
//! - ENCAP: must be ETHER.
//! - OUTBOUND: whether to receive the packets too that the machine sends by the device. Default
//!   false.
//! - PROTOCOL: the EtherType that packets must have; 0, the default, for any.
//! - HEADROOM: free bytes before each packet, at most 8190. Default 128.
//! - BURST: most packets received each time, 1 to 256. Default 64.
//! - TIMESTAMP: whether packets get a timestamp. Default true.
//! - ACTIVE: whether it receives. Default true.
//! - QUEUE, N_QUEUES, MAXTHREADS, THREADOFFSET, NUMA: which queues of the device, and which threads.
//!   By default the program's threads are divided among the devices, and each of them has a queue
//!   of its own. QUEUE is the number of the first one, N_QUEUES says how many, MAXTHREADS bounds the
//!   threads (more than there are queues share them by lock, and may mix the order of packets),
//!   THREADOFFSET is the first of them, and NUMA false ignores on which node they are.
//!
//! # Ports
//! Output 0 is push, and so is output 1, which may be left out: packets without an IP header, with
//! FORCE_IP.
//!
//! # Handlers
//! - `count` (read): packets received. `reset_counts` (write): sets it to 0.
//! - `queues` (read): how many queues of the device it receives from.
//! - `kernel_drops` (read): packets that the kernel dropped because they were not taken in time.
//! - `segmented` (read): packets that were cut into several because of offloads.
//! - `encap` (read): the link type, as ToDump's ENCAP takes it.
//! - `active` (read, write): whether it receives.
//! - `scheduled` (read, write), `home_thread` (read): its tasks, one for each thread that receives.
//!
//! # Drops
//! - filtered: the packet has another EtherType than PROTOCOL (packet sockets have the kernel take
//!   these out, uncounted); or, with FORCE_IP, it has no IP header and there is no output 1.
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
    Args, Batch, Class, Context, Element, Failed, Handlers, Init, Packet, Reason, Refused, Router,
    Setup, register,
};
use millrace_io::pcap::LinkType;
use millrace_io::{Method, RxOptions, bpf, libpcap};

use super::force_ip::force_ip;
use super::receive::{self, Receives, Reception, Wanted};
use super::{method, threading};

/// The element; its manual is at the top of the file.
pub struct FromDevice {
    force_ip: bool,
    /// 0 for any.
    protocol: u16,
    reception: Reception,
}

register!(FromDevice, "from_device.rs");

impl Element for FromDevice {
    const CLASS: Class = Class::new("FromDevice", "0/1-2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
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
        // Where the kernel takes the others out, they cost nothing.
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
        Ok(Self { force_ip, protocol, reception: Reception::configure(setup, device, wanted) })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.reception.initialize(init)
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.reception.run(cx, |cx, batch| {
            self.sort_out(cx, batch);
            cx.push_batch(0, batch);
        })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        receive::handlers(handlers);
        handlers.read("encap", |_, _| LinkType::ETHER.to_string());
    }

    fn cleanup(&self, router: &Router) -> Result<(), Refused> {
        receive::cleanup(self, router)
    }
}

impl Receives for FromDevice {
    fn reception(&self) -> &Reception {
        &self.reception
    }
}

impl FromDevice {
    /// Takes out what is not to be sent by output 0.
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
}

fn ether_type(packet: &Packet) -> Option<u16> {
    packet.data().get(12..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Reads BPF_FILTER, and ENCAP, which says what it would look at.
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
    use millrace_core::services::Services;
    use millrace_core::testing::Rig;
    use millrace_core::{Registry, Timestamp};
    use millrace_io::Devices;
    use millrace_io::memory::{End, Interface, Network};

    use super::*;

    fn receive(arguments: &str, outputs: usize, frames: &[&[u8]]) -> (Rig, End) {
        let network = Network::default();
        let far = network.connect(Interface::new("eth0"), Interface::new("host"));
        let mut services = Services::default();
        services.insert(Devices(Box::new(network)));
        let element = format!("FromDevice(eth0 {arguments})");
        let rig = Rig::with(Registry::linked(), &element, 0, outputs, services).unwrap();
        for frame in frames {
            far.send(Packet::from_bytes(frame).unwrap()).unwrap();
        }
        (rig, far)
    }

    fn frame(ether_type: u16) -> Vec<u8> {
        [&[0xff; 12][..], &ether_type.to_be_bytes(), &[0x45, 0, 0, 20], &[0; 16]].concat()
    }

    #[test]
    fn sends_what_the_device_receives() {
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
    fn takes_out_what_is_not_wanted() {
        let frames = [&frame(0x800)[..], &frame(0x806), &frame(0x86dd)];
        // Packet sockets have the kernel do it.
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
    fn rests_while_inactive() {
        let (mut rig, far) = receive(", ACTIVE false, BURST 1", 1, &[b"a", b"b"]);
        assert!(rig.pass(Timestamp::ZERO)[0].is_empty());
        assert_eq!(far.unread(), 2);
        rig.write("active", "true").unwrap();
        assert_eq!(rig.pass(Timestamp::ZERO)[0].len(), 2);
    }

    #[test]
    fn refuses_what_it_cannot_do() {
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
