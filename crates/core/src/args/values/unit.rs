//! Quantities with units.

use std::fmt;
use std::time::Duration;

use super::number::{Real, write_decimal};
use crate::args::{Arg, ArgError, ArgText, Scope};
use crate::time::Timestamp;

/// A length of time, 0 to about 584 years, in nanoseconds: `1.5`, `20ms`, `10 us`, `2min`, `1h`, `1d`.
/// Without a unit, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seconds(u64);

impl Seconds {
    /// A zero length of time.
    pub const ZERO: Self = Self(0);

    /// That many seconds.
    pub const fn new(seconds: u32) -> Self {
        Self(seconds as u64 * 1_000_000_000)
    }

    /// That many milliseconds.
    pub const fn from_millis(millis: u32) -> Self {
        Self(millis as u64 * 1_000_000)
    }

    /// That many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// In milliseconds, rounded to the nearest.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000 + (self.0 % 1_000_000 >= 500_000) as u64
    }

    /// In seconds, rounded to the nearest.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000 + (self.0 % 1_000_000_000 >= 500_000_000) as u64
    }

    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.as_duration().as_secs_f64()
    }

    /// As the standard library's type.
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// True for a zero length of time.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Seconds> for Duration {
    fn from(time: Seconds) -> Self {
        time.as_duration()
    }
}

/// Seconds with as many decimals as needed.
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0.into(), 9)
    }
}

impl Arg for Seconds {
    const EXPECTS: &'static str = "a time in seconds, or with a unit such as ‘ms’ or ‘min’";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let nanos = parse_seconds(text.as_str())?;
        Ok(Self(nanos.try_into().map_err(|_| ArgError::new("out of range"))?))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A point in time: seconds since 1970, or a number with another unit.
impl Arg for Timestamp {
    const EXPECTS: &'static str = "a time in seconds";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let nanos = parse_seconds(text.as_str())?.try_into();
        nanos.map(Self::from_nanos).map_err(|_| ArgError::new("out of range"))
    }

    fn placeholder() -> Self {
        Self::ZERO
    }
}

/// A span of time that may be negative: `-1.5`, `+20ms`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SignedTime(pub Timestamp);

impl Arg for SignedTime {
    const EXPECTS: &'static str = "a time in seconds, which may be negative";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let (sign, size) = match text.as_str().split_at_checked(1) {
            Some(("-", size)) => (-1, size),
            Some(("+", size)) => (1, size),
            _ => (1, text.as_str()),
        };
        let size = Timestamp::parse(&ArgText::from(size), scope)?;
        Ok(Self(Timestamp::from_nanos(sign * size.as_nanos())))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A bandwidth in bytes per second: `10Mbps`, `1.5 GB/s`, `9600baud`. Without a unit, bytes per second;
/// elements should warn about that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bandwidth {
    bytes: u64,
    unitless: bool,
}

impl Bandwidth {
    /// That many bytes per second.
    pub const fn from_bytes(bytes_per_second: u64) -> Self {
        Self { bytes: bytes_per_second, unitless: false }
    }

    /// In bytes per second.
    pub const fn as_bytes(self) -> u64 {
        self.bytes
    }

    /// True when it was written without a unit, and is not zero.
    pub const fn is_unitless(self) -> bool {
        self.unitless
    }
}

/// In Click's format: `1.2Mbps`.
impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, decimals, unit) = match u128::from(self.bytes) {
            bytes @ 0x2000_0000.. => (bytes, 6, "MBps"),
            bytes @ 125_000_000.. => (bytes * 8, 9, "Gbps"),
            bytes @ 125_000.. => (bytes * 8, 6, "Mbps"),
            bytes => (bytes * 8, 3, "kbps"),
        };
        write_decimal(f, value, decimals)?;
        f.write_str(unit)
    }
}

impl Arg for Bandwidth {
    const EXPECTS: &'static str = "a bandwidth such as ‘10Mbps’ or ‘2GBps’";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let (number, unit) = BANDWIDTH.split(text.as_str());
        let real = Real::parse(number, false).ok_or_else(ArgError::default)?;
        let bytes: Option<u64> =
            real.scale(unit.factor, unit.power).and_then(|v| v.try_into().ok());
        let bytes = bytes.ok_or_else(|| ArgError::new("out of range"))?;
        Ok(Self { bytes, unitless: bytes != 0 && number.len() == text.as_str().len() })
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

fn parse_seconds(text: &str) -> Result<i128, ArgError> {
    let (number, unit) = SECONDS.split(text);
    let real = Real::parse(number, false).ok_or_else(ArgError::default)?;
    real.scale(unit.factor, unit.power + 9).ok_or_else(|| ArgError::new("out of range"))
}

/// The units of a quantity, and the letters that may precede them.
struct Units {
    names: &'static [(&'static str, Unit)],
    prefixes: &'static [(char, i32)],
}

/// The factor for a number with this unit: `factor * 10^power`.
#[derive(Clone, Copy)]
struct Unit {
    factor: u64,
    power: i32,
}

const fn unit(factor: u64, power: i32) -> Unit {
    Unit { factor, power }
}

const SECONDS: Units = Units {
    names: &[
        ("s", unit(1, 0)),
        ("sec", unit(1, 0)),
        ("m", unit(60, 0)),
        ("min", unit(60, 0)),
        ("h", unit(3600, 0)),
        ("hr", unit(3600, 0)),
        ("d", unit(86400, 0)),
        ("day", unit(86400, 0)),
    ],
    prefixes: &[('m', -3), ('u', -6), ('n', -9)],
};

const BANDWIDTH: Units = Units {
    names: &[
        ("baud", unit(125, -3)),
        ("bps", unit(125, -3)),
        ("b/s", unit(125, -3)),
        ("Bps", unit(1, 0)),
        ("B/s", unit(1, 0)),
    ],
    prefixes: &[('k', 3), ('K', 3), ('M', 6), ('G', 9)],
};

impl Units {
    /// The number before the unit, and the unit; a factor of one without a unit.
    fn split<'t>(&self, text: &'t str) -> (&'t str, Unit) {
        for (name, unit) in self.names {
            let Some(number) = text.strip_suffix(name) else { continue };
            let prefix = self
                .prefixes
                .iter()
                .find_map(|&(letter, power)| Some((number.strip_suffix(letter)?, power)));
            let (number, power) = prefix.unwrap_or((number, 0));
            return (number.trim_ascii_end(), Unit { power: unit.power + power, ..*unit });
        }
        (text, unit(1, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::tests::{accepts, rejects, rereads};
    use proptest::prelude::*;

    #[test]
    fn times_have_units() {
        for (text, nanos) in [
            ("1", 1_000_000_000),
            ("0", 0),
            ("0.5", 500_000_000),
            ("1.5s", 1_500_000_000),
            ("10 ms", 10_000_000),
            ("10msec", 10_000_000),
            ("3us", 3_000),
            ("7ns", 7),
            ("0.5ns", 1),
            ("2min", 120_000_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1.5 hr", 5_400_000_000_000),
            ("1d", 86_400_000_000_000),
            ("1 day", 86_400_000_000_000),
            ("3.6e6 msec", 3_600_000_000_000),
            ("18446744073.709551615", u64::MAX),
        ] {
            accepts(text, Seconds::from_nanos(nanos));
        }
        for wrong in ["s", "-1s", "1 x", "1 s s", "ms", "1km", "1,5"] {
            rejects::<Seconds>(wrong, "parse error");
        }
        rejects::<Seconds>("18446744073.709551616", "out of range");
        rejects::<Seconds>("1e300 d", "out of range");
    }

    #[test]
    fn points_in_time_are_seconds() {
        accepts("1189383079.180265331", Timestamp::from_nanos(1_189_383_079_180_265_331));
        accepts("5 min", Timestamp::from_secs(300));
        rejects::<Timestamp>("-1", "parse error");
        rejects::<Timestamp>("9223372036.854775808", "out of range");
    }

    #[test]
    fn times_round_to_the_nearest() {
        let time = Seconds::from_nanos(1_499_500_000);
        assert_eq!((time.as_secs(), time.as_millis()), (1, 1500));
        assert_eq!(Seconds::from_nanos(1_500_000_000).as_secs(), 2);
        assert_eq!(Seconds::from_millis(1500).to_string(), "1.5");
        assert_eq!(Seconds::new(7).as_duration(), Duration::from_secs(7));
    }

    #[test]
    fn bandwidths_have_units() {
        for (text, bytes) in [
            ("8 baud", 1),
            ("8Kbps", 1000),
            ("8kBps", 8000),
            ("1.5 MB/s", 1_500_000),
            ("10Mbps", 1_250_000),
            ("10 Mb/s", 1_250_000),
            ("100Gbps", 12_500_000_000),
            ("4bps", 1),
            ("3bps", 0),
        ] {
            accepts(text, Bandwidth::from_bytes(bytes));
        }
        accepts("8", Bandwidth { bytes: 8, unitless: true });
        accepts("0", Bandwidth { bytes: 0, unitless: false });
        for wrong in ["10k", "10M", "bps", "1 Tbps", "-1bps", "10 k bps"] {
            rejects::<Bandwidth>(wrong, "parse error");
        }
        rejects::<Bandwidth>("1e30Gbps", "out of range");
    }

    #[test]
    fn bandwidths_print_as_click_prints_them() {
        for (bytes, text) in [
            (0, "0kbps"),
            (1, "0.008kbps"),
            (125_000, "1Mbps"),
            (1_250_001, "10.000008Mbps"),
            (125_000_000, "1Gbps"),
            (0x2000_0000, "536.870912MBps"),
        ] {
            assert_eq!(Bandwidth::from_bytes(bytes).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn quantities_print_as_they_are_read(value: u64, shift in 0..64) {
            rereads(Seconds::from_nanos(value >> shift));
            rereads(Bandwidth::from_bytes(value >> shift));
        }
    }
}
