//! Elements that change or check packets' bytes and lengths.

pub mod align;
pub mod check_crc32;
pub mod check_length;
pub mod clipboard;
pub mod ensure_headroom;
pub mod move_data;
pub mod pad;
pub mod random_bit_errors;
pub mod resize;
pub mod search;
pub mod set_crc32;
pub mod store_data;
pub mod strip;
pub mod strip_to_network_header;
pub mod truncate;
pub mod unstrip;
