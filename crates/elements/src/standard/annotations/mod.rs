//! Elements that set what travels with packets beside their bytes, or put it into them.

pub mod set_anno_byte;
pub mod set_packet_type;
pub mod set_timestamp;
pub mod store_anno;
pub mod unstrip_anno;
