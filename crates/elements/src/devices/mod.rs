//! Network devices and capture files.
