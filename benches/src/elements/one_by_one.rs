//! BenchOneByOne - paints packets by the length of their data, and sends each by itself
//!
//! The twin of BenchBatchwise whose packets the engine collects into batches again, as those of an element that
//! chooses an output for each packet.

use millrace_core::{Batch, Class, Context, Element, Failed, Setup, register};

use super::batchwise::paint;

/// The twin that sends packets one by one.
struct BenchOneByOne;

register!(BenchOneByOne, "one_by_one.rs");

impl Element for BenchOneByOne {
    const CLASS: Class = Class::new("BenchOneByOne", "1/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        for mut packet in batch.drain() {
            paint(&mut packet);
            cx.push(0, packet);
        }
    }
}
