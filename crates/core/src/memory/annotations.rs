//! Click's annotations: 48 bytes that travel with each packet.
//!
//! The offsets are Click's (`packet_anno.hh`), so that elements that name an annotation by its offset keep
//! their meaning. Where FastClick moved one, Click's offset applies. Several annotations share bytes; as in
//! Click, the configuration must take care which of them it uses at a time.
//!
//! Numbers are in the machine's byte order, addresses and the VLAN tag in network order.

use std::net::{Ipv4Addr, Ipv6Addr};

pub use super::descriptor::ANNOTATION_LEN;
use super::packet::Packet;
use super::view::View;
use crate::time::Timestamp;

/// The position of a named annotation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AnnotationInfo {
    /// The name in configurations.
    pub name: &'static str,
    /// The first byte.
    pub offset: usize,
    /// Length in bytes.
    pub size: usize,
}

const fn info(name: &'static str, offset: usize, size: usize) -> AnnotationInfo {
    assert!(offset + size <= ANNOTATION_LEN);
    AnnotationInfo { name, offset, size }
}

/// Every annotation that has a name.
pub const ANNOTATIONS: &[AnnotationInfo] = &[
    info("DST_IP", DST_IP, 4),
    info("DST_IP6", DST_IP, 16),
    info("WIFI_EXTRA", 16, 28),
    info("PAINT", PAINT, 1),
    info("ICMP_PARAMPROB", ICMP_PARAMPROB, 1),
    info("CONNECTION", CONNECTION, 1),
    info("FIX_IP_SRC", FIX_IP_SRC, 1),
    info("VLAN_TCI", VLAN_TCI, 2),
    info("VLAN", VLAN_TCI, 2),
    info("AGGREGATE", AGGREGATE, 4),
    info("FWD_RATE", 20, 4),
    info("MISC_IP", MISC_IP, 4),
    info("EXTRA_PACKETS", EXTRA_PACKETS, 4),
    info("REV_RATE", 24, 4),
    info("SEND_ERR", 26, 1),
    info("GRID_ROUTE_CB", 27, 1),
    info("IPREASSEMBLER", EXTRA_LENGTH, 4),
    info("EXTRA_LENGTH", EXTRA_LENGTH, 4),
    info("FIRST_TIMESTAMP", FIRST_TIMESTAMP, 8),
    info("PACKET_NUMBER", PACKET_NUMBER, 4),
    info("FLOW_ID", PACKET_NUMBER, 4),
    info("IPSEC_SPI", PACKET_NUMBER, 4),
    info("SEQUENCE_NUMBER", SEQUENCE_NUMBER, 4),
    info("PERFCTR", PERFCTR, 8),
    info("IPSEC_SA_DATA_REFERENCE", PERFCTR, 8),
];

/// Finds an annotation by its name in a configuration.
pub fn find(name: &str) -> Option<AnnotationInfo> {
    ANNOTATIONS.iter().copied().find(|annotation| annotation.name == name)
}

/// Where the address of a packet's next hop is, of either family, in network order.
pub const DST_IP: usize = 0;
const PAINT: usize = 16;
const ICMP_PARAMPROB: usize = 17;
/// Ours: Click has no name for this byte.
const CONNECTION: usize = 18;
const FIX_IP_SRC: usize = 19;
const VLAN_TCI: usize = 20;
const AGGREGATE: usize = 20;
const MISC_IP: usize = 20;
const EXTRA_PACKETS: usize = 24;
const EXTRA_LENGTH: usize = 28;
const FIRST_TIMESTAMP: usize = 32;
const PACKET_NUMBER: usize = 32;
const SEQUENCE_NUMBER: usize = 36;
const PERFCTR: usize = 40;

/// The methods for annotations, of a packet and of a [`View`] of one.
macro_rules! annotation_methods {
    ($packet:ty) => {
        /// # Annotations by offset
        /// A read beyond the area returns 0, and a write beyond it does nothing; elements check the offsets
        /// in their configuration.
        impl $packet {
            /// The whole area.
            #[inline(always)]
            pub fn annotations(&self) -> &[u8; ANNOTATION_LEN] {
                // SAFETY: the area belongs to this packet's own descriptor and is written through `&mut` only.
                unsafe { &*self.slot().annotations() }
            }

            /// The whole area for writing.
            #[inline(always)]
            pub fn annotations_mut(&mut self) -> &mut [u8; ANNOTATION_LEN] {
                // SAFETY: the area belongs to this packet's own descriptor, which is borrowed alone.
                unsafe { &mut *self.slot().annotations() }
            }

            /// Zeroes the area.
            #[inline]
            pub fn clear_annotations(&mut self) {
                *self.annotations_mut() = [0; ANNOTATION_LEN];
            }

            #[inline(always)]
            fn anno<const N: usize>(&self, offset: usize) -> [u8; N] {
                match self.annotations().get(offset..).and_then(<[u8]>::first_chunk) {
                    Some(bytes) => *bytes,
                    None => [0; N],
                }
            }

            #[inline(always)]
            fn set_anno<const N: usize>(&mut self, offset: usize, value: [u8; N]) {
                if let Some(bytes) =
                    self.annotations_mut().get_mut(offset..).and_then(<[u8]>::first_chunk_mut)
                {
                    *bytes = value;
                }
            }

            /// The byte at `offset`.
            #[inline]
            pub fn anno_u8(&self, offset: usize) -> u8 {
                u8::from_ne_bytes(self.anno(offset))
            }

            /// Sets the byte at `offset`.
            #[inline]
            pub fn set_anno_u8(&mut self, offset: usize, value: u8) {
                self.set_anno(offset, value.to_ne_bytes());
            }

            /// The 16 bits at `offset`.
            #[inline]
            pub fn anno_u16(&self, offset: usize) -> u16 {
                u16::from_ne_bytes(self.anno(offset))
            }

            /// Sets the 16 bits at `offset`.
            #[inline]
            pub fn set_anno_u16(&mut self, offset: usize, value: u16) {
                self.set_anno(offset, value.to_ne_bytes());
            }

            /// The 32 bits at `offset`.
            #[inline]
            pub fn anno_u32(&self, offset: usize) -> u32 {
                u32::from_ne_bytes(self.anno(offset))
            }

            /// Sets the 32 bits at `offset`.
            #[inline]
            pub fn set_anno_u32(&mut self, offset: usize, value: u32) {
                self.set_anno(offset, value.to_ne_bytes());
            }

            /// The 64 bits at `offset`.
            #[inline]
            pub fn anno_u64(&self, offset: usize) -> u64 {
                u64::from_ne_bytes(self.anno(offset))
            }

            /// Sets the 64 bits at `offset`.
            #[inline]
            pub fn set_anno_u64(&mut self, offset: usize, value: u64) {
                self.set_anno(offset, value.to_ne_bytes());
            }
        }

        /// # Annotations by name
        impl $packet {
            /// The packet's next hop: the destination or the gateway.
            #[inline]
            pub fn dst_ip(&self) -> Ipv4Addr {
                Ipv4Addr::from(self.anno::<4>(DST_IP))
            }

            /// Sets the packet's next hop.
            #[inline]
            pub fn set_dst_ip(&mut self, address: Ipv4Addr) {
                self.set_anno(DST_IP, address.octets());
            }

            /// The IPv6 packet's next hop.
            #[inline]
            pub fn dst_ip6(&self) -> Ipv6Addr {
                Ipv6Addr::from(self.anno::<16>(DST_IP))
            }

            /// Sets the IPv6 packet's next hop.
            #[inline]
            pub fn set_dst_ip6(&mut self, address: Ipv6Addr) {
                self.set_anno(DST_IP, address.octets());
            }

            /// The packet's colour.
            #[inline]
            pub fn paint(&self) -> u8 {
                self.anno_u8(PAINT)
            }

            /// Sets the packet's colour.
            #[inline]
            pub fn set_paint(&mut self, paint: u8) {
                self.set_anno_u8(PAINT, paint);
            }

            /// The state of the packet's connection, as ConnectionTracker numbers it; 0 if unknown.
            #[inline]
            pub fn connection(&self) -> u8 {
                self.anno_u8(CONNECTION)
            }

            /// Sets the state of the packet's connection.
            #[inline]
            pub fn set_connection(&mut self, state: u8) {
                self.set_anno_u8(CONNECTION, state);
            }

            /// The offset that an ICMP parameter problem should point to.
            #[inline]
            pub fn icmp_param_prob(&self) -> u8 {
                self.anno_u8(ICMP_PARAMPROB)
            }

            /// Sets the offset that an ICMP parameter problem should point to.
            #[inline]
            pub fn set_icmp_param_prob(&mut self, offset: u8) {
                self.set_anno_u8(ICMP_PARAMPROB, offset);
            }

            /// Whether the sending interface must fill in the source address.
            #[inline]
            pub fn fix_ip_src(&self) -> bool {
                self.anno_u8(FIX_IP_SRC) != 0
            }

            /// Sets whether the sending interface must fill in the source address.
            #[inline]
            pub fn set_fix_ip_src(&mut self, fix: bool) {
                self.set_anno_u8(FIX_IP_SRC, u8::from(fix));
            }

            /// The VLAN tag (priority, drop-eligible bit, number).
            #[inline]
            pub fn vlan_tci(&self) -> u16 {
                u16::from_be_bytes(self.anno(VLAN_TCI))
            }

            /// Sets the VLAN tag.
            #[inline]
            pub fn set_vlan_tci(&mut self, tci: u16) {
                self.set_anno(VLAN_TCI, tci.to_be_bytes());
            }

            /// The number of the aggregate (flow, prefix) that the packet belongs to.
            #[inline]
            pub fn aggregate(&self) -> u32 {
                self.anno_u32(AGGREGATE)
            }

            /// Sets the aggregate number.
            #[inline]
            pub fn set_aggregate(&mut self, aggregate: u32) {
                self.set_anno_u32(AGGREGATE, aggregate);
            }

            /// An address for any other purpose.
            #[inline]
            pub fn misc_ip(&self) -> Ipv4Addr {
                Ipv4Addr::from(self.anno::<4>(MISC_IP))
            }

            /// How many packets this one stands for, in addition to itself.
            #[inline]
            pub fn extra_packets(&self) -> u32 {
                self.anno_u32(EXTRA_PACKETS)
            }

            /// Sets how many packets this one stands for, in addition to itself.
            #[inline]
            pub fn set_extra_packets(&mut self, packets: u32) {
                self.set_anno_u32(EXTRA_PACKETS, packets);
            }

            /// How many bytes the packet had on the wire, in addition to those captured.
            #[inline]
            pub fn extra_length(&self) -> u32 {
                self.anno_u32(EXTRA_LENGTH)
            }

            /// Sets how many bytes the packet had on the wire, in addition to those captured.
            #[inline]
            pub fn set_extra_length(&mut self, bytes: u32) {
                self.set_anno_u32(EXTRA_LENGTH, bytes);
            }

            /// The timestamp of the first packet of those that this one stands for.
            #[inline]
            pub fn first_timestamp(&self) -> Timestamp {
                Timestamp::from_nanos(i64::from_ne_bytes(self.anno(FIRST_TIMESTAMP)))
            }

            /// Sets the timestamp of the first packet of those that this one stands for.
            #[inline]
            pub fn set_first_timestamp(&mut self, timestamp: Timestamp) {
                self.set_anno(FIRST_TIMESTAMP, timestamp.as_nanos().to_ne_bytes());
            }

            /// The packet's number in its stream.
            #[inline]
            pub fn packet_number(&self) -> u32 {
                self.anno_u32(PACKET_NUMBER)
            }

            /// Sets the packet's number in its stream.
            #[inline]
            pub fn set_packet_number(&mut self, number: u32) {
                self.set_anno_u32(PACKET_NUMBER, number);
            }

            /// The value of a performance counter when the packet passed.
            #[inline]
            pub fn perfctr(&self) -> u64 {
                self.anno_u64(PERFCTR)
            }

            /// Sets the value of a performance counter.
            #[inline]
            pub fn set_perfctr(&mut self, count: u64) {
                self.set_anno_u64(PERFCTR, count);
            }
        }
    };
}

annotation_methods!(Packet);
annotation_methods!(View);

impl Packet {
    /// Copies another packet's annotations, timestamp, packet type and device.
    pub fn copy_annotations(&mut self, from: &Packet) {
        *self.annotations_mut() = *from.annotations();
        self.set_timestamp(from.timestamp());
        self.set_packet_type(from.packet_type());
        self.set_device(from.device());
    }
}
