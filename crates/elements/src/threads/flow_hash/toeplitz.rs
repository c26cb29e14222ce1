//! The Toeplitz hash of receive-side scaling, as network cards compute it (Microsoft, "RSS hashing functions").

/// Length of a key in bytes: enough for two IPv6 addresses and two ports.
pub(super) const KEY_LEN: usize = 40;

/// The key of Microsoft's verification suite, the default of many cards.
pub(super) const MICROSOFT: [u8; KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key that gives both directions of a connection the same hash: it has a period of 16 bits, so
/// swapping the addresses and the ports does not change the hash (Woo and Park, "Scalable TCP
/// session monitoring with symmetric receive-side scaling", 2012).
pub(super) const SYMMETRIC: [u8; KEY_LEN] = {
    let mut key = [0x6d; KEY_LEN];
    let mut at = 1;
    while at < KEY_LEN {
        key[at] = 0x5a;
        at += 2;
    }
    key
};

/// Precomputed tables: what each byte value at each position contributes to the hash.
pub(super) struct Toeplitz(Box<[[u32; 256]]>);

impl Toeplitz {
    pub(super) fn new(key: &[u8; KEY_LEN]) -> Self {
        let places = KEY_LEN - size_of::<u32>();
        Self((0..places).map(|place| table(key, place)).collect())
    }

    /// The hash of the first 36 bytes; further bytes are ignored.
    pub(super) fn hash(&self, input: &[u8]) -> u32 {
        let terms = input.iter().zip(&self.0).map(|(&byte, table)| table[usize::from(byte)]);
        terms.fold(0, |hash, term| hash ^ term)
    }
}

/// For each byte value, the XOR of the key's 32-bit windows at the positions of its set bits.
fn table(key: &[u8; KEY_LEN], place: usize) -> [u32; 256] {
    let window = key.iter().skip(place).take(5).fold(0u64, |all, &byte| all << 8 | u64::from(byte));
    std::array::from_fn(|byte| {
        let bits = (0..8).filter(|bit| byte >> (7 - bit) & 1 == 1);
        bits.fold(0, |hash, bit| hash ^ (window >> (8 - bit)) as u32)
    })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn input(source: &str, destination: &str, ports: Option<(u16, u16)>) -> Vec<u8> {
        let octets = |text: &str| match text.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => address.octets().to_vec(),
            Ok(IpAddr::V6(address)) => address.octets().to_vec(),
            Err(_) => Vec::new(),
        };
        let mut bytes = [octets(source), octets(destination)].concat();
        if let Some((from, to)) = ports {
            bytes.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
        }
        bytes
    }

    /// Microsoft, "Verifying the RSS hash calculation".
    #[test]
    fn passes_the_verification_suite() {
        let toeplitz = Toeplitz::new(&MICROSOFT);
        for (source, destination, ports, with_ports, without) in [
            ("66.9.149.187", "161.142.100.80", (2794, 1766), 0x51cc_c178, 0x323e_8fc2),
            ("199.92.111.2", "65.69.140.83", (14230, 4739), 0xc626_b0ea, 0xd718_262a),
            ("24.19.198.95", "12.22.207.184", (12898, 38024), 0x5c2b_394a, 0xd2d0_a5de),
            ("38.27.205.30", "209.142.163.6", (48228, 2217), 0xafc7_327f, 0x8298_9176),
            ("153.39.163.191", "202.188.127.2", (44251, 1303), 0x10e8_28a2, 0x5d18_09c5),
            ("3ffe:2501:200:1fff::7", "3ffe:2501:200:3::1", (2794, 1766), 0x4020_7d3d, 0x2cc1_8cd5),
            ("3ffe:501:8::260:97ff:fe40:efab", "ff02::1", (14230, 4739), 0xdde5_1bbf, 0x0f0c_461c),
        ] {
            assert_eq!(
                toeplitz.hash(&input(source, destination, Some(ports))),
                with_ports,
                "{source}"
            );
            assert_eq!(toeplitz.hash(&input(source, destination, None)), without, "{source}");
        }
    }

    #[test]
    fn the_symmetric_key_hashes_both_directions_alike() {
        let toeplitz = Toeplitz::new(&SYMMETRIC);
        let there = input("10.0.0.1", "192.168.7.9", Some((1234, 80)));
        let back = input("192.168.7.9", "10.0.0.1", Some((80, 1234)));
        assert_eq!(toeplitz.hash(&there), toeplitz.hash(&back));
        assert_ne!(
            toeplitz.hash(&there),
            toeplitz.hash(&input("10.0.0.2", "192.168.7.9", Some((1234, 80))))
        );
    }
}
