//! IPsec: ESP (RFC 4303) as in Click, with security associations that RadixIPsecLookup assigns to packets, and
//! ESP with AES-GCM (RFC 4106).

mod esp;
pub mod ipsec_aes;
pub mod ipsec_auth_hmac_sha1;
pub mod ipsec_auth_sha1;
pub mod ipsec_encap;
pub mod ipsec_esp_encap;
pub mod ipsec_esp_gcm_decap;
pub mod ipsec_esp_gcm_encap;
pub mod ipsec_esp_unencap;
pub mod radix_ipsec_lookup;
