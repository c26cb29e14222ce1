//! START, START_AFTER, END, END_AFTER and INTERVAL: which part of a trace is played.

use millrace_core::args::Seconds;
use millrace_core::{Args, Timestamp};

/// The part of a trace between two times.
pub(crate) struct Window {
    start: Start,
    end: Option<End>,
    edges: Option<Edges>,
}

/// Where the part starts.
enum Start {
    At(Timestamp),
    /// This long after the first packet of the file.
    After(Timestamp),
}

/// Where the part ends.
enum End {
    At(Timestamp),
    /// This long after the first packet of the file.
    After(Timestamp),
    /// This long after the start.
    Interval(Timestamp),
}

/// The part in absolute times, known once the first packet has been read.
struct Edges {
    /// Packets before this are skipped. None once a packet has been played.
    first: Option<Timestamp>,
    /// The end of the part.
    last: Timestamp,
    /// Whether the end still applies.
    ends: bool,
}

/// The position of a packet relative to the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Before,
    Within,
    Beyond,
}

impl Window {
    /// Reads START, START_AFTER, END, END_AFTER and INTERVAL. A time of 0 counts as not given.
    pub(crate) fn configure(args: &mut Args<'_>) -> Self {
        let start: Timestamp = args.keyword("START", Timestamp::ZERO);
        let start_after: Seconds = args.keyword("START_AFTER", Seconds::ZERO);
        let end: Timestamp = args.keyword("END", Timestamp::ZERO);
        let end_after: Seconds = args.keyword("END_AFTER", Seconds::ZERO);
        let interval: Seconds = args.keyword("INTERVAL", Seconds::ZERO);
        if !start.is_zero() && !start_after.is_zero() {
            args.error("START_AFTER", "START and START_AFTER are mutually exclusive");
        }
        let ends = [!end.is_zero(), !end_after.is_zero(), !interval.is_zero()];
        if ends.into_iter().filter(|&given| given).count() > 1 {
            args.error((), "END, END_AFTER, and INTERVAL are mutually exclusive");
        }
        let start = match start.is_zero() {
            true => Start::After(span(start_after)),
            false => Start::At(start),
        };
        let end = match ends {
            [true, ..] => Some(End::At(end)),
            [_, true, _] => Some(End::After(span(end_after))),
            [_, _, true] => Some(End::Interval(span(interval))),
            _ => None,
        };
        Self { start, end, edges: None }
    }

    /// Whether there is an end other than the end of the file.
    pub(crate) fn has_end(&self) -> bool {
        self.end.is_some()
    }

    /// The position of a packet with this time. The first call must be for the first packet of the
    /// file.
    pub(crate) fn place(&mut self, time: Timestamp) -> Place {
        let (start, end) = (&self.start, &self.end);
        let edges = self.edges.get_or_insert_with(|| Edges::new(start, end.as_ref(), time));
        if edges.first.is_some_and(|first| time < first) {
            return Place::Before;
        }
        edges.first = None;
        if edges.ends && time >= edges.last { Place::Beyond } else { Place::Within }
    }

    /// Ignores the end from now on, because it was reached.
    pub(crate) fn pass_end(&mut self) {
        if let Some(edges) = &mut self.edges {
            edges.ends = false;
        }
    }

    /// Moves the end, whether or not it was reached. Returns false if there is none.
    pub(crate) fn extend(&mut self, by: Timestamp) -> bool {
        match (&mut self.edges, &mut self.end) {
            (_, None) => return false,
            (Some(edges), Some(_)) => {
                edges.last += by;
                edges.ends = true;
            }
            (None, Some(End::At(time) | End::After(time) | End::Interval(time))) => {
                *time += by;
            }
        }
        true
    }
}

impl Edges {
    fn new(start: &Start, end: Option<&End>, time: Timestamp) -> Self {
        let first = match *start {
            Start::At(first) => first,
            Start::After(span) => time + span,
        };
        let last = match end {
            Some(&End::At(last)) => last,
            Some(&End::After(span)) => time + span,
            Some(&End::Interval(span)) => first + span,
            None => Timestamp::MAX,
        };
        Self { first: Some(first), last, ends: end.is_some() }
    }
}

fn span(seconds: Seconds) -> Timestamp {
    Timestamp::from(seconds.as_duration())
}

#[cfg(test)]
mod tests {
    use millrace_core::args::Scope;

    use super::*;

    fn places(config: &str, times: &[i64]) -> Vec<Place> {
        let mut args = Args::of_text(config, Scope::builtin());
        let mut window = Window::configure(&mut args);
        args.complete().unwrap();
        times.iter().map(|&time| window.place(Timestamp::from_secs(time))).collect()
    }

    #[test]
    fn plays_from_the_start_to_the_end() {
        use Place::{Before, Beyond, Within};
        let times = &[100, 101, 102, 103, 104];
        for (config, expected) in [
            ("", [Within; 5]),
            ("START 102", [Before, Before, Within, Within, Within]),
            ("START_AFTER 1", [Before, Within, Within, Within, Within]),
            ("END 103", [Within, Within, Within, Beyond, Beyond]),
            ("END_AFTER 2s", [Within, Within, Beyond, Beyond, Beyond]),
            ("START 101, INTERVAL 2", [Before, Within, Within, Beyond, Beyond]),
            ("START_AFTER 2, INTERVAL 1", [Before, Before, Within, Beyond, Beyond]),
            ("INTERVAL 3", [Within, Within, Within, Beyond, Beyond]),
            ("START 0, END 0", [Within; 5]),
        ] {
            assert_eq!(places(config, times), expected, "{config}");
        }
        // Only packets before the first played one are skipped.
        assert_eq!(places("START 102", &[101, 102, 101]), [Before, Within, Within]);
    }

    #[test]
    fn rejects_two_starts_or_two_ends() {
        for config in ["START 1, START_AFTER 1", "END 1, END_AFTER 1", "END_AFTER 1, INTERVAL 1"] {
            let mut args = Args::of_text(config, Scope::builtin());
            Window::configure(&mut args);
            assert!(args.complete().is_err(), "{config}");
        }
    }

    #[test]
    fn extend_moves_the_end() {
        let seconds = Timestamp::from_secs;
        let mut args = Args::of_text("END_AFTER 1", Scope::builtin());
        let mut window = Window::configure(&mut args);
        assert!(window.extend(seconds(1)));
        assert_eq!(window.place(seconds(100)), Place::Within);
        assert_eq!(window.place(seconds(102)), Place::Beyond);
        window.pass_end();
        assert_eq!(window.place(seconds(102)), Place::Within);
        assert!(window.extend(seconds(3)));
        assert_eq!(window.place(seconds(104)), Place::Within);
        assert_eq!(window.place(seconds(105)), Place::Beyond);
        let mut endless = Window::configure(&mut Args::of_text("", Scope::builtin()));
        assert!(!endless.extend(seconds(1)));
    }
}
