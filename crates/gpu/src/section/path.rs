//! The two ways that a batch may take through a section.

/// The way that a batch takes through a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Path {
    /// The device.
    Gpu,
    /// The CPU twins.
    Cpu,
}

/// Which path batches take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// What is cheaper, and both when the device is at its limit.
    #[default]
    Adaptive,
    /// The device, as long as there is one that works.
    Gpu,
    /// The CPU twins.
    Cpu,
}
