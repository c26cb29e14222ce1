//! Quantities with units.

use std::fmt;
use std::time::Duration;

use super::number::Real;
use crate::args::{Arg, ArgError, ArgText, Scope};

/// A length of time, 0 to some 584 years, in nanoseconds: `1.5`, `20ms`, `10 us`, `2min`, `1h`,
/// `1d`. Without a unit, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seconds(u64);

impl Seconds {
    /// No time at all.
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

    /// As the standard library has it.
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// True of no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Seconds> for Duration {
    fn from(time: Seconds) -> Self {
        time.as_duration()
    }
}

/// Seconds with as many decimals as it takes.
impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0.into(), 9)
    }
}

impl Arg for Seconds {
    const EXPECTS: &'static str = "a time in seconds, or with a unit such as ‘ms’ or ‘min’";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let nanos = parse_seconds(text.as_str(), false)?;
        Ok(Self(nanos.try_into().map_err(|_| ArgError::new("out of range"))?))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A point in time, or a difference of two, in nanoseconds (since 1970 when it is a date). Units
/// as for [`Seconds`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// That many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }
}

/// Seconds with as many decimals as it takes.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        write_decimal(f, self.0.unsigned_abs().into(), 9)
    }
}

impl Arg for Timestamp {
    const EXPECTS: &'static str = "a time in seconds";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let nanos = parse_seconds(text.as_str(), true)?;
        Ok(Self(nanos.try_into().map_err(|_| ArgError::new("out of range"))?))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A bandwidth in bytes per second: `10Mbps`, `1.5 GB/s`, `9600baud`. Without a unit, bytes per
/// second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// That many bytes per second.
    pub const fn from_bytes(bytes_per_second: u64) -> Self {
        Self(bytes_per_second)
    }

    /// In bytes per second.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

/// As Click prints it: `1.2Mbps`.
impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, decimals, unit) = match u128::from(self.0) {
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
        let value = real.scale(unit.factor, unit.power).and_then(|v| v.try_into().ok());
        Ok(Self(value.ok_or_else(|| ArgError::new("out of range"))?))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

fn parse_seconds(text: &str, signed: bool) -> Result<i128, ArgError> {
    let (number, unit) = SECONDS.split(text);
    let real = Real::parse(number, signed).ok_or_else(ArgError::default)?;
    real.scale(unit.factor, unit.power + 9).ok_or_else(|| ArgError::new("out of range"))
}

/// Writes `value / 10^decimals` without zeros at the end.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u128, decimals: u32) -> fmt::Result {
    let one = 10u128.pow(decimals);
    write!(f, "{}", value / one)?;
    let fraction = format!("{:0width$}", value % one, width = decimals as usize);
    match fraction.trim_end_matches('0') {
        "" => Ok(()),
        fraction => write!(f, ".{fraction}"),
    }
}

/// The units of a quantity, and the letters that may stand before them.
struct Units {
    names: &'static [(&'static str, Unit)],
    prefixes: &'static [(char, i32)],
}

/// What a number with this unit is multiplied by: `factor * 10^power`.
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
