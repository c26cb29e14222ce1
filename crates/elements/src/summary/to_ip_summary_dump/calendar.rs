//! Dates in the format of C's `ctime`.

use millrace_core::Timestamp;

/// A time in UTC: `Tue Jul 24 17:53:30 2001`.
pub(super) fn ctime(time: Timestamp) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (time.sec().div_euclid(86_400), time.sec().rem_euclid(86_400));
    let (year, month, day) = date(days);
    let weekday = DAYS.get(days.rem_euclid(7) as usize).copied().unwrap_or_default();
    let month = MONTHS.get(month).copied().unwrap_or_default();
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

/// Year, month (from 0) and day (from 1) of a number of days since 1970-01-01.
fn date(days: i64) -> (i64, usize, i64) {
    // Counts from 1 March of the year 0, so that leap days come last.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let next_year = i64::from(month >= 10);
    (era * 400 + year + next_year, ((month + 2) % 12) as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_ctime() {
        for (second, expected) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (996_022_410, "Wed Jul 25 00:53:30 2001"),
            (951_827_696, "Tue Feb 29 12:34:56 2000"),
            (1_000_000_000, "Sun Sep  9 01:46:40 2001"),
        ] {
            assert_eq!(ctime(Timestamp::from_secs(second)), expected);
        }
    }
}
