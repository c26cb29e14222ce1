//! The DPDK backend's plugin: the few functions of DPDK that Millrace calls, behind one table.
//!
//! The program must run where no DPDK is installed, so nothing of it is linked into the program. It loads
//! this library when a configuration asks for DPDK, fetches the table, and calls one of its functions for
//! each burst of packets. The table is declared in `crates/io/src/dpdk/abi.rs` and filled in
//! `shim.c`, in C because much of DPDK is inline functions. Nothing of Millrace is linked in here: a second
//! copy of the engine would have packet memory of its own.

#![allow(unsafe_code, reason = "a symbol with a fixed name, and a table that C fills")]

use std::ffi::c_void;

unsafe extern "C" {
    /// The table, in `shim.c`.
    fn millrace_dpdk_shim() -> *const c_void;
}

/// The table of functions; valid as long as the library is loaded.
// SAFETY: the name is the plugin's own and nothing else in the process has it.
#[unsafe(no_mangle)]
pub extern "C" fn millrace_dpdk() -> *const c_void {
    // SAFETY: it takes nothing and gives the address of a static.
    unsafe { millrace_dpdk_shim() }
}
