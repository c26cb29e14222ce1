//! QUEUE, N_QUEUES, MAXTHREADS, THREADOFFSET, NUMA: FastClick's arguments about queues and threads.

use millrace_core::Args;
use millrace_core::args::Kind;
use millrace_core::element::Receiving;
use millrace_core::stats::MAX_THREADS;

/// More queues than any card has.
const MAX_QUEUES: u32 = 4096;

/// Reads the arguments about queues and threads; `receiving` holds the defaults.
pub(crate) fn configure(args: &mut Args<'_>, receiving: Receiving) -> Receiving {
    let first: Option<u32> = args.in_range("QUEUE", Kind::Keyword, 0..=MAX_QUEUES - 1);
    let count = bound(args, "N_QUEUES", MAX_QUEUES as i32);
    let threads = bound(args, "MAXTHREADS", MAX_THREADS as i32);
    let offset = args.in_range("THREADOFFSET", Kind::Keyword, -1..=MAX_THREADS as i32 - 1);
    let offset = offset.and_then(|offset| usize::try_from(offset).ok());
    let near = args.keyword("NUMA", true);
    // As in FastClick, QUEUE without N_QUEUES selects a single queue.
    let named = first.map(|_| 1);
    Receiving {
        first_queue: first.map_or(receiving.first_queue, |first| first as usize),
        queues: count.or(named).or(receiving.queues),
        max_threads: threads.or(receiving.max_threads),
        thread_offset: offset.or(receiving.thread_offset),
        any_node: !near,
        ..receiving
    }
}

/// Reads a number of queues or threads. As in FastClick, -1 means as many as there are.
fn bound(args: &mut Args<'_>, keyword: &str, most: i32) -> Option<usize> {
    let number: Option<i32> = args.in_range(keyword, Kind::Keyword, -1..=most);
    if number == Some(0) {
        args.error(keyword, format!("{keyword} must be positive, or -1 for as many as there are"));
    }
    number.and_then(|number| usize::try_from(number).ok()).filter(|number| *number > 0)
}
