//! Pauses between two looks at a device.

/// The next pause of a wait.
#[derive(Default)]
pub(super) struct Pause(u32);

impl Pause {
    /// Waits. The first pauses are short. A slow device may need this core: a simulated one has a thread, which would
    /// otherwise begin only when the kernel preempts the waiting thread.
    pub(super) fn take(&mut self) {
        const SHORT: u32 = 1000;
        self.0 = self.0.saturating_add(1);
        if self.0 < SHORT {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}
