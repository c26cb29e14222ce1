//! The examples with GPU sections do what their forms for the CPU do.

use std::collections::BTreeMap;
use std::path::Path;

use super::run::json;
use super::{Done, millrace_command};

const EXAMPLES: [&str; 5] =
    ["sdn-forwarder", "dpi-router", "ids-router", "diverging", "ip-router-ids"];

/// Runs an example in the lab, from the root of the repository, where its files are.
fn run(example: &str) -> Done {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = format!("examples/gpu/{example}.click");
    let args = ["run", &file, "--lab", "--simtime", "--for", "2s", "--json"];
    Done::from(millrace_command().current_dir(root).args(args).output().unwrap())
}

/// How often each alert was raised, whatever the element is called. Which packets are first differs with the batches.
fn alerts(done: &Done) -> BTreeMap<String, usize> {
    let mut alerts = BTreeMap::new();
    for line in done.stderr.lines() {
        if let Some((_, alert)) = line.split_once(": alert ") {
            *alerts.entry(alert.to_owned()).or_default() += 1;
        }
    }
    alerts
}

#[test]
fn sections_do_what_the_cpu_does() {
    for example in EXAMPLES {
        let section = run(example);
        let cpu = run(&format!("{example}-cpu"));
        assert_eq!((section.status, cpu.status), (0, 0), "{example}: {}", section.stderr);
        let (summary, of_cpu) = (json(&section), json(&cpu));
        assert_eq!(summary["lab"]["exchanges"], of_cpu["lab"]["exchanges"], "{example}");
        let pings = &summary["lab"]["exchanges"]["ping"];
        assert_eq!(pings["came"], pings["due"], "{example}");
        assert_eq!(summary["totals"]["balanced"], true, "{example}");
        assert_eq!(alerts(&section), alerts(&cpu), "{example}");
        assert_eq!(alerts(&section).is_empty(), example == "sdn-forwarder", "{example}");
        assert!(section.stderr.contains("host backend"), "{example}: {}", section.stderr);
    }
}
