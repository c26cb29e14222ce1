//! Durations in the text format of Click's handlers.

use millrace_core::Timestamp;
use millrace_core::args::Seconds;

/// A duration as text: `20ms`, `1500us`, or `1.500000s` for a second or more.
pub(crate) fn interval_text(time: Timestamp) -> String {
    match time.nsec() {
        _ if time.sec() != 0 => format!("{time}s"),
        nanos if nanos % 1_000_000 == 0 => format!("{}ms", nanos / 1_000_000),
        nanos if nanos % 1000 == 0 => format!("{}us", nanos / 1000),
        nanos => format!("{nanos}ns"),
    }
}

/// Converts a parsed duration to one that can be added to timestamps.
pub(crate) fn span(time: Seconds) -> Timestamp {
    Timestamp::from_nanos(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_the_largest_that_fits() {
        for (nanos, text) in [
            (0, "0ms"),
            (20_000_000, "20ms"),
            (1_500_000, "1500us"),
            (7, "7ns"),
            (1_500_000_000, "1.500000s"),
        ] {
            assert_eq!(interval_text(Timestamp::from_nanos(nanos)), text);
        }
    }
}
