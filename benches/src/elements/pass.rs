//! BenchPass - passes batches on unchanged

use millrace_core::{Batch, Class, Context, Element, Failed, Setup, register};

/// The cost that every element has, and no other.
struct BenchPass;

register!(BenchPass, "pass.rs");

impl Element for BenchPass {
    const CLASS: Class = Class::new("BenchPass", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn process(&self, _cx: &mut Context, (): &mut (), _batch: &mut Batch) {}
}
