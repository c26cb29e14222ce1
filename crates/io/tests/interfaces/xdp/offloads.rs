//! What a neighbour left to the hardware: checksums and segments.

use std::net::UdpSocket;

use millrace_io::af_packet::AfPacket;
use millrace_io::af_xdp::AfXdp;
use millrace_io::{Backend, Queues, RxOptions, TxOptions, XdpHook};

use super::{wired, xdp};
use crate::rig::{has_right_checksum, output, receive, run, segment, send};

#[test]
fn what_a_neighbour_leaves_undone_is_done() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl", "ethtool") else { return };
    wired().enter(|| {
        // A kernel that merges packets would make it worse in generic mode.
        run("ethtool -K b gro on");
        let merges = || output("ethtool -k b").1.contains("generic-receive-offload: on");
        let generic = xdp(|xdp| xdp.hook = XdpHook::Generic);
        for method in [xdp(|_| {}), generic] {
            let is_generic = method != xdp(|_| {});
            let options = RxOptions { method, queues: Queues::default(), ..RxOptions::default() };
            let opened = AfXdp.open_rx("b", &options).unwrap();
            assert_eq!(opened.changes.join(";").contains("generic mode"), is_generic);
            let mut b = opened.queues.into_iter().next().unwrap();
            let socket = UdpSocket::bind("10.9.0.1:4000").unwrap();
            // The kernel leaves the checksum to the interface.
            socket.send_to(&[1; 101], "10.9.0.2:5000").unwrap();
            let packets = receive(&mut b, 1);
            assert_eq!(packets[0].len(), 14 + 20 + 8 + 101);
            assert!(has_right_checksum(packets[0].data()));
            // A train of TCP segments that is handed over as one; that they were of 1,400 bytes is lost.
            let mut a = AfPacket.open_tx("a", &TxOptions::default()).unwrap().queues.remove(0);
            send(&mut a, &(0..20).map(segment).collect::<Vec<_>>());
            let size = if is_generic { 1460 } else { 1400 };
            let packets = receive(&mut b, (20 * 1400usize).div_ceil(size));
            assert!(packets.iter().all(|packet| has_right_checksum(packet.data())));
            assert!(packets.iter().all(|packet| packet.len() <= 1514));
            let payload: Vec<u8> =
                packets.iter().flat_map(|packet| &packet.data()[54..]).copied().collect();
            assert_eq!(payload.len(), 20 * 1400);
            assert!(payload.chunks(1400).zip(0..).all(|(part, n)| part.iter().all(|b| *b == n)));
            assert_eq!(b.counts().segmented, u64::from(is_generic));
            assert_eq!(merges(), !is_generic);
            drop(b);
            assert!(merges());
        }
    });
}
