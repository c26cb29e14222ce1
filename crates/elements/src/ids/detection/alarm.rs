//! What happens when a rule alerts: it is counted, noted in the annotation, and printed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::args::Annotation;
use millrace_core::{Args, Context, Packet};
use millrace_match::patterns::{Content, Rule};

use super::payload::Located;
use super::rules::{Compiled, name};

/// The default of ANNO; only PERFCTR overlaps these bytes.
const DEFAULT: Annotation<4> = Annotation(44);

/// The arguments ANNO and LOG, and the number of packets that alerted.
pub(crate) struct Alarm {
    anno: usize,
    log: bool,
    alerts: AtomicU64,
}

impl Alarm {
    /// Reads ANNO and LOG.
    pub(crate) fn configure(args: &mut Args<'_>) -> Self {
        let Annotation(anno) = args.keyword("ANNO", DEFAULT);
        let log = args.keyword("LOG", false);
        Self { anno, log, alerts: AtomicU64::new(0) }
    }

    /// Notes a packet's result: the lowest rule that alerted plus 1, or 0.
    pub(crate) fn note(&self, packet: &mut Packet, result: u32) {
        packet.set_anno_u32(self.anno, result);
        if result > 0 {
            self.alerts.fetch_add(1, Relaxed);
        }
    }

    /// Counts a rule that alerted, and prints the alert.
    pub(crate) fn raise(&self, cx: &Context, rules: &Compiled, rule: u32, packet: &Located<'_>) {
        if let Some(count) = rules.counts.get(rule as usize) {
            count.fetch_add(1, Relaxed);
        }
        if self.log
            && let Some(described) = rules.set.rules().get(rule as usize)
        {
            let element = cx.router().name_of(cx.element());
            let sid = described.sid.map(|sid| format!(" [{sid}]")).unwrap_or_default();
            let name = name(described);
            let place = match place(described, packet.text.bytes) {
                Some(at) => format!("offset {at}"),
                None => "begun before".to_owned(),
            };
            let rule = rule + 1;
            cx.router().chatter(&format!("{element}: alert {rule}{sid} {name}: {packet}, {place}"));
        }
    }

    /// The annotation that holds results.
    pub(crate) fn anno(&self) -> usize {
        self.anno
    }

    /// How many packets alerted.
    pub(crate) fn alerts(&self) -> u64 {
        self.alerts.load(Relaxed)
    }

    /// Sets all counts to 0.
    pub(crate) fn reset(&self, rules: &Compiled) {
        self.alerts.store(0, Relaxed);
        rules.counts.iter().for_each(|count| count.store(0, Relaxed));
    }

    /// Continues the counts of the old one.
    pub(crate) fn take(&self, old: &Self) {
        self.alerts.store(old.alerts(), Relaxed);
    }
}

/// The position in a payload of the first content of a rule that is found. With streams, windows refer to the stream,
/// so a content in its window is only preferred. `None` if all contents lie across packets or in earlier packets.
fn place(rule: &Rule, payload: &[u8]) -> Option<usize> {
    let find = |content: &Content, from: usize| {
        let is_it = |bytes: &[u8]| match content.nocase {
            true => bytes.eq_ignore_ascii_case(&content.bytes),
            false => bytes == content.bytes,
        };
        let mut places = payload.windows(content.bytes.len().max(1)).enumerate().skip(from);
        places.find(|(_, bytes)| is_it(bytes)).map(|(at, _)| at)
    };
    let in_window = rule.contents.iter().find_map(|content| find(content, content.offset as usize));
    in_window.or_else(|| rule.contents.iter().find_map(|content| find(content, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_content_is_found() {
        let content =
            |bytes: &str, offset, nocase| Content { offset, nocase, ..Content::of(bytes) };
        let cases: [(Content, &str, Option<usize>); 7] = [
            (content("ab", 0, false), "xabab", Some(1)),
            (content("ab", 2, false), "xabab", Some(3)),
            (content("ab", 9, false), "xabab", Some(1)),
            (content("ab", 0, false), "xAB", None),
            (content("ab", 0, true), "xAB", Some(1)),
            (content("ab", 0, false), "a", None),
            (content("ab", 0, false), "", None),
        ];
        for (content, payload, expected) in cases {
            let found = place(&Rule::of(content.clone()), payload.as_bytes());
            assert_eq!(found, expected, "{content:?} in {payload}");
        }
    }
}
