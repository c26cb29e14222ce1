//! The targets: one a file.

mod config;
mod control;
mod packets;
mod parse;
mod readers;
mod router;
mod swap;

/// What can be done with bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// Inputs that are longer find nothing that shorter ones do not.
    pub longest: usize,
    /// Does it.
    ///
    /// # Panics
    /// Something is wrong with Millrace.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "parse",
        about: "any text as a configuration: compiled, its messages rendered, laid out, flattened",
        longest: 4096,
        run: parse::run,
    },
    Target {
        name: "config",
        about: "configurations of all classes with arguments of all kinds, run for a few packets",
        longest: 1024,
        run: config::run,
    },
    Target {
        name: "packets",
        about: "hostile packets through graphs of all classes",
        longest: 2048,
        run: packets::run,
    },
    Target {
        name: "router",
        about: "frames through whole routers, those of the examples",
        longest: 8192,
        run: router::run,
    },
    Target {
        name: "readers",
        about: "files of packets, of rules, of patterns and of routes",
        longest: 4096,
        run: readers::run,
    },
    Target {
        name: "control",
        about: "handlers and the control protocol, while packets flow",
        longest: 2048,
        run: control::run,
    },
    Target {
        name: "swap",
        about: "hot swap from configuration to configuration, while packets flow",
        longest: 2048,
        run: swap::run,
    },
];
