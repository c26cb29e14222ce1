//! The kernels as text for a compiler at run time, and as PTX for machines without one.

use super::Kernel;

/// The header followed by a kernel's file, each with its name for the compiler's messages.
macro_rules! text {
    ($file:literal) => {
        concat!(
            "#line 1 \"millrace.h\"\n",
            include_str!("../../kernels/millrace.h"),
            "#line 1 \"",
            $file,
            "\"\n",
            include_str!(concat!("../../kernels/", $file)),
        )
    };
}

impl Kernel {
    /// Complete CUDA C++ source: it includes no file.
    pub const fn source(self) -> &'static str {
        match self {
            Self::Lpm4 => text!("lpm4.cu"),
            Self::Lpm6 => text!("lpm6.cu"),
            Self::Classify => text!("classify.cu"),
            Self::AhoCorasick => text!("aho_corasick.cu"),
            Self::Invert => text!("invert.cu"),
        }
    }
    /// PTX for devices of compute capability 8.0 and later, which `cargo xtask kernels` makes from the source.
    /// Drivers from CUDA 12.0 (525) on accept it.
    pub const fn ptx(self) -> &'static str {
        match self {
            Self::Lpm4 => include_str!("../../kernels/ptx/lpm4.ptx"),
            Self::Lpm6 => include_str!("../../kernels/ptx/lpm6.ptx"),
            Self::Classify => include_str!("../../kernels/ptx/classify.ptx"),
            Self::AhoCorasick => include_str!("../../kernels/ptx/aho_corasick.ptx"),
            Self::Invert => include_str!("../../kernels/ptx/invert.ptx"),
        }
    }
}
