//! Code shared by RatedSplitter and BandwidthRatedSplitter.

use std::sync::MutexGuard;

use millrace_core::{Batch, Context, Element, Failed, Handlers, Lock, Setup};

use super::pace::{Pace, Unit};

/// Sends packets within the rate to output 0, the others to output 1.
pub(super) struct Splitting(Lock<Pace>);

impl Splitting {
    pub(super) fn configure(setup: &mut Setup<'_>, unit: Unit) -> Result<Self, Failed> {
        let pace = Pace::configure(&mut setup.args, unit);
        setup.args.complete()?;
        Ok(Self(Lock::new(pace)))
    }

    pub(super) fn push(&self, cx: &mut Context, batch: &mut Batch) {
        let now = cx.now();
        let mut pace = self.pace();
        cx.route(batch, |packet| {
            let due = pace.is_due(now);
            if due {
                pace.spend(packet);
            }
            usize::from(!due)
        });
    }

    /// The handlers `rate` and `config`.
    pub(super) fn handlers<E: Element>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.read("rate", move |e, _| of(e).pace().rate_text());
        handlers.write("rate", move |e, call| of(e).pace().write_rate(call));
        handlers.read("config", move |e, _| of(e).pace().rate_text());
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.0.lock()
    }
}
