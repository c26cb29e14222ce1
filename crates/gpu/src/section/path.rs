//! The two paths of a batch through a section.

/// The path of a batch through a section.
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
    /// The cheaper one; both if the device is at its limit.
    #[default]
    Adaptive,
    /// The device, as long as one works.
    Gpu,
    /// The CPU twins.
    Cpu,
}
