//! The common part of SetIPDSCP and SetIPECN: sets a part of the type-of-service byte to the value of one argument.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use millrace_core::args::Args;
use millrace_core::{Element, Failed, Handlers, Lock, Reason, Setup, View, Way};

/// The bits to set, and the text of the argument that gave them.
pub(crate) struct TosBits {
    field: &'static Field,
    bits: AtomicU8,
    text: Lock<String>,
}

/// A part of the byte.
pub(crate) struct Field {
    /// The name of the argument.
    pub(crate) argument: &'static str,
    /// The name of the handler.
    pub(crate) handler: &'static str,
    /// The bits that do not change.
    pub(crate) kept: u8,
    /// Reads the argument: the bits, in their place.
    pub(crate) read: fn(&mut Args<'_>) -> u8,
}

impl TosBits {
    pub(crate) fn configure(setup: &mut Setup<'_>, field: &'static Field) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let bits = (field.read)(args);
        args.complete()?;
        let text = args.text_of(field.argument).map(ToString::to_string);
        Ok(Self { field, bits: bits.into(), text: Lock::new(text.unwrap_or_default()) })
    }

    #[inline]
    pub(crate) fn treat(&self, packet: &mut View) -> Way {
        let Some(tos) = packet.ipv4().map(|ip| ip.tos) else {
            return Way::drop(Reason::NoHeader);
        };
        let new = tos & self.field.kept | self.bits.load(Relaxed);
        if new != tos
            && let Some(ip) = packet.ipv4_mut()
        {
            ip.set_tos(new);
        }
        Way::ON
    }

    /// Declares the handlers of class `E`, which holds bits.
    pub(crate) fn handler<E: Element>(
        handlers: &mut Handlers<E>,
        field: &'static Field,
        of: fn(&E) -> &Self,
    ) {
        handlers.reconfigure(move |element, new| {
            let (this, new) = (of(element), of(&new));
            this.bits.store(new.bits.load(Relaxed), Relaxed);
            this.text.lock().clone_from(&new.text.lock());
            Ok(())
        });
        handlers.read(field.handler, move |element, _| of(element).text.lock().clone());
        handlers.write(field.handler, move |element, call| {
            let mut args = call.args();
            let bits = (field.read)(&mut args);
            args.complete().map_err(|Failed| args.messages())?;
            let this = of(element);
            this.bits.store(bits, Relaxed);
            *this.text.lock() = call.text().into_owned();
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::test_packets::ip::withstands;

    #[test]
    fn withstands_anything() {
        withstands("SetIPDSCP(46)", 1);
        withstands("SetIPECN(ce)", 1);
    }
}
