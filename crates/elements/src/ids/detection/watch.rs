//! Code shared by the elements that search for patterns: rules, alerts, and the handlers for both.

use millrace_core::args::FileName;
use millrace_core::{Args, Element, Failed, Handlers, Inspection, Refused};

use super::alarm::Alarm;
use super::rules::{InForce, Source, Target};

/// The rules in force, and what happens when they alert.
pub(crate) struct Watch {
    pub(crate) rules: InForce,
    pub(crate) alarm: Alarm,
}

impl Watch {
    /// Reads FILE, PATTERN, FORMAT, NOCASE, ANNO and LOG.
    ///
    /// # Errors
    /// No rules can be compiled for this target.
    pub(crate) fn configure(args: &mut Args<'_>, target: Target) -> Result<Self, Failed> {
        let (source, alarm) = (Source::configure(args), Alarm::configure(args));
        let rules = InForce::new(source, target).map_err(|error| {
            args.error((), error);
            Failed
        })?;
        Ok(Self { rules, alarm })
    }

    /// Reads the file when the configuration is checked.
    pub(crate) fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.rules.inspect(inspection);
    }

    /// Compiles the rules and puts them in force.
    ///
    /// # Errors
    /// They cannot be compiled.
    pub(crate) fn initialize(&self) -> Result<(), Refused> {
        self.rules.start().map_err(Refused)
    }

    /// Continues the counts of the old one.
    pub(crate) fn take(&self, old: &Self) {
        self.alarm.take(&old.alarm);
        self.rules.take(&old.rules);
    }
}

/// The handlers of an element's rules and alerts.
pub(crate) fn handlers<E: Element>(handlers: &mut Handlers<E>, watch: fn(&E) -> &Watch) {
    handlers.read("alerts", move |ids, _| watch(ids).alarm.alerts());
    handlers.read("counts", move |ids, _| watch(ids).rules.load().counts());
    handlers.write("reset_counts", move |ids, _| {
        watch(ids).alarm.reset(&watch(ids).rules.load());
        Ok(())
    });
    handlers.read("patterns", move |ids, _| watch(ids).rules.load().set.to_string());
    handlers.write("patterns", move |ids, call| Ok(watch(ids).rules.write(call.bytes())?));
    handlers.write("load", move |ids, call| match call.bytes().trim_ascii() {
        b"" => Ok(watch(ids).rules.read(None)?),
        _ => Ok(watch(ids).rules.read(Some(call.parse::<FileName>()?.as_path()))?),
    });
    handlers.read("memory", move |ids, _| watch(ids).rules.load().memory());
    handlers.read("build_time", move |ids, _| watch(ids).rules.load().build_time.as_secs_f64());
}
