//! The latency of a single packet: the round trip of an echo through an idle forwarder.

use anyhow::Context;
use serde_json::{Value, json};

use super::METHODS;
use super::rig::{Forwarder, Rig};
use crate::report::{median, rounded};

pub(super) const GROUP: &str = "idle";

/// A forwarder, and the round trips of echoes through it in microseconds.
pub(super) struct Case {
    name: &'static str,
    forwarder: Forwarder,
    times: Vec<f64>,
}

pub(super) fn cases() -> Vec<Case> {
    let case = |name, forwarder| Case { name, forwarder, times: Vec::new() };
    let mut cases = vec![case("bridge", Forwarder::Bridge)];
    for method in METHODS {
        let graph = format!(
            "FromDevice(eth0, PROMISC true, METHOD {method}) -> ToDevice(eth1, METHOD {method});
             FromDevice(eth1, PROMISC true, METHOD {method}) -> ToDevice(eth0, METHOD {method})"
        );
        cases.push(case(method, Forwarder::Millrace(graph)));
    }
    cases
}

impl Case {
    pub(super) fn measure(&mut self, rig: &Rig) -> anyhow::Result<()> {
        let time = rig.round_trip(&self.forwarder);
        self.times.push(time.with_context(|| format!("{GROUP}: {}", self.name))?);
        Ok(())
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "group": GROUP,
            "name": self.name,
            "us": median(self.times.clone()).map(rounded),
        })
    }
}

/// The table for people.
pub(super) fn tell(cases: &[Case]) -> String {
    let mut text = String::new();
    for (at, case) in cases.iter().enumerate() {
        if at == 0 {
            text.push_str(&format!("\n{GROUP:<10}{:<18}{:>8}\n", "", "us"));
        }
        let time = median(case.times.clone()).map_or("-".to_owned(), |time| format!("{time:.0}"));
        text.push_str(&format!("{:<10}{:<18}{time:>8}\n", "", case.name));
    }
    text
}
