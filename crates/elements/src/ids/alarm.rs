//! What happens when rules alert: counts, the annotation, a line of text.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::args::Annotation;
use millrace_core::{Args, Context, Packet};

use super::payload::Located;
use super::rules::{Compiled, name};

/// Where the number of the rule is noted unless ANNO says so: nothing but PERFCTR reaches there.
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

    /// Counts a rule that alerted, and prints it.
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
            cx.router().chatter(&format!("{element}: alert {}{sid} {name}: {packet}", rule + 1));
        }
    }

    /// Where results are noted.
    pub(crate) fn anno(&self) -> usize {
        self.anno
    }

    /// How many packets alerted.
    pub(crate) fn alerts(&self) -> u64 {
        self.alerts.load(Relaxed)
    }

    /// Counts from 0 again.
    pub(crate) fn reset(&self, rules: &Compiled) {
        self.alerts.store(0, Relaxed);
        rules.counts.iter().for_each(|count| count.store(0, Relaxed));
    }

    /// Goes on counting from what another one counted.
    pub(crate) fn take(&self, old: &Self) {
        self.alerts.store(old.alerts(), Relaxed);
    }
}
