//! A short soak by each method: traffic, hot swaps and faults, as `cargo xtask soak` does it for hours.

use std::sync::Arc;
use std::time::Duration;

use millrace_testkit::privileged;
use millrace_testkit::soak::{self, Fault, Plan};

use crate::METHODS;

#[test]
fn a_router_bears_what_happens_to_routers() {
    let Some(_alone) = privileged!("ip", "sysctl", "mount") else { return };
    for method in METHODS {
        let plan = Plan {
            program: env!("CARGO_BIN_EXE_millrace").into(),
            method: (*method).to_owned(),
            time: Duration::from_secs(15),
            seed: 1,
            faults: Fault::ALL.to_vec(),
            rate: 200,
            every: Duration::from_secs(1),
            interrupted: Arc::default(),
        };
        let report = soak::run(&plan).unwrap();
        assert!(report.problems().is_empty(), "{report}{:#}", report.json());
        assert!(report.injected(Fault::Swap) > 0 && report.sent() > 0, "{report}");
    }
}
