//! AlignmentInfo - records packet alignment for click-align (ignored)
//!
//! # Synopsis
//! `AlignmentInfo(ELEMENT [MODULUS OFFSET]..., ...)`
//!
//! # Description
//! click-align writes this element into a configuration: at each input of ELEMENT, packets begin OFFSET bytes after a
//! multiple of MODULUS. It has no effect here: elements read headers at any alignment.
//!
//! # Arguments
//! - ELEMENT MODULUS OFFSET...: an element, and two numbers for each input. Any number of them.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! AlignmentInfo(c 4 2);
//! Idle -> c :: Classifier(-) -> Discard;
//! ```
//!
//! # See also
//! Align

use millrace_core::{Class, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct AlignmentInfo;

register!(AlignmentInfo, "alignment_info.rs");

impl Element for AlignmentInfo {
    const CLASS: Class =
        Class::new("AlignmentInfo", "0/0", "a/a").phase(Class::PHASE_INFO).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        for argument in setup.args.rest() {
            let words = argument.words();
            let Some((_, places)) = words.split_first() else {
                setup.args.error((), "empty argument");
                continue;
            };
            let number = |word: &millrace_core::args::ArgText| word.as_str().parse::<u32>().is_ok();
            if places.len() % 2 != 0 || !places.iter().all(number) {
                setup.args.error(&argument, "expected ‘ELEMENTNAME [MODULUS OFFSET]*’");
            }
        }
        setup.args.complete()?;
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn alignments_are_pairs() {
        assert!(Rig::new("AlignmentInfo(a 4 2 4 0, b)", 0, 0).is_ok());
        assert!(Rig::new("AlignmentInfo(a 4)", 0, 0).is_err());
        assert!(Rig::new("AlignmentInfo(a 4 x)", 0, 0).is_err());
    }
}
