//! The heap beside the arena of packets: the C library's.

/// Keeps the C library from dividing the heap into more parts than there are threads that forward packets.
///
/// By itself it gives each thread a part of its own, up to eight for each core, and memory that one thread has returned
/// to its part is not used by the others. Each hot swap is the work of new threads, so the parts fill up one after the
/// other with what is left of routers: 2 MB each for a router of some twenty elements. Call this before other threads
/// start.
pub fn limit_heaps(threads: usize) {
    #[cfg(target_env = "gnu")]
    {
        let most = libc::c_int::try_from(threads.max(1)).unwrap_or(libc::c_int::MAX);
        // SAFETY: it stores a number. Without success, there are as many parts as before.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, most) };
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = threads;
}
