//! What a neighbour left to the hardware: checksums and segments.

use std::net::UdpSocket;

use millrace_core::checksum::Sum;
use millrace_io::af_packet::AfPacket;
use millrace_io::af_xdp::AfXdp;
use millrace_io::{Backend, Queues, RxOptions, TxOptions, XdpHook};

use super::rig::{B, Namespace, frame, output, receive, run, send, xdp};

#[test]
fn what_a_neighbour_leaves_undone_is_done() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl", "ethtool") else { return };
    Namespace::new("xdp-offloads").run(|_| {
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

/// A segment with 1,400 bytes of a TCP stream.
fn segment(n: u32) -> Vec<u8> {
    let mut ip = [0x45, 0, 5, 0xa0, 0, n as u8, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
    let sum = Sum::of(&ip).finish().to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let mut tcp = vec![n as u8; 1420];
    tcp[..4].copy_from_slice(&[0, 7, 0, 9]);
    tcp[4..8].copy_from_slice(&(n * 1400).to_be_bytes());
    tcp[8..20].copy_from_slice(&[0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let pseudo = Sum::of(&ip[12..20]).add_u16(6).add_u16(tcp.len() as u16);
    let sum = pseudo.add_bytes(&tcp).finish().to_be_bytes();
    tcp[16..18].copy_from_slice(&sum);
    frame(B, [8, 0], &[&ip[..], &tcp].concat())
}

/// Of UDP or TCP over IPv4 in Ethernet.
fn has_right_checksum(frame: &[u8]) -> bool {
    let length = frame.len() - 34;
    let pseudo = Sum::of(&frame[26..34]).add_u16(frame[23].into()).add_u16(length as u16);
    pseudo.add_bytes(&frame[34..]).is_right()
}
