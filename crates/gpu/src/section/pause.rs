//! Pauses between two looks at a device.

/// The next pause of a wait.
#[derive(Default)]
pub(super) struct Pause(u32);

impl Pause {
    /// Short pauses at first. A device that takes its time may need this core for it: a simulated one has a thread, and
    /// would else begin only when the kernel takes the core away from who waits for it.
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
