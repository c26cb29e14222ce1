//! Suppressor - forwards packets through ports that handlers can open and close
//!
//! # Synopsis
//! `Suppressor`
//!
//! # Description
//! Forwards packets from each input to the output with the same number. Handlers can close a port: packets pushed
//! to a closed port are dropped, and pulls from it return none.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! Any number of agnostic inputs, the same number of agnostic outputs. Input N and output N are both push or both
//! pull.
//!
//! # Handlers
//! - `active0`, `active1`, ... (read, write): whether the port with this number is open.
//! - `reset` (write): opens all ports.
//!
//! # Drops
//! - discarded: the port is closed.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: Suppressor -> Discard;
//! DriverManager(write s.active0 false, wait 1s, stop);
//! ```
//!
//! # See also
//! Switch, PullSwitch

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::element::ANY_HANDLER;
use millrace_core::{
    Batch, Class, Context, Element, Failed, HandlerError, Handlers, Offers, Reason, Setup, register,
};

use crate::capability::Gates;

/// The element; its manual is at the top of the file.
pub struct Suppressor {
    /// For each port, whether it is open.
    open: Vec<AtomicBool>,
}

register!(Suppressor, "suppressor.rs");

impl Element for Suppressor {
    const CLASS: Class = Class::new("Suppressor", "-/=", "a/a").flow("#/#");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { open: (0..setup.inputs()).map(|_| AtomicBool::new(true)).collect() })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        match self.is_open(port) {
            true => cx.push_batch(port, batch),
            false => cx.drop_batch(batch, Reason::Discarded),
        }
    }

    fn pull(&self, cx: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        if self.is_open(port) {
            cx.pull(port, max, batch);
        }
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn Gates>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.write("reset", |suppressor, _| {
            suppressor.open.iter().for_each(|open| open.store(true, Relaxed));
            Ok(())
        });
        handlers.try_read(ANY_HANDLER, |suppressor, call| {
            suppressor.port(call.handler()).map(|open| open.load(Relaxed))
        });
        handlers.write(ANY_HANDLER, |suppressor, call| {
            let open = suppressor.port(call.handler())?;
            open.store(call.parse().map_err(|_| "active value must be boolean")?, Relaxed);
            Ok(())
        });
    }
}

impl Gates for Suppressor {
    fn set_open(&self, port: usize, open: bool) {
        if let Some(gate) = self.open.get(port) {
            gate.store(open, Relaxed);
        }
    }
}

impl Suppressor {
    fn is_open(&self, port: usize) -> bool {
        self.open.get(port).is_some_and(|open| open.load(Relaxed))
    }

    /// The port of the handler with this name.
    fn port(&self, handler: &str) -> Result<&AtomicBool, HandlerError> {
        let number = handler.strip_prefix("active").and_then(|number| number.parse().ok());
        let port = number.and_then(|port: usize| self.open.get(port));
        port.ok_or_else(|| HandlerError::NoHandler(handler.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn closed_ports_drop_packets() {
        let mut rig = Rig::new("Suppressor", 2, 2).unwrap();
        rig.write("active1", "false").unwrap();
        assert_eq!(rig.push(0, &["a"]), [vec![b"a".to_vec()], vec![]]);
        assert!(rig.push(1, &["b"]).iter().all(Vec::is_empty));
        assert_eq!(rig.stats().drops, [(Reason::Discarded, 1)]);
        assert_eq!(
            (rig.read("active0").unwrap(), rig.read("active1").unwrap()),
            ("true".into(), "false".into())
        );
        rig.write("reset", "").unwrap();
        assert_eq!(rig.push(1, &["c"]), [vec![], vec![b"c".to_vec()]]);
        assert!(rig.read("active2").is_err());
        assert!(rig.write("active0", "x").is_err());
    }
}
