//! ExactCPUSwitch - sends packets to one output per thread, by the thread they arrive on
//!
//! # Synopsis
//! `ExactCPUSwitch`
//!
//! # Description
//! Numbers the threads whose packets can reach the element, starting from the lowest thread. Packets of
//! the first of these threads go to output 0, those of the second to output 1, and so on.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One push input, at least as many push outputs as threads whose packets can arrive.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! i :: InfiniteSource(LIMIT 10) -> c :: ExactCPUSwitch;
//! c[0] -> Counter -> Discard;
//! StaticThreadSched(i 1);
//! ```
//!
//! # See also
//! CPUSwitch, CPUQueue, Pipeliner, StaticThreadSched

use std::sync::OnceLock;

use millrace_core::{Batch, Class, Context, Element, Failed, Init, Refused, Setup, register};

/// The element; its manual is at the top of the file.
#[derive(Default)]
pub struct ExactCpuSwitch {
    /// The threads whose packets can arrive, one bit each.
    threads: OnceLock<u64>,
}

register!(ExactCpuSwitch, "exact_cpu_switch.rs");

impl Element for ExactCpuSwitch {
    const CLASS: Class = Class::new("ExactCPUSwitch", "1/1-", "h/h").by_thread();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self::default())
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let _ = self.threads.set(init.threads());
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let threads = self.threads.get().copied().unwrap_or(0);
        cx.push_batch(output(threads, cx.thread(), cx.outputs()), batch);
    }
}

/// The output of a thread: the number of threads before it, or the last output if there are too
/// few.
fn output(threads: u64, thread: usize, outputs: usize) -> usize {
    let before = threads
        & (1u64.checked_shl(u32::try_from(thread).unwrap_or(64)).unwrap_or(0)).wrapping_sub(1);
    (before.count_ones() as usize).min(outputs.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_numbered_from_the_lowest() {
        assert_eq!([1, 4, 6].map(|thread| output(0b101_0010, thread, 3)), [0, 1, 2]);
        assert_eq!(output(0b110, 2, 1), 0);
        assert_eq!(output(u64::MAX, 63, 64), 63);
    }
}
