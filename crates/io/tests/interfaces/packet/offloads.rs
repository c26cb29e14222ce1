//! Checksums and segments that the kernel left undone.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use millrace_core::Packet;
use millrace_io::RxOptions;

use super::{by_each_method, receive_from, transmit_by};
use crate::rig::{has_right_checksum, receive, segment, send};

#[test]
fn offloads_are_dealt_with() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method(|method| {
        let mut b = receive_from("b", &RxOptions { method, ..RxOptions::default() });
        let socket = UdpSocket::bind("10.9.0.1:4000").unwrap();
        // The kernel leaves the checksum to the interface.
        socket.send_to(&[1; 101], "10.9.0.2:5000").unwrap();
        let packets = receive(&mut b, 1);
        assert_eq!(packets[0].len(), 14 + 20 + 8 + 101);
        assert!(has_right_checksum(packets[0].data()));
        segment_datagrams(&socket, 1000);
        socket.send_to(&[2; 3500], "10.9.0.2:5000").unwrap();
        let packets = receive(&mut b, 4);
        let lengths: Vec<usize> = packets.iter().map(|packet| packet.len() - 42).collect();
        assert_eq!(lengths, [1000, 1000, 1000, 500]);
        assert!(packets.iter().all(|packet| has_right_checksum(packet.data())));
        assert!(packets.iter().all(|packet| !packet.timestamp().is_zero()));
        assert!(packets.iter().all(|packet| packet.mac_header() == Some(0)));
        assert_eq!(b.counts().segmented, 1);
    });
}

#[test]
fn streams_cross_the_wire_as_a_whole() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method(|method| {
        let options = RxOptions { method: method.clone(), ..RxOptions::default() };
        let mut b = receive_from("b", &options);
        let mut a = transmit_by(method, "a");
        let mut frames: Vec<Vec<u8>> = (0..40).map(segment).collect();
        // A wrong checksum stays wrong.
        frames[30][60] ^= 1;
        send(&mut a, &frames);
        let packets = receive(&mut b, frames.len());
        assert!(packets.iter().map(Packet::data).eq(frames.iter().map(Vec::as_slice)));
        // Those before and those behind it.
        assert_eq!(b.counts().segmented, 2);
    });
}

/// Has the kernel cut what is sent into datagrams of so many bytes, as late as possible.
#[allow(unsafe_code, reason = "no library offers this option")]
fn segment_datagrams(socket: &UdpSocket, size: libc::c_int) {
    const UDP_SEGMENT: libc::c_int = 103;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is an integer of the length that is given.
    let result = unsafe {
        let value = (&raw const size).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, UDP_SEGMENT, value, length)
    };
    assert_eq!(result, 0);
}
