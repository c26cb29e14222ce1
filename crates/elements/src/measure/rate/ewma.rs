//! Exponentially weighted moving averages in fixed point, with Click's arithmetic.

use millrace_core::args::UFixed;

/// An average with `FRACTION` fractional bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ewma<const FRACTION: u32>(u64);

impl<const FRACTION: u32> Ewma<FRACTION> {
    /// The average with this scaled value.
    pub(crate) fn from_scaled(scaled: u64) -> Self {
        Self(scaled)
    }

    /// The average times 2^FRACTION.
    pub(crate) fn scaled(self) -> u64 {
        self.0
    }

    /// The average, to the nearest integer.
    pub(crate) fn rounded(self) -> u64 {
        self.0.saturating_add(1 << FRACTION >> 1) >> FRACTION
    }

    /// The average with one more observation, whose weight is 1/2^`stability`.
    pub(crate) fn with(self, observation: u64, stability: u32) -> Self {
        let scaled = i128::from(observation) << FRACTION;
        let average = i128::from(self.0);
        let rounding = 1i128 << stability >> 1;
        let next = average + ((scaled - average + rounding) >> stability);
        Self(u64::try_from(next.max(0)).unwrap_or(u64::MAX >> 20))
    }

    /// The average with `n` more observations of 0. A hundred or more reset it to 0.
    pub(crate) fn with_zeros(self, n: u64, stability: u32) -> Self {
        match n {
            0..100 => (0..n).fold(self, |average, _| average.with(0, stability)),
            _ => Self(0),
        }
    }

    /// The average as text, with as few decimals as identify it.
    pub(crate) fn text(self) -> String {
        fixed_text::<FRACTION>(self.0)
    }
}

/// A number with `FRACTION` fractional bits as text, with as few decimals as identify it.
pub(crate) fn fixed_text<const FRACTION: u32>(scaled: u64) -> String {
    let fraction = u32::try_from(scaled & ((1 << FRACTION) - 1)).unwrap_or_default();
    // The text of the fraction alone is `0`, or `0.` and digits.
    let fraction = UFixed::<FRACTION>(fraction).to_string();
    format!("{}{}", scaled >> FRACTION, fraction.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_value_is_the_average() {
        let average = (0..1000).fold(Ewma::<10>::default(), |average, _| average.with(5, 4));
        assert_eq!(average.rounded(), 5);
        assert_eq!(average.with_zeros(100, 4), Ewma::default());
        assert_eq!(average.with_zeros(2, 4), average.with(0, 4).with(0, 4));
    }

    #[test]
    fn texts_have_the_decimals_that_they_need() {
        for (scaled, text) in [
            (0, "0"),
            (1024, "1"),
            (1536, "1.5"),
            (1000, "0.977"),
            (1023, "0.999"),
            (1 << 50, "1099511627776"),
        ] {
            assert_eq!(fixed_text::<10>(scaled), text);
        }
    }
}
