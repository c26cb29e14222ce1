//! The kernels as text, for a compiler at run time.

use super::Kernel;

/// The header before a kernel's file, each with its name for the compiler's messages.
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
    /// CUDA C++ that stands for itself: no file is included.
    pub const fn source(self) -> &'static str {
        match self {
            Self::Lpm4 => text!("lpm4.cu"),
            Self::Lpm6 => text!("lpm6.cu"),
            Self::Classify => text!("classify.cu"),
            Self::AhoCorasick => text!("aho_corasick.cu"),
            Self::Invert => text!("invert.cu"),
        }
    }
}
