//! KernelHandlerProxy - accesses handlers of a kernel router (not supported)
//!
//! # Synopsis
//! `KernelHandlerProxy`
//!
//! # Description
//! In Click this element gives access to the handlers of a router that runs in the Linux kernel. Millrace has no kernel
//! router, so the element reports that and does not start.
//!
//! # Arguments
//! Any; ignored.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! Idle -> Discard;
//! ```
//!
//! # See also
//! ControlSocket

use millrace_core::{Class, Element, Failed, Init, Refused, Setup, register};

/// The element; its manual is at the top of the file.
pub struct KernelHandlerProxy;

register!(KernelHandlerProxy, "kernel_handler_proxy.rs");

impl Element for KernelHandlerProxy {
    const CLASS: Class = Class::new("KernelHandlerProxy", "0/0", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.rest();
        setup.args.complete()?;
        Ok(Self)
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        Err("there is no router in the kernel".into())
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn it_does_not_start() {
        assert!(Rig::new("KernelHandlerProxy(VERBOSE true)", 0, 0).is_err());
    }
}
