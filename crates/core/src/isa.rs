//! Versions of hot loops, one for each level of the processor's instruction set.
//!
//! The program is compiled for every x86-64 processor. A loop over the packets of a batch, or over an array
//! of addresses, gains from features that most processors have beyond that: wider vectors, gathers,
//! byte-swapping loads. [`run`] compiles its closure once for each [`Level`], and runs the version that fits
//! the processor.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// A level of the processor's instruction set. Each level includes all lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// What the program is compiled for.
    Baseline = 1,
    /// x86-64-v3: AVX2, BMI1 and BMI2, LZCNT, MOVBE, POPCNT.
    Avx2 = 2,
    /// x86-64-v4: AVX-512 F, BW, CD, DQ and VL.
    Avx512 = 3,
}

impl Level {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Baseline, "baseline"), (Self::Avx2, "avx2"), (Self::Avx512, "avx512")];

    /// The level's name, as in the environment variable [`VARIABLE`].
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize - 1].1
    }

    /// The highest level that this processor has.
    pub fn of_processor() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            macro_rules! has {
                ($($feature:tt)*) => { $(std::is_x86_feature_detected!($feature))&&* };
            }
            if !has!("avx2" "bmi1" "bmi2" "lzcnt" "movbe" "popcnt") {
                return Self::Baseline;
            }
            if has!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl") {
                return Self::Avx512;
            }
            Self::Avx2
        }
        #[cfg(not(target_arch = "x86_64"))]
        Self::Baseline
    }
}

/// The environment variable that lowers the level: `baseline`, `avx2` or `avx512`. Use it for figures that
/// must be the same on every machine, such as instruction counts.
pub const VARIABLE: &str = "MILLRACE_ISA";

static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The level that [`VARIABLE`] requests; `None` when it is not set, or empty.
///
/// # Errors
/// There is no level with this name.
pub fn asked() -> Result<Option<Level>, UnknownLevel> {
    let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let level = Level::ALL.iter().find(|(_, known)| name == *known);
    level.map(|(level, _)| Some(*level)).ok_or_else(|| UnknownLevel(name.display().to_string()))
}

/// [`VARIABLE`] requests a level that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{VARIABLE}: unknown value ‘{0}’: use baseline, avx2 or avx512")]
pub struct UnknownLevel(String);

/// The level that [`run`] uses: the processor's, or a lower one that [`VARIABLE`] requests. An unknown name
/// is ignored; programs check [`asked`] first.
#[inline(always)]
pub fn level() -> Level {
    match LEVEL.load(Relaxed) {
        3 => Level::Avx512,
        2 => Level::Avx2,
        1 => Level::Baseline,
        _ => look(),
    }
}

#[cold]
fn look() -> Level {
    let has = Level::of_processor();
    let level = asked().ok().flatten().map_or(has, |wanted| has.min(wanted));
    LEVEL.store(level as u8, Relaxed);
    level
}

/// Runs `f`, compiled for the processor's [`level`].
///
/// Code that should profit must be inlined into `f`, and `f` itself must be `#[inline(always)]`:
/// `isa::run(#[inline(always)] || batch.for_each(...))`.
#[inline(always)]
#[allow(unsafe_code)]
pub fn run<R>(f: impl FnOnce() -> R) -> R {
    match level() {
        Level::Baseline => f(),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level` is never higher than what the processor has.
        Level::Avx2 => unsafe { with_avx2(f) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx512 => unsafe { with_avx512(f) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => f(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
fn with_avx2<R>(f: impl FnOnce() -> R) -> R {
    f()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
fn with_avx512<R>(f: impl FnOnce() -> R) -> R {
    f()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_does_what_the_original_does() {
        let words: Vec<u32> = (0..1000u32).map(|n| n.wrapping_mul(0x9e37_79b9)).collect();
        let mut copy = words.clone();
        run(
            #[inline(always)]
            || copy.iter_mut().for_each(|word| *word = word.swap_bytes()),
        );
        assert!(words.iter().zip(&copy).all(|(word, swapped)| word.swap_bytes() == *swapped));
        assert!(level() <= Level::of_processor());
    }

    #[test]
    fn levels_have_names() {
        assert_eq!(Level::ALL.map(|(level, _)| level.name()), Level::ALL.map(|(_, name)| name));
    }
}
