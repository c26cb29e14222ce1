//! AES-GCM as ESP uses it (RFC 4106).

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes128Gcm, Aes256Gcm, KeyInit, Tag};
use millrace_core::Args;

use super::{FRONT_LEN, HEADER_LEN};

/// Length of a tag in bytes.
pub(crate) const TAG_LEN: usize = 16;
const SALT_LEN: usize = 4;

/// A cipher with its key and salt.
pub(crate) struct Gcm {
    cipher: Cipher,
    salt: [u8; SALT_LEN],
}

/// Boxed, because the tables of a key are large.
enum Cipher {
    Short(Box<Aes128Gcm>),
    Long(Box<Aes256Gcm>),
}

/// Reads KEY; `None` after an error.
pub(crate) fn read_key(args: &mut Args<'_>) -> Option<Gcm> {
    let key: Vec<u8> = args.mandatory("KEY");
    let gcm = Gcm::new(&key);
    if gcm.is_none() && !args.has_errors() {
        args.error("KEY", "KEY must be 20 or 36 bytes: 16 or 32 of a key, and 4 of salt");
    }
    gcm
}

impl Gcm {
    fn new(material: &[u8]) -> Option<Self> {
        let (key, salt) = material.split_last_chunk::<SALT_LEN>()?;
        let cipher = match key.len() {
            16 => Cipher::Short(Box::new(Aes128Gcm::new_from_slice(key).ok()?)),
            32 => Cipher::Long(Box::new(Aes256Gcm::new_from_slice(key).ok()?)),
            _ => return None,
        };
        Some(Self { cipher, salt: *salt })
    }

    /// Encrypts the payload that follows `front`, and returns its tag.
    pub(crate) fn seal(
        &self,
        front: &[u8; FRONT_LEN],
        payload: &mut [u8],
    ) -> Option<[u8; TAG_LEN]> {
        let (header, nonce) = self.split(front);
        let payload = InOutBuf::from(payload);
        let tag = match &self.cipher {
            Cipher::Short(cipher) => cipher.encrypt_inout_detached(&nonce.into(), header, payload),
            Cipher::Long(cipher) => cipher.encrypt_inout_detached(&nonce.into(), header, payload),
        };
        Some(tag.ok()?.into())
    }

    /// Decrypts the payload that follows `front`. If the tag is wrong, returns false and leaves the payload
    /// unchanged.
    pub(crate) fn open(
        &self,
        front: &[u8; FRONT_LEN],
        payload: &mut [u8],
        tag: [u8; TAG_LEN],
    ) -> bool {
        let (header, nonce) = self.split(front);
        let payload = InOutBuf::from(payload);
        let tag = Tag::from(tag);
        match &self.cipher {
            Cipher::Short(cipher) => {
                cipher.decrypt_inout_detached(&nonce.into(), header, payload, &tag)
            }
            Cipher::Long(cipher) => {
                cipher.decrypt_inout_detached(&nonce.into(), header, payload, &tag)
            }
        }
        .is_ok()
    }

    /// Splits `front` into the bytes that are only authenticated, and the nonce: salt and initialization vector.
    fn split<'a>(&self, front: &'a [u8; FRONT_LEN]) -> (&'a [u8], [u8; 12]) {
        let (header, iv) = front.split_at(HEADER_LEN);
        let mut nonce = [0; 12];
        let (first, second) = nonce.split_at_mut(SALT_LEN);
        first.copy_from_slice(&self.salt);
        second.copy_from_slice(iv);
        (header, nonce)
    }
}
