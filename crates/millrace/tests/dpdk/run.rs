//! The program with DPDK, and what came of it.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// What came of a run of the program.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: i32,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            status: output.status.code().unwrap_or(-1),
        }
    }
}

pub(crate) fn millrace(args: &[&str]) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(args).stdin(Stdio::null()).output().unwrap().into()
}

/// The words of a run with these virtual devices, on ordinary pages and without touching the machine's
/// cards. They go before those of the configuration.
pub(crate) fn words<'a>(devices: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["run", "--json", "--dpdk", "--no-huge", "--no-pci"];
    for device in devices {
        words.extend(["--vdev", device]);
    }
    words.push("--");
    words
}

/// Runs a configuration for a moment, which must end well.
pub(crate) fn run(devices: &[&str], more: &[&str], configuration: &str) -> Summary {
    let words = words(devices);
    let done = millrace(&[&words[..], &["--for", "400ms"], more, &["-e", configuration]].concat());
    Summary::of(done)
}

/// What a run counted.
pub(crate) struct Summary {
    counts: Value,
    /// What the program said.
    pub(crate) said: String,
}

impl Summary {
    pub(crate) fn of(done: Done) -> Self {
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert!(!done.stderr.contains("were not returned"), "{}", done.stderr);
        let counts: Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(counts["totals"]["balanced"], true, "{counts:#}");
        Self { counts, said: done.stderr }
    }

    /// Packets that went by a device `in` or `out`.
    pub(crate) fn packets(&self, device: &str, direction: &str) -> u64 {
        let devices = self.counts["devices"].as_array().unwrap().iter();
        let mut found =
            devices.filter(|one| one["device"] == device && one["direction"] == direction);
        found.next().unwrap_or_else(|| panic!("{:#}", self.counts))["packets"].as_u64().unwrap()
    }

    /// Packets that came to an element.
    pub(crate) fn received(&self, element: &str) -> u64 {
        let mut elements = self.counts["elements"].as_array().unwrap().iter();
        let found = elements.find(|one| one["name"] == element);
        found.unwrap_or_else(|| panic!("{:#}", self.counts))["received"].as_u64().unwrap()
    }

    /// Packets whose data was copied because the device could not take them as they were.
    pub(crate) fn transmit_copies(&self) -> u64 {
        self.counts["copies"]["transmit"].as_u64().unwrap()
    }

    /// Packets whose data was copied, for any reason.
    pub(crate) fn copies(&self) -> u64 {
        let causes = self.counts["copies"].as_object().unwrap().values();
        causes.map(|count| count.as_u64().unwrap()).sum()
    }
}
