//! QUEUE, N_QUEUES, MAXTHREADS, THREADOFFSET, NUMA: FastClick's arguments about queues and threads.

use millrace_core::Args;
use millrace_core::args::Kind;
use millrace_core::element::Receiving;
use millrace_core::stats::MAX_THREADS;

/// The most queues that a card has by far.
const MAX_QUEUES: u32 = 4096;

/// Reads what is said about queues and threads, over what `receiving` says.
pub(super) fn configure(args: &mut Args<'_>, receiving: Receiving) -> Receiving {
    let first: Option<u32> = args.in_range("QUEUE", Kind::Keyword, 0..=MAX_QUEUES - 1);
    let count: Option<u32> = args.in_range("N_QUEUES", Kind::Keyword, 1..=MAX_QUEUES);
    let threads = args.in_range("MAXTHREADS", Kind::Keyword, 1..=MAX_THREADS as u32);
    let offset = args.in_range("THREADOFFSET", Kind::Keyword, 0..=MAX_THREADS as u32 - 1);
    let near = args.keyword("NUMA", true);
    // One queue that is named is the only one, as in FastClick.
    let named = first.map(|_| 1);
    Receiving {
        first_queue: first.map_or(receiving.first_queue, |first| first as usize),
        queues: count.or(named).map(|count| count as usize).or(receiving.queues),
        max_threads: threads.map(|threads| threads as usize).or(receiving.max_threads),
        thread_offset: offset.map(|offset| offset as usize).or(receiving.thread_offset),
        any_node: !near,
        ..receiving
    }
}
