//! The common part of SetIPDSCP and SetIPECN: sets a part of the type-of-service byte to the value of one argument.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use millrace_core::args::Args;
use millrace_core::{Batch, Context, Failed, Handlers, Lock, Reason, Setup, checksum};

use crate::ip::{network_header, network_header_mut};

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

    pub(crate) fn process(&self, cx: &mut Context, batch: &mut Batch) {
        let (bits, kept) = (self.bits.load(Relaxed), self.field.kept);
        batch.map_filter(|mut packet| {
            let Some(tos) = network_header(&packet).map(|ip| ip.tos) else {
                return cx.drop(packet, Reason::NoHeader);
            };
            let new = tos & kept | bits;
            if new != tos
                && let Some(ip) = network_header_mut(&mut packet)
            {
                ip.tos = new;
                let word = |tos| u16::from_be_bytes([ip.version_ihl, tos]);
                let sum = checksum::update(ip.checksum.get(), word(tos), word(new));
                ip.checksum.set(sum);
            }
            Some(packet)
        });
    }

    /// Declares the handler of class `E`, which holds bits.
    pub(crate) fn handler<E: 'static>(
        handlers: &mut Handlers<E>,
        field: &'static Field,
        of: fn(&E) -> &Self,
    ) {
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
