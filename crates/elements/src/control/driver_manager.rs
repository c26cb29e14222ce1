//! DriverManager - decides when the program stops
//!
//! # Synopsis
//! `DriverManager(INSTRUCTION, ...)`
//!
//! # Description
//! A Script of type DRIVER: it runs from the start, and a request to stop the program ends the script's current wait
//! instead. When the script ends, the program stops. For example, `DriverManager(pause, pause)` stops at the second
//! request; `DriverManager(wait 10s)` stops after ten seconds, or at the first request.
//!
//! A configuration has at most one DriverManager or Script of type DRIVER.
//!
//! # Arguments
//! - INSTRUCTION: as in Script. Any number of them.
//! - TYPE: as in Script. Keyword, default DRIVER.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! Those of Script.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10, STOP true) -> c :: Counter -> Discard;
//! DriverManager(pause, print c.count, stop);
//! ```
//!
//! # See also
//! Script

use std::sync::Arc;

use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Inspection, Offers, Refused, Setup, register,
};

use super::script::{Kind, Script, script_handlers};
use crate::capability::Failures;

/// The element; its manual is at the top of the file.
pub struct DriverManager {
    script: Script,
}

register!(DriverManager, "driver_manager.rs");

impl Element for DriverManager {
    const CLASS: Class =
        Class::new("DriverManager", "0/0", "a/a").phase(Class::PHASE_LAST).own_variables();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Ok(Self { script: Script::configure_as(setup, Kind::Driver)? })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        Element::inspect(&self.script, inspection);
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        Element::initialize(&self.script, init)
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        Element::run_timer(&self.script, cx, &mut ());
    }

    fn stop_requested(&self, cx: &mut Context, (): &mut ()) -> bool {
        Element::stop_requested(&self.script, cx, &mut ())
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn Failures>(self.clone());
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        script_handlers(handlers, |manager| &manager.script);
    }
}

impl Failures for DriverManager {
    fn failures(&self) -> Option<String> {
        self.script.failures()
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::testing::Rig;

    #[test]
    fn a_request_to_stop_ends_a_wait() {
        let mut rig = Rig::new("DriverManager(pause, set x 1, pause, set x 2)", 0, 0).unwrap();
        rig.pass(Timestamp::from_secs(1));
        rig.router().request_stop();
        rig.pass(Timestamp::from_secs(1));
        assert_eq!(rig.read_with("get", "x").unwrap(), "1");
        assert!(rig.router().is_running());
        rig.router().request_stop();
        rig.pass(Timestamp::from_secs(1));
        assert_eq!(rig.read_with("get", "x").unwrap(), "2");
        assert!(!rig.router().is_running());
    }

    #[test]
    fn the_program_stops_when_the_script_ends() {
        let mut rig = Rig::new("DriverManager(wait 2s)", 0, 0).unwrap();
        rig.pass(Timestamp::from_secs(1));
        assert!(rig.router().is_running());
        rig.pass(Timestamp::from_secs(2));
        assert!(!rig.router().is_running());
    }
}
