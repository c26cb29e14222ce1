//! The processor's time stamp counter.

/// Cycles of the time stamp counter since an arbitrary start; nanoseconds on machines without one.
#[inline]
pub fn now() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: every x86-64 processor has the instruction; it touches no memory.
        #[allow(unsafe_code)]
        unsafe {
            std::arch::x86_64::_rdtsc()
        }
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        use std::sync::LazyLock;
        use std::time::Instant;
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Returns whether all cycles have the same length, even when the processor is idle or changes its frequency,
/// so that they can measure time (Intel's manual, volume 3B, 19.17.1, "Invariant TSC").
pub fn are_steady() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        const EXTENDED: u32 = 0x8000_0000;
        const POWER: u32 = 0x8000_0007;
        const INVARIANT: u32 = 1 << 8;
        let leaf = std::arch::x86_64::__cpuid;
        leaf(EXTENDED).eax >= POWER && leaf(POWER).edx & INVARIANT != 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}
