//! Points in time and spans of time, to the nanosecond.

use std::fmt;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NANOS_PER_SEC: i64 = 1_000_000_000;

/// Nanoseconds since 1970-01-01T00:00:00Z, or a difference between two such times; it may be negative. Covers
/// the years 1678 to 2262; arithmetic saturates at the ends of that range.
///
/// It prints like Click's timestamps, in seconds with six decimals (`1000000000.000000`), or with nine in the
/// alternate form (`{:#}`). Further decimals are truncated, not rounded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[repr(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Zero: the epoch, also used for "not set".
    pub const ZERO: Timestamp = Timestamp(0);

    /// The latest possible time.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// From nanoseconds.
    #[inline]
    pub const fn from_nanos(nanos: i64) -> Timestamp {
        Timestamp(nanos)
    }

    /// From microseconds.
    #[inline]
    pub const fn from_micros(micros: i64) -> Timestamp {
        Timestamp(micros.saturating_mul(1_000))
    }

    /// From milliseconds.
    #[inline]
    pub const fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis.saturating_mul(1_000_000))
    }

    /// From seconds.
    #[inline]
    pub const fn from_secs(secs: i64) -> Timestamp {
        Timestamp(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// From seconds and additional nanoseconds (which may exceed one second).
    #[inline]
    pub const fn new(secs: i64, nanos: u32) -> Timestamp {
        Timestamp(secs.saturating_mul(NANOS_PER_SEC).saturating_add(nanos as i64))
    }

    /// The current time of the system's clock.
    pub fn now() -> Timestamp {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.into(),
            Err(before) => -Timestamp::from(before.duration()),
        }
    }

    /// Nanoseconds.
    #[inline]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whole microseconds, rounded down.
    #[inline]
    pub const fn as_micros(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// Whole milliseconds, rounded down.
    #[inline]
    pub const fn as_millis(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Seconds as a floating-point number.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }

    /// Whole seconds, rounded down: -1 for half a second before the epoch.
    #[inline]
    pub const fn sec(self) -> i64 {
        self.0.div_euclid(NANOS_PER_SEC)
    }

    /// Nanoseconds in addition to [`sec`](Timestamp::sec), 0 to 999,999,999.
    #[inline]
    pub const fn nsec(self) -> u32 {
        self.0.rem_euclid(NANOS_PER_SEC) as u32
    }

    /// Microseconds in addition to [`sec`](Timestamp::sec), 0 to 999,999.
    #[inline]
    pub const fn usec(self) -> u32 {
        self.nsec() / 1_000
    }

    /// Returns whether it is zero, which stands for "not set".
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The span as a standard duration; a negative one is zero.
    pub fn to_duration(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }

    /// The sum, or `None` outside the range.
    #[inline]
    pub const fn checked_add(self, other: Timestamp) -> Option<Timestamp> {
        match self.0.checked_add(other.0) {
            Some(nanos) => Some(Timestamp(nanos)),
            None => None,
        }
    }
}

impl From<Duration> for Timestamp {
    fn from(duration: Duration) -> Self {
        Timestamp(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl Add for Timestamp {
    type Output = Timestamp;

    #[inline]
    fn add(self, other: Timestamp) -> Timestamp {
        Timestamp(self.0.saturating_add(other.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    #[inline]
    fn add(self, other: Duration) -> Timestamp {
        self + Timestamp::from(other)
    }
}

impl Sub for Timestamp {
    type Output = Timestamp;

    #[inline]
    fn sub(self, other: Timestamp) -> Timestamp {
        Timestamp(self.0.saturating_sub(other.0))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    #[inline]
    fn sub(self, other: Duration) -> Timestamp {
        self - Timestamp::from(other)
    }
}

impl AddAssign for Timestamp {
    fn add_assign(&mut self, other: Timestamp) {
        *self = *self + other;
    }
}

impl SubAssign for Timestamp {
    fn sub_assign(&mut self, other: Timestamp) {
        *self = *self - other;
    }
}

impl Neg for Timestamp {
    type Output = Timestamp;

    fn neg(self) -> Timestamp {
        Timestamp(self.0.saturating_neg())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        let (secs, nanos) = (nanos / NANOS_PER_SEC as u64, nanos % NANOS_PER_SEC as u64);
        if f.alternate() {
            write!(f, "{sign}{secs}.{nanos:09}")
        } else {
            write!(f, "{sign}{secs}.{:06}", nanos / 1_000)
        }
    }
}

/// The text is not a decimal number of seconds, or out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a time in seconds")]
pub struct ParseTimestampError;

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    /// Reads decimal seconds: `12`, `-1.5`, `.25`, `1000000000.123456789`. Ignores digits after the ninth
    /// decimal.
    fn from_str(text: &str) -> Result<Timestamp, ParseTimestampError> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
            return Err(ParseTimestampError);
        }
        let secs: i128 = match whole {
            "" => 0,
            whole => i128::from(whole.parse::<u64>().map_err(|_| ParseTimestampError)?),
        };
        let nanos = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
        let nanos = nanos.fold(0, |sum, digit| sum * 10 + i128::from(digit - b'0'));
        let total = secs * i128::from(NANOS_PER_SEC) + nanos;
        let total = if text.starts_with('-') { -total } else { total };
        i64::try_from(total).map(Timestamp).map_err(|_| ParseTimestampError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_click_does() {
        for (nanos, six, nine) in [
            (0, "0.000000", "0.000000000"),
            (1_000_000_000_000_000_000, "1000000000.000000", "1000000000.000000000"),
            (1_999_999_999, "1.999999", "1.999999999"),
            (-500_000_000, "-0.500000", "-0.500000000"),
            (-1_500_000_001, "-1.500000", "-1.500000001"),
            (i64::MIN, "-9223372036.854775", "-9223372036.854775808"),
        ] {
            let time = Timestamp::from_nanos(nanos);
            assert_eq!(time.to_string(), six);
            assert_eq!(format!("{time:#}"), nine);
            assert_eq!(nine.parse(), Ok(time));
        }
    }

    #[test]
    fn seconds_round_down() {
        let time = Timestamp::from_millis(-500);
        assert_eq!((time.sec(), time.nsec(), time.usec()), (-1, 500_000_000, 500_000));
        assert_eq!(Timestamp::new(time.sec(), time.nsec()), time);
        assert_eq!((time.as_millis(), time.as_micros()), (-500, -500_000));
    }

    #[test]
    fn reads_decimal_seconds() {
        for (text, nanos) in [
            ("12", 12_000_000_000),
            (".25", 250_000_000),
            ("-1.5", -1_500_000_000),
            ("+0.0000000019", 1),
            ("3.", 3_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Timestamp::from_nanos(nanos)), "{text}");
        }
        for text in
            ["", ".", "-", "1.5s", "1 ", "0x1", "--1", "1.-5", "9223372037", "99999999999999999999"]
        {
            assert_eq!(text.parse::<Timestamp>(), Err(ParseTimestampError), "{text}");
        }
    }

    #[test]
    fn arithmetic_stops_at_the_ends() {
        assert_eq!(Timestamp::MAX + Duration::from_secs(1), Timestamp::MAX);
        assert_eq!(Timestamp::from_secs(i64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_secs(3) - Timestamp::from_secs(5), Timestamp::from_secs(-2));
        assert_eq!(Timestamp::from_secs(-2).to_duration(), Duration::ZERO);
        assert_eq!(Timestamp::from_millis(1_500).to_duration(), Duration::from_millis(1_500));
    }
}
