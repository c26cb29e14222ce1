//! IPsecAES - encrypts or decrypts ESP packets with AES-128 as Click does
//!
//! # Synopsis
//! `IPsecAES(ENCRYPT)`
//!
//! # Description
//! Encrypts or decrypts the payload of each ESP packet with AES-128, except for the 12-byte digest at its end. The key
//! is the encryption key of the security association that the packet's IPSEC_SA_DATA_REFERENCE annotation names.
//!
//! Blocks are chained as in Click, not as in RFC 3602: only the first half of a block is combined with the block before
//! it. If the payload is an odd multiple of 8 bytes, the first 8 bytes of the digest are encrypted too. Both ends must
//! run Click or Millrace. For tunnels to other implementations, and for all new tunnels, use IPsecESPGCMEncap.
//!
//! # Arguments
//! - ENCRYPT: 1 to encrypt, 0 to decrypt. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - header not set: no annotation names a security association.
//! - truncated: the packet is too short for ESP with a digest.
//! - bad length: the payload length is not a multiple of 8 bytes.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10)
//!     -> UDPIPEncap(10.0.0.1, 1234, 10.1.0.2, 53)
//!     -> r :: RadixIPsecLookup(10.1.0.0/16 192.0.2.2 1 234 ABCDEFFF001DEFD2 112233EE556677EE 300 64);
//! r[0] -> Discard;
//! r[1] -> IPsecESPEncap -> IPsecAuthHMACSHA1(0) -> IPsecAES(1) -> IPsecEncap(50) -> Discard;
//! ```
//!
//! # See also
//! IPsecESPEncap, IPsecESPUnencap, IPsecAuthHMACSHA1, IPsecESPGCMEncap

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt};
use aes::{Aes128, Block};
use millrace_core::{
    Class, Element, Failed, Moment, Packet, PerPacket, Reason, Setup, View, Way, register,
};

use super::esp;
use super::esp::association::Association;
use super::esp::digest::DIGEST_LEN;

/// The element; its manual is at the top of the file.
pub struct IpsecAes {
    encrypt: bool,
}

register!(IpsecAes, "ipsec_aes.rs");

const BLOCK_LEN: usize = 16;
/// Number of bytes of a block that are combined with the block before it.
const CHAINED: usize = 8;

impl Element for IpsecAes {
    const CLASS: Class = Class::new("IPsecAES", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let encrypt: i32 = setup.args.mandatory("ENCRYPT");
        setup.args.complete()?;
        Ok(Self { encrypt: encrypt != 0 })
    }
}

impl PerPacket for IpsecAes {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        Way::on_or_drop(packet.with_packet(|packet| self.work(packet)))
    }
}

impl IpsecAes {
    fn work(&self, packet: &mut Packet) -> Result<(), Reason> {
        let association = Association::of(packet).ok_or(Reason::NoHeader)?;
        let room = packet.len().checked_sub(esp::FRONT_LEN + DIGEST_LEN);
        let len = room.ok_or(Reason::Truncated)?;
        if !len.is_multiple_of(CHAINED) {
            return Err(Reason::BadLength);
        }
        let len = len.next_multiple_of(BLOCK_LEN);
        let (front, behind) = packet
            .data_mut()
            .split_first_chunk_mut::<{ esp::FRONT_LEN }>()
            .ok_or(Reason::Truncated)?;
        let [.., a, b, c, d, e, f, g, h] = *front;
        let iv = [a, b, c, d, e, f, g, h];
        let payload = behind.get_mut(..len).ok_or(Reason::Truncated)?;
        let (blocks, _) = payload.as_chunks_mut::<BLOCK_LEN>();
        chain(&association.cipher, self.encrypt, iv, blocks);
        Ok(())
    }
}

fn chain(cipher: &Aes128, encrypt: bool, iv: [u8; CHAINED], blocks: &mut [[u8; BLOCK_LEN]]) {
    let mut before = iv;
    for bytes in blocks {
        let coming = first_half(bytes);
        if encrypt {
            combine(bytes, &before);
        }
        let mut block = Block::from(*bytes);
        if encrypt {
            cipher.encrypt_block(&mut block);
        } else {
            cipher.decrypt_block(&mut block);
        }
        *bytes = block.into();
        if encrypt {
            before = first_half(bytes);
        } else {
            combine(bytes, &before);
            before = coming;
        }
    }
}

fn combine(block: &mut [u8; BLOCK_LEN], before: &[u8; CHAINED]) {
    block.iter_mut().zip(before).for_each(|(byte, before)| *byte ^= before);
}

fn first_half(block: &[u8; BLOCK_LEN]) -> [u8; CHAINED] {
    let [a, b, c, d, e, f, g, h, ..] = *block;
    [a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use aes::cipher::KeyInit;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn decryption_undoes_encryption(
            key: [u8; 16],
            iv: [u8; 8],
            blocks in prop::collection::vec(any::<[u8; 16]>(), 0..20),
        ) {
            let cipher = Aes128::new(&key.into());
            let mut changed = blocks.clone();
            chain(&cipher, true, iv, &mut changed);
            prop_assert!(blocks.is_empty() || changed != blocks);
            chain(&cipher, false, iv, &mut changed);
            prop_assert_eq!(changed, blocks);
        }
    }

    /// FIPS 197, appendix C.1; an initialization vector of zeroes changes nothing.
    #[test]
    fn agrees_with_the_example_in_fips_197() {
        let key: [u8; 16] = std::array::from_fn(|n| n as u8);
        let mut blocks = [std::array::from_fn(|n| n as u8 * 0x11)];
        chain(&Aes128::new(&key.into()), true, [0; 8], &mut blocks);
        let cipher = 0x69c4e0d86a7b0430d8cdb78070b4c55a_u128.to_be_bytes();
        assert_eq!(blocks, [cipher]);
    }
}
