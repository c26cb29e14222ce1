//! The color of elements that set or test a paint: arguments and handlers.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use millrace_core::args::Annotation;
use millrace_core::{Failed, Handlers, Setup, View};

use super::PAINT;

/// A color, and the annotation that holds packets' colors.
pub(super) struct Color {
    value: AtomicU8,
    /// Offset of the annotation.
    anno: usize,
}

impl Color {
    /// Reads COLOR and ANNO, and completes the arguments.
    pub(super) fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let value: u8 = setup.args.mandatory("COLOR");
        let Annotation(anno) = setup.args.positional("ANNO", PAINT);
        setup.args.complete()?;
        Ok(Self { value: value.into(), anno })
    }

    /// Whether a packet has the color.
    #[inline(always)]
    pub(super) fn is_on(&self, packet: &View) -> bool {
        packet.anno_u8(self.anno) == self.get()
    }

    /// Sets a packet's annotation to the color.
    #[inline(always)]
    pub(super) fn paint(&self, packet: &mut View) {
        packet.set_anno_u8(self.anno, self.get());
    }

    /// The current color.
    pub(super) fn get(&self) -> u8 {
        self.value.load(Relaxed)
    }

    /// The handlers `anno` and `color`.
    pub(super) fn handlers<E: 'static>(handlers: &mut Handlers<E>, color: fn(&E) -> &Self) {
        handlers.read("anno", move |element, _| color(element).anno);
        handlers.read("color", move |element, _| color(element).get());
        handlers.write("color", move |element, call| {
            color(element).value.store(call.parse()?, Relaxed);
            Ok(())
        });
    }
}
