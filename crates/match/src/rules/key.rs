//! The part of a packet that a classifier reads: seven fields in eight words.

/// The fields of a packet that rules look at.
///
/// | word | bits | |
/// |---|---|---|
/// | 0 | 31-0 | Ethernet destination, first four bytes |
/// | 1 | 31-16, 15-0 | Ethernet destination, last two bytes; Ethernet source, first two |
/// | 2 | 31-0 | Ethernet source, last four bytes |
/// | 3 | 31-16, 15-8, 7-0 | EtherType; protocol; which fields there are: [`ETHERNET`](Self::ETHERNET)... |
/// | 4 | 31-0 | IPv4 source |
/// | 5 | 31-0 | IPv4 destination |
/// | 6 | 31-16, 15-0 | source port; destination port |
/// | 7 | 31-0 | 0 |
///
/// Words 0 to 3 are the Ethernet header as it comes, read in network order, with the type behind any VLAN tags.
/// A field that a packet lacks is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C, align(32))]
pub struct Key([u32; Key::WORDS]);

impl Key {
    /// The number of words of a key.
    pub const WORDS: usize = 8;

    /// Flag: the packet has Ethernet addresses.
    pub const ETHERNET: u32 = 1;
    /// Flag: it has an EtherType.
    pub const TYPE: u32 = 2;
    /// Flag: it has an IPv4 header, and therefore addresses and a protocol.
    pub const IPV4: u32 = 4;
    /// Flag: it has ports of TCP or UDP.
    pub const PORTS: u32 = 8;

    /// Reads an Ethernet frame, from the destination address to the end of the packet.
    ///
    /// - Addresses: of any frame of 14 bytes.
    /// - EtherType: the one behind all VLAN tags (0x8100, 0x88a8); the outermost one if a tag is cut off. What is below
    ///   0x0600 is a length and no type.
    /// - IPv4 addresses and protocol: EtherType 0x0800, and twenty bytes that begin with version 4 and a header
    ///   length of at least 20. The checksum is not looked at: CheckIPHeader is for that.
    /// - Ports: protocol TCP or UDP, fragment offset 0, and four bytes behind the IP header, options included, within
    ///   both the packet and the IP total length. A total length shorter than the header does not count.
    #[inline(always)]
    pub fn of_frame(frame: &[u8]) -> Self {
        let Some((header, mut rest)) = frame.split_first_chunk::<14>() else {
            return Self::default();
        };
        let [.., t0, t1] = *header;
        let mut ether_type = u16::from_be_bytes([t0, t1]);
        if (ether_type == VLAN || ether_type == SERVICE_VLAN)
            && let Some(behind) = behind_tags(ether_type, rest)
        {
            (ether_type, rest) = behind;
        }
        let mut key = Self([0; Self::WORDS]);
        key.set_ethernet(header, ether_type);
        if ether_type == IPV4
            && let Some((ip, _)) = rest.split_first_chunk::<20>()
        {
            key.set_ipv4(ip, || ports_behind(ip, rest));
        }
        key
    }

    /// Reads an IPv4 datagram without a link header. Ethernet addresses and EtherType are absent.
    #[inline(always)]
    pub fn of_datagram(datagram: &[u8]) -> Self {
        let mut key = Self::default();
        if let Some((ip, _)) = datagram.split_first_chunk::<20>() {
            key.set_ipv4(ip, || ports_behind(ip, datagram));
        }
        key
    }

    /// Reads parts of a packet, as a GPU is given them; each shorter or empty where the packet has no more of it:
    ///
    /// - `ethernet`: the Ethernet header, 14 bytes;
    /// - `ether_type`: two bytes in front of the network header;
    /// - `network`: 20 bytes of the network header;
    /// - `transport`: four bytes of the transport header, which a later fragment has not.
    ///
    /// The same as [`of_frame`](Self::of_frame), and [`of_datagram`](Self::of_datagram) where there is no Ethernet header.
    #[inline(always)]
    pub fn of_slices(ethernet: &[u8], ether_type: &[u8], network: &[u8], transport: &[u8]) -> Self {
        let mut key = Self::default();
        let mut may_be_ipv4 = true;
        if let Some((header, _)) = ethernet.split_first_chunk::<14>() {
            let inner = ether_type.first_chunk().or(header.last_chunk());
            let ether_type = inner.map_or(0, |bytes| u16::from_be_bytes(*bytes));
            key.set_ethernet(header, ether_type);
            may_be_ipv4 = ether_type == IPV4;
        }
        if may_be_ipv4 && let Some((ip, _)) = network.split_first_chunk::<20>() {
            key.set_ipv4(ip, || transport.first_chunk().copied());
        }
        key
    }

    #[inline(always)]
    fn set_ethernet(&mut self, header: &[u8; 14], ether_type: u16) {
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, _, _] = *header;
        self.0[0] = u32::from_be_bytes([d0, d1, d2, d3]);
        self.0[1] = u32::from_be_bytes([d4, d5, s0, s1]);
        self.0[2] = u32::from_be_bytes([s2, s3, s4, s5]);
        self.0[3] = match ether_type {
            0..LOWEST_TYPE => Self::ETHERNET,
            _ => u32::from(ether_type) << 16 | Self::ETHERNET | Self::TYPE,
        };
    }

    #[inline(always)]
    fn set_ipv4(&mut self, ip: &[u8; 20], ports: impl FnOnce() -> Option<[u8; 4]>) {
        if ip[0] >> 4 != 4 || ip[0] & 0xf < 5 {
            return;
        }
        let protocol = ip[9];
        self.0[3] |= u32::from(protocol) << 8 | Self::IPV4;
        self.0[4] = u32::from_be_bytes([ip[12], ip[13], ip[14], ip[15]]);
        self.0[5] = u32::from_be_bytes([ip[16], ip[17], ip[18], ip[19]]);
        if (protocol == TCP || protocol == UDP)
            && let Some(ports) = ports()
        {
            self.0[3] |= Self::PORTS;
            self.0[6] = u32::from_be_bytes(ports);
        }
    }

    /// A key with these words; the last one is taken as 0.
    pub const fn from_words(words: [u32; Self::WORDS]) -> Self {
        let [w0, w1, w2, w3, w4, w5, w6, _] = words;
        Self([w0, w1, w2, w3, w4, w5, w6, 0])
    }

    /// The words.
    #[inline(always)]
    pub const fn words(&self) -> &[u32; Self::WORDS] {
        &self.0
    }

    /// The key with only the bits that are set in `mask`.
    #[inline(always)]
    #[must_use]
    pub fn masked(&self, mask: &[u32; Self::WORDS]) -> Self {
        let mut key = *self;
        for (word, mask) in key.0.iter_mut().zip(mask) {
            *word &= mask;
        }
        key
    }

    /// True if the packet has all fields of these flags.
    #[inline]
    pub fn has(&self, flags: u32) -> bool {
        self.0[3] & flags == flags
    }

    /// Ethernet destination and source, 48 bits each.
    pub fn ethernet(&self) -> (u64, u64) {
        let [w0, w1, w2, ..] = self.0.map(u64::from);
        (w0 << 16 | w1 >> 16, (w1 & 0xffff) << 32 | w2)
    }

    /// The EtherType.
    pub fn ether_type(&self) -> u16 {
        (self.0[3] >> 16) as u16
    }

    /// The protocol above IP.
    pub fn protocol(&self) -> u8 {
        (self.0[3] >> 8) as u8
    }

    /// IPv4 source and destination.
    pub fn addresses(&self) -> (u32, u32) {
        (self.0[4], self.0[5])
    }

    /// Source and destination port.
    pub fn ports(&self) -> (u16, u16) {
        ((self.0[6] >> 16) as u16, self.0[6] as u16)
    }
}

const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
const IPV4: u16 = 0x0800;
/// Smaller values are lengths (IEEE 802.3).
pub(super) const LOWEST_TYPE: u16 = 0x0600;
const OFFSET_MASK: u16 = 0x1fff;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The type after VLAN tags, and what follows it; `None` if a tag is truncated.
#[cold]
fn behind_tags(mut ether_type: u16, mut rest: &[u8]) -> Option<(u16, &[u8])> {
    while ether_type == VLAN || ether_type == SERVICE_VLAN {
        let (&[_, _, t0, t1], behind) = rest.split_first_chunk::<4>()?;
        (ether_type, rest) = (u16::from_be_bytes([t0, t1]), behind);
    }
    Some((ether_type, rest))
}

/// The four bytes after an IP header, unless they belong to a later fragment.
#[inline(always)]
fn ports_behind(ip: &[u8; 20], datagram: &[u8]) -> Option<[u8; 4]> {
    let header_len = usize::from(ip[0] & 0xf) * 4;
    let total_len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    let is_first = u16::from_be_bytes([ip[6], ip[7]]) & OFFSET_MASK == 0;
    let is_there = !(header_len..header_len + 4).contains(&total_len);
    let ports = datagram.get(header_len..)?.first_chunk()?;
    (is_first && is_there).then_some(*ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u32 = Key::ETHERNET | Key::TYPE | Key::IPV4 | Key::PORTS;

    /// A frame with a UDP datagram with `options` bytes of IP options, after `tags` VLAN tags.
    fn frame(tags: usize, options: usize) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1];
        for tag in 0..tags {
            frame.extend(if tag == 0 && tags > 1 { [0x88, 0xa8] } else { [0x81, 0] });
            frame.extend([0, tag as u8]);
        }
        frame.extend([8, 0]);
        let ihl = 0x45 + options as u8 / 4;
        let len = (20 + options + 12) as u8;
        frame.extend([ihl, 0, 0, len, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.resize(frame.len() + options, 1);
        frame.extend([4, 210, 0, 53, 0, 12, 0, 0, b'd', b'a', b't', b'a']);
        frame
    }

    #[test]
    fn fields_are_where_the_layout_says() {
        let key = Key::of_frame(&frame(0, 0));
        let [w0, w1, w2, w3, w4, w5, w6, w7] = *key.words();
        assert_eq!([w0, w1, w2], [0x0200_0000, 0x0009_0200, 0x0000_0001]);
        assert_eq!(w3, 0x0800_1100 | ALL);
        assert_eq!([w4, w5, w6, w7], [0x0a00_0001, 0x0a00_0002, 0x04d2_0035, 0]);
        assert_eq!(key.ethernet(), (0x0200_0000_0009, 0x0200_0000_0001));
        assert_eq!((key.ether_type(), key.protocol()), (0x0800, 17));
        assert_eq!((key.addresses(), key.ports()), ((0x0a00_0001, 0x0a00_0002), (1234, 53)));
    }

    #[test]
    fn fields_after_tags_and_options_are_found() {
        let plain = Key::of_frame(&frame(0, 0));
        for (tags, options) in [(1, 0), (2, 0), (9, 0), (0, 4), (0, 40), (2, 8)] {
            assert_eq!(Key::of_frame(&frame(tags, options)), plain, "{tags} {options}");
        }
    }

    #[test]
    fn fields_of_truncated_packets_are_absent() {
        let whole = frame(2, 4);
        for len in 0..=whole.len() {
            let key = Key::of_frame(&whole[..len]);
            let (ether_type, flags) = match len {
                0..14 => (0, 0),
                14..22 => (0x88a8, Key::ETHERNET | Key::TYPE),
                22..42 => (0x0800, Key::ETHERNET | Key::TYPE),
                42..50 => (0x0800, ALL & !Key::PORTS),
                _ => (0x0800, ALL),
            };
            assert_eq!((key.ether_type(), key.words()[3] & 0xff), (ether_type, flags), "{len}");
        }
    }

    #[test]
    fn ports_are_of_first_fragments_of_tcp_and_udp_alone() {
        let ports_of = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = frame(0, 0);
            change(&mut frame);
            let key = Key::of_frame(&frame);
            (key.has(Key::IPV4), key.has(Key::PORTS))
        };
        assert_eq!(ports_of(&|_| ()), (true, true));
        assert_eq!(ports_of(&|frame| frame[20] = 0x20), (true, true), "first of several");
        assert_eq!(ports_of(&|frame| frame[21] = 1), (true, false), "a later fragment");
        assert_eq!(ports_of(&|frame| frame[20] = 0x10), (true, false), "a later fragment");
        assert_eq!(ports_of(&|frame| frame[23] = 6), (true, true), "TCP");
        assert_eq!(ports_of(&|frame| frame[23] = 132), (true, false), "SCTP");
        assert_eq!(ports_of(&|frame| frame[17] = 23), (true, false), "padding behind the datagram");
        assert_eq!(ports_of(&|frame| frame[17] = 24), (true, true));
        assert_eq!(ports_of(&|frame| frame[17] = 20), (true, false), "nothing behind the header");
        assert_eq!(ports_of(&|frame| frame[17] = 19), (true, true), "no length to believe");
        assert_eq!(ports_of(&|frame| frame[14] = 0x44), (false, false), "header length");
        assert_eq!(ports_of(&|frame| frame[14] = 0x65), (false, false), "version");
    }

    #[test]
    fn lengths_are_not_ether_types() {
        let mut frame = frame(0, 0);
        frame[12..14].copy_from_slice(&[0x05, 0xff]);
        let key = Key::of_frame(&frame);
        assert_eq!((key.ether_type(), key.words()[3]), (0, Key::ETHERNET));
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        let key = Key::of_frame(&frame);
        assert_eq!((key.ether_type(), key.has(Key::IPV4)), (0x86dd, false));
    }

    #[test]
    fn the_key_of_slices_equals_that_of_the_frame() {
        for (tags, options) in [(0, 0), (1, 4), (2, 0)] {
            let frame = frame(tags, options);
            let network = 14 + 4 * tags;
            let transport = network + 20 + options;
            let slices =
                [0..14, network - 2..network, network..network + 20, transport..transport + 4];
            let [ethernet, ether_type, network, transport] = slices.map(|slice| &frame[slice]);
            let of = |network, transport| Key::of_slices(ethernet, ether_type, network, transport);
            assert_eq!(of(network, transport), Key::of_frame(&frame));
            assert_eq!(of(network, &transport[1..]), Key::of_frame(&frame[..frame.len() - 9]));
            assert_eq!(of(&network[1..], transport).words()[3], 0x0800_0003);
            assert_eq!(of(network, &[]).words()[3], 0x0800_1107);
            let bare = Key::of_slices(&[], &[], network, transport);
            assert_eq!(bare, Key::of_datagram(&frame[14 + 4 * tags..]));
        }
        let arp = [&[0; 12][..], &[8, 6]].concat();
        assert_eq!(Key::of_slices(&arp, &[], &[0x45; 20], &[]), Key::of_frame(&arp));
    }

    #[test]
    fn a_datagram_has_no_ethernet_fields() {
        let whole = Key::of_frame(&frame(0, 0));
        let bare = Key::of_datagram(&frame(0, 0)[14..]);
        assert_eq!(bare.words()[..3], [0; 3]);
        assert_eq!(bare.words()[3], 0x1100 | Key::IPV4 | Key::PORTS);
        assert_eq!(bare.words()[4..], whole.words()[4..]);
        assert_eq!(Key::of_datagram(&[]), Key::default());
    }
}
