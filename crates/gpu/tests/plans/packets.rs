//! Packets of all kinds, which know by construction where their layers are.

use std::ops::Range;

use millrace_core::Packet;
use millrace_core::headers::protocol;
use millrace_gpu::region::{Base, Extent, Region};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// What a packet is made of.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    tags: Vec<u16>,
    network: Network,
    transport: Transport,
    payload: Vec<u8>,
    /// Bytes behind the IP packet.
    padding: usize,
    /// What the frame is cut to.
    cut: Option<usize>,
    marks: Marks,
    annotations: Annotations,
}

#[derive(Clone, Debug)]
enum Network {
    Ipv4 {
        options: usize,
        /// In units of 8 bytes.
        fragment: u16,
    },
    Ipv6 {
        extensions: Vec<Extension>,
    },
    /// Anything else, with the EtherType.
    Other(u16),
}

#[derive(Clone, Copy, Debug)]
enum Extension {
    HopByHop(u8),
    Routing(u8),
    Destination(u8),
    Fragment(u16),
    Authentication(u8),
}

#[derive(Clone, Copy, Debug)]
enum Transport {
    Tcp { options: usize },
    Udp,
    Icmp,
    Sctp,
    Esp,
    Nothing,
    Unknown,
}

/// Where the packet begins and what is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marks {
    /// A frame without marks.
    None,
    /// A frame whose link-layer header is marked.
    Link,
    /// A frame whose network header is marked.
    Network,
    /// A frame with both marks, the network header at the first tag, if there is one.
    AtTag,
    /// The link-layer header is marked, and stripped together with tags.
    LinkStripped,
    /// The same, with the network header marked.
    BothStripped,
    /// There is no link-layer header: the packet begins at its network header.
    Bare,
    /// The same, and that one is stripped as well.
    BareStripped,
}

/// A packet, and what is known of it.
pub(crate) struct Built {
    pub(crate) packet: Packet,
    /// Its bytes from the first header on, whether they are data or headroom.
    pub(crate) frame: Vec<u8>,
    /// Where the data begins in them.
    data: usize,
    start: [Option<usize>; 5],
    ip_end: usize,
}

impl Built {
    /// Which bytes of the frame (or of the annotations) are a region's, with those that are not there: where the region
    /// would be, and where it ends.
    fn place(&self, region: &Region) -> Option<(isize, isize)> {
        let (start, end) = match region.base {
            Base::Annotation => (0, 48),
            Base::Ethernet if region.extent != Extent::ToEnd => (self.start[0]?, self.frame.len()),
            base => (self.start[base as usize - 1]?, self.ip_end),
        };
        Some((start as isize + isize::from(region.offset), end as isize))
    }

    pub(crate) fn has_ethernet(&self) -> bool {
        self.start[0].is_some()
    }

    /// What the packet has of a region, in bytes of the frame: empty when its first byte is not there.
    pub(crate) fn range(&self, region: &Region) -> Range<usize> {
        let Some((at, end)) = self.place(region) else { return 0..0 };
        let end = match region.extent {
            Extent::Bytes(bytes) => end.min(at + isize::from(bytes as i16)),
            Extent::ToEnd => end,
        };
        if at < 0 || at >= end { 0..0 } else { at as usize..end as usize }
    }

    /// What the packet has of a region.
    pub(crate) fn slice(&self, region: &Region) -> &[u8] {
        let bytes = if region.base == Base::Annotation {
            self.packet.annotations().as_slice()
        } else {
            &self.frame
        };
        &bytes[self.range(region)]
    }

    /// What a column holds for a region of `bytes` bytes: zeros where the packet has none.
    pub(crate) fn padded(&self, region: &Region, bytes: usize) -> Vec<u8> {
        let mut row = vec![0; bytes];
        let Some((at, end)) = self.place(region) else { return row };
        let from = if region.base == Base::Annotation {
            self.packet.annotations().as_slice()
        } else {
            &self.frame
        };
        for (index, byte) in row.iter_mut().enumerate() {
            let place = at + index as isize;
            if (0..end).contains(&place) {
                *byte = from[place as usize];
            }
        }
        row
    }

    /// The bytes of a packet made of this one, from the frame's start on.
    pub(crate) fn frame_now(&self, packet: &Packet) -> Vec<u8> {
        let mut packet = packet.copy().unwrap();
        assert!(packet.unstrip(self.data));
        packet.data().to_vec()
    }
}

impl Shape {
    /// Builds the packet.
    pub(crate) fn build(&self) -> Built {
        let mut bytes = Vec::new();
        // The frame's length that each layer needs to be found.
        let mut found: [Option<(usize, usize)>; 5] = [None; 5];
        let bare = matches!(self.marks, Marks::Bare | Marks::BareStripped);
        if !bare {
            found[0] = Some((0, 0));
            bytes.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
            for (index, tag) in self.tags.iter().enumerate() {
                bytes.extend(tag.to_be_bytes());
                bytes.extend([0x40 | index as u8, 7]);
            }
            bytes.extend(self.network.ether_type().to_be_bytes());
        }
        let network = bytes.len();
        // A mark says where it is, whatever is there of the Ethernet header.
        found[1] = Some((network, network));
        let mut transport = self.transport.header();
        transport.extend(&self.payload);
        let carried = self.push_network(&mut bytes, &transport, &mut found);
        let mut ip_end = carried.unwrap_or(usize::MAX);
        bytes.extend(std::iter::repeat_n(0xfb, self.padding));

        let stripped = match self.marks {
            Marks::LinkStripped | Marks::BothStripped => network,
            Marks::BareStripped => network + 4,
            _ => 0,
        };
        let cut = self.cut.unwrap_or(usize::MAX).clamp(stripped, bytes.len());
        bytes.truncate(cut);
        if found[1].is_some_and(|(_, needs)| needs > cut) {
            found = [found[0], None, None, None, None];
        }
        if found[2].is_none_or(|(_, needs)| self.network.fixed() + network > cut.min(needs)) {
            ip_end = cut;
        }
        let start = found.map(|layer| layer.filter(|&(_, needs)| needs <= cut).map(|(at, _)| at));
        let mut packet = Packet::from_bytes(&bytes).unwrap();
        self.mark(&mut packet, network);
        assert!(packet.strip(stripped));
        *packet.annotations_mut() = self.annotations.bytes();
        Built { packet, ip_end: ip_end.min(cut), frame: bytes, data: stripped, start }
    }

    fn mark(&self, packet: &mut Packet, network: usize) {
        if matches!(
            self.marks,
            Marks::Link | Marks::LinkStripped | Marks::BothStripped | Marks::AtTag
        ) {
            packet.set_mac_header(0);
        }
        match self.marks {
            Marks::Network | Marks::BothStripped | Marks::Bare | Marks::BareStripped => {
                packet.set_network_header(network as isize, 20);
            }
            Marks::AtTag => packet.set_network_header(14, 20),
            _ => {}
        }
    }

    /// Puts the network header and what it carries, and says where that ends, when it is IP.
    fn push_network(
        &self,
        bytes: &mut Vec<u8>,
        carried: &[u8],
        found: &mut [Option<(usize, usize)>; 5],
    ) -> Option<usize> {
        let network = bytes.len();
        match &self.network {
            Network::Other(_) => {
                bytes.extend(carried);
                return None;
            }
            Network::Ipv4 { options, fragment } => {
                let header_len = 20 + options * 4;
                let total = (header_len + carried.len()) as u16;
                bytes.extend([0x40 | (header_len / 4) as u8, 0]);
                bytes.extend(total.to_be_bytes());
                bytes.extend([0, 1]);
                bytes.extend(fragment.to_be_bytes());
                bytes.extend([64, self.transport.protocol(), 0, 0]);
                bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
                bytes.extend(std::iter::repeat_n(1, options * 4));
                let at = bytes.len();
                found[2] = Some((at, at));
                self.transport_at(at, at, *fragment > 0, found);
            }
            Network::Ipv6 { extensions } => {
                let mut chain = Vec::new();
                let mut later = None;
                let mut kinds: Vec<u8> = extensions.iter().map(|one| one.kind()).collect();
                kinds.push(self.transport.protocol());
                for (extension, next) in extensions.iter().zip(&kinds[1..]) {
                    chain.extend(extension.bytes(*next));
                    if let Extension::Fragment(1..) = extension {
                        later = later.or(Some(network + 40 + chain.len()));
                    }
                }
                bytes.extend([0x60, 0, 0, 0]);
                bytes.extend(((chain.len() + carried.len()) as u16).to_be_bytes());
                bytes.extend([kinds[0], 64]);
                bytes.extend(0..32);
                let at = bytes.len();
                found[2] = Some((at, at));
                bytes.extend(&chain);
                match later {
                    Some(at) => found[4] = Some((at, at)),
                    None => self.transport_at(bytes.len(), bytes.len(), false, found),
                }
            }
        }
        bytes.extend(carried);
        Some(bytes.len())
    }

    fn transport_at(
        &self,
        at: usize,
        needs: usize,
        later_fragment: bool,
        found: &mut [Option<(usize, usize)>; 5],
    ) {
        if later_fragment {
            found[4] = Some((at, needs));
            return;
        }
        if matches!((self.transport, &self.network), (Transport::Nothing, Network::Ipv6 { .. })) {
            return;
        }
        let behind = at + self.transport.header().len();
        found[3] = Some((at, needs));
        found[4] = Some((behind, behind));
    }
}

impl Network {
    fn ether_type(&self) -> u16 {
        match self {
            Self::Ipv4 { .. } => 0x0800,
            Self::Ipv6 { .. } => 0x86dd,
            Self::Other(ether_type) => *ether_type,
        }
    }

    /// Bytes of the header's fixed part.
    fn fixed(&self) -> usize {
        match self {
            Self::Ipv4 { .. } => 20,
            Self::Ipv6 { .. } => 40,
            Self::Other(_) => 0,
        }
    }
}

impl Extension {
    fn kind(self) -> u8 {
        match self {
            Self::HopByHop(_) => protocol::HOP_BY_HOP,
            Self::Routing(_) => protocol::ROUTING,
            Self::Destination(_) => protocol::DESTINATION_OPTIONS,
            Self::Fragment(_) => protocol::FRAGMENT,
            Self::Authentication(_) => protocol::AH,
        }
    }

    fn bytes(self, next: u8) -> Vec<u8> {
        let (len, bytes) = match self {
            Self::HopByHop(len) | Self::Routing(len) | Self::Destination(len) => {
                (len, usize::from(len) * 8 + 8)
            }
            Self::Authentication(len) => (len, usize::from(len) * 4 + 8),
            Self::Fragment(_) => (0, 8),
        };
        let mut header = vec![5; bytes];
        (header[0], header[1]) = (next, len);
        if let Self::Fragment(offset) = self {
            header[2..4].copy_from_slice(&(offset << 3).to_be_bytes());
        }
        header
    }
}

impl Transport {
    fn protocol(self) -> u8 {
        match self {
            Self::Tcp { .. } => protocol::TCP,
            Self::Udp => protocol::UDP,
            Self::Icmp => protocol::ICMP,
            Self::Sctp => protocol::SCTP,
            Self::Esp => protocol::ESP,
            Self::Nothing => protocol::NO_NEXT_HEADER,
            Self::Unknown => 200,
        }
    }

    fn header(self) -> Vec<u8> {
        let len = match self {
            Self::Tcp { options } => 20 + options * 4,
            Self::Udp | Self::Icmp => 8,
            Self::Sctp => 12,
            Self::Esp | Self::Nothing | Self::Unknown => 0,
        };
        let mut header: Vec<u8> = (0x80..).take(len).collect();
        if let Self::Tcp { options } = self {
            header[12] = ((5 + options) << 4) as u8;
        }
        header
    }
}

/// Packets with and without everything that moves headers.
pub(crate) fn shapes() -> impl Strategy<Value = Shape> {
    let extension = (0..6u8, 0..3u8).prop_map(|(kind, len)| match kind {
        0 => Extension::HopByHop(len),
        1 => Extension::Routing(len),
        2 => Extension::Destination(len),
        3 => Extension::Fragment(0),
        4 => Extension::Fragment(77),
        _ => Extension::Authentication(len * 2),
    });
    let network = prop_oneof![
        3 => (0..=10usize, select(vec![0, 0, 0, 3])).prop_map(|(options, fragment)| Network::Ipv4 { options, fragment }),
        2 => vec(extension, 0..4).prop_map(|extensions| Network::Ipv6 { extensions }),
        1 => select(vec![0x0806, 0x0040, 0x8847]).prop_map(Network::Other),
    ];
    let transport = prop_oneof![
        (0..=10usize).prop_map(|options| Transport::Tcp { options }),
        Just(Transport::Udp),
        Just(Transport::Icmp),
        Just(Transport::Sctp),
        Just(Transport::Esp),
        Just(Transport::Nothing),
        Just(Transport::Unknown),
    ];
    let marks = select(vec![
        Marks::None,
        Marks::Link,
        Marks::Network,
        Marks::AtTag,
        Marks::LinkStripped,
        Marks::BothStripped,
        Marks::Bare,
        Marks::BareStripped,
    ]);
    let bytes = (0..=20usize, proptest::option::of(0..160usize));
    let tags = vec(select(vec![0x8100u16, 0x88a8]), 0..3);
    (tags, network, transport, vec(any::<u8>(), 0..70), bytes, marks, any::<u64>()).prop_map(
        |(tags, network, transport, payload, (padding, cut), marks, annotations)| {
            // What no mark and no EtherType calls IP must not look like it.
            let marks = match (&network, marks) {
                (Network::Other(_), Marks::Bare | Marks::BareStripped) => Marks::None,
                (_, marks) => marks,
            };
            let annotations = Annotations(annotations);
            Shape { tags, network, transport, payload, padding, cut, marks, annotations }
        },
    )
}

/// Regions of a packet; written ones among them when `writes`.
pub(crate) fn regions(writes: bool) -> impl Strategy<Value = Region> {
    use millrace_gpu::region::Access;
    let base = select(Base::ALL.to_vec());
    let access = if writes {
        select(vec![Access::Read, Access::Write, Access::ReadWrite])
    } else {
        select(vec![Access::Read])
    };
    (base, -6..40i16, 1..44u16, access, 0..8u8).prop_map(|(base, offset, bytes, access, end)| {
        if base == Base::Annotation {
            let offset = offset.clamp(0, 44);
            return Region::read(base, offset, bytes.min(48 - offset as u16)).with(access);
        }
        match end {
            0 => Region::to_end(base, offset),
            _ => Region::read(base, offset, bytes).with(access),
        }
    })
}

/// Annotations, by the seed of their bytes.
#[derive(Clone, Copy, Debug)]
struct Annotations(u64);

impl Annotations {
    fn bytes(self) -> [u8; 48] {
        let mut rng = fastrand::Rng::with_seed(self.0);
        std::array::from_fn(|_| rng.u8(..))
    }
}
