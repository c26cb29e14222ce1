//! Elements that set what travels with packets beside their bytes.

pub mod set_timestamp;
