//! An element for the device and its twin on the CPU: the same packets make the same outputs, the same reasons for drops
//! and the same handlers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/hostile.rs"]
mod hostile;
#[path = "support/router.rs"]
mod router;

use std::collections::BTreeSet;

use fastrand::Rng;
use millrace_core::Timestamp;
use millrace_testkit::generate::frame::Frame;
use millrace_testkit::generate::rules::{Fields, KINDS, Rule, RuleSet, text};
use millrace_testkit::generate::trace::Trace;

use router::Bench;

const DEVICES: [&str; 2] =
    ["GPURuntime(DEVICE host);", "GPURuntime(DEVICE simulator, STREAMS 2, FAULTS 5%, SEED 7);"];

/// Handlers that say something else of every element, or of every run.
const OWN: [&str; 7] =
    ["class", "name", "config", "ports", "handlers", "build_time", "image_bytes"];

/// An element in a router of its own.
struct Twin {
    bench: Bench,
}

impl Twin {
    fn element(&self) -> usize {
        self.bench.engine.router().find("twin").unwrap()
    }

    /// The handlers that can be read, but for [`OWN`] ones.
    fn handlers(&self) -> BTreeSet<String> {
        let all = self.bench.engine.router().handlers_of(self.element());
        let readable = all.into_iter().filter(|(_, read, _)| *read).map(|(name, ..)| name);
        readable.filter(|name| !OWN.contains(&name.as_str())).collect()
    }

    fn read(&self, handler: &str) -> String {
        let value = self.bench.engine.router().read(&format!("twin.{handler}"), b"").unwrap();
        String::from_utf8(value).unwrap()
    }

    fn write(&self, handler: &str, value: &str) -> Result<(), String> {
        let written =
            self.bench.engine.router().write(&format!("twin.{handler}"), value.as_bytes());
        written.map(|_| ()).map_err(|error| error.to_string())
    }

    /// What becomes of frames, by device.
    fn exchange(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
        let mut out = self.bench.exchange(0, frames);
        // A device that works on the side needs time.
        let held = |bench: &Bench| {
            let router = bench.engine.router();
            (0..router.len()).any(|id| router.stats_of(id).held > 0)
        };
        let began = std::time::Instant::now();
        while held(&self.bench) && began.elapsed().as_secs() < 120 {
            self.bench.pass(Timestamp::from_micros(10));
            let more = self.bench.exchange(0, &[]);
            out.iter_mut().zip(more).for_each(|(out, more)| out.extend(more));
        }
        self.bench.assert_balanced();
        out
    }
}

/// The classes of two twins, with what packets do before and after.
struct Pair {
    cpu: &'static str,
    gpu: &'static str,
    outputs: usize,
}

const CLASSIFIERS: Pair = Pair { cpu: "SDNClassifier", gpu: "GPUSDNClassifier", outputs: 3 };
const MATCHERS: Pair = Pair { cpu: "IDSMatcher", gpu: "GPUIDSMatcher", outputs: 2 };

impl Pair {
    /// Both with the same arguments.
    fn make(&self, device: &str, arguments: &str, of_gpu: &str) -> [Twin; 2] {
        let ways = |from: &str| {
            let way = |n| format!("{from} [{n}] -> ToDevice(eth{});", n + 1);
            (0..self.outputs).map(way).collect::<String>()
        };
        let (cpu, gpu) = (self.cpu, self.gpu);
        let cpu = format!("FromDevice(eth0) -> twin :: {cpu}({arguments}); {}", ways("twin"));
        let names: Vec<String> = (0..self.outputs).map(|n| format!("twin.{n}")).collect();
        let gpu = format!(
            "{device} FromDevice(eth0) -> Batcher(300) -> HostToDeviceMemcpy
                -> twin :: {gpu}({arguments}{of_gpu}) -> DeviceToHostMemcpy -> Debatcher
                -> d :: Dispatcher({}); {}",
            names.join(", "),
            ways("d")
        );
        [cpu, gpu].map(|config| Twin { bench: Bench::new(&config) })
    }

    /// Gives both the same frames and changes, and holds them together after each.
    fn compare(
        &self,
        twins: &mut [Twin; 2],
        rounds: usize,
        changes: &[(usize, &str, &str)],
        mut make: impl FnMut(&mut Rng) -> Vec<u8>,
    ) {
        let [cpu, gpu] = twins;
        let common: Vec<String> = cpu.handlers().intersection(&gpu.handlers()).cloned().collect();
        let mut rng = Rng::with_seed(3);
        for round in 0..rounds {
            for (_, handler, value) in changes.iter().filter(|change| change.0 == round) {
                assert_eq!(cpu.write(handler, value), gpu.write(handler, value), "{handler}");
                // Until then the device may go on by the old table.
                std::thread::sleep(std::time::Duration::from_millis(110));
                let _ = gpu.exchange(&[]);
            }
            let count = [0, 1, 40, 256, 700][round % 5];
            let frames: Vec<_> = (0..count).map(|_| make(&mut rng)).collect();
            let [from_cpu, from_gpu] = [&mut *cpu, &mut *gpu].map(|twin| twin.exchange(&frames));
            assert!(from_cpu == from_gpu, "round {round}: other packets");
            let [drops, of_gpu] = [&*cpu, &*gpu]
                .map(|twin| twin.bench.engine.router().stats_of(twin.element()).drops);
            assert_eq!(drops, of_gpu, "round {round}: drops");
            for handler in &common {
                let (expected, got) = (cpu.read(handler), gpu.read(handler));
                assert_eq!(expected, got, "round {round}: {handler}");
            }
        }
    }
}

/// Frames that rules are about, and others.
fn frames_for(made: &[Rule]) -> impl FnMut(&mut Rng) -> Vec<u8> {
    let trace: Vec<_> = Trace { misses: 20, ..Trace::new(500) }.make(made);
    move |rng| {
        if rng.u8(..4) == 0 {
            return hostile::frame(rng);
        }
        let vlans = [&[][..], &[], &[7], &[100, 7]][rng.usize(..4)];
        let header = trace[rng.usize(..trace.len())];
        Frame { header, vlans, options: rng.u8(..3), payload: b"some text" }.bytes()
    }
}

#[test]
fn classifiers_count_and_drop_alike() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules");
    // Of three actions the last one is made a drop.
    let made = RuleSet { fields: Fields::Seven, actions: 3, ..RuleSet::new(&KINDS[0], 300) }.make();
    let lines = text(&made);
    let dropping = lines.lines().map(|line| match line.strip_suffix('2') {
        Some(rule) => format!("{rule}drop\n"),
        None => format!("{line}\n"),
    });
    std::fs::write(&file, dropping.collect::<String>()).unwrap();
    let any = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535";
    let changes = [
        (2, "insert", &*format!("0 {any} 17/0xff drop")),
        (3, "remove", "0"),
        (4, "replace", &*format!("7 {any} 6/0xff 1")),
        (4, "add", &*format!("{any} 1/0xff 0")),
        (5, "reset_counts", ""),
        (6, "insert", "x"),
        (6, "remove", "1000"),
        (6, "rules", "@"),
        (6, "load", "/no/such/file"),
        (7, "rules", &*format!("{any} 17/0xff 0\n{any} 6/0xff drop\n")),
        (8, "load", ""),
    ];
    for (device, default) in
        DEVICES.into_iter().flat_map(|device| [(device, "drop"), (device, "2")])
    {
        let arguments = format!("{}, DEFAULT {default}", file.display());
        let mut twins = CLASSIFIERS.make(device, &arguments, ", OUTPUTS 3");
        CLASSIFIERS.compare(&mut twins, 10, &changes, frames_for(&made));
        let counts = twins[0].read("counts");
        let none = default == "drop";
        assert_eq!(counts.ends_with("none 0\n"), !none, "{counts}");
        assert_eq!(counts.contains("\n2 0\n"), none, "{counts}");
        assert!(!counts.contains("drop 0\n"), "{counts}");
    }
}

#[test]
fn matchers_count_alike() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("patterns");
    let rules = "alert tcp any any -> any any (content:\"GET \"; sid:1;)
alert udp any any -> any any (content:\"evil\"; nocase; msg:\"evil\"; sid:2;)
alert ip any any -> any any (content:\"/etc/\"; content:\"passwd\"; offset:4; sid:4;)
alert ip any any -> any any (content:\"b\"; depth:40; sid:6;)\n";
    std::fs::write(&file, rules).unwrap();
    let words: [&[u8]; 5] = [b"GET ", b"/etc/passwd", b"evil", b"EVIL", b"ab"];
    let changes = [
        (2, "patterns", "evil\nb\n"),
        (3, "reset_counts", ""),
        (4, "load", ""),
        (6, "patterns", "||"),
        (6, "load", "/no/such/file"),
    ];
    for (device, from) in DEVICES.into_iter().zip(["PAYLOAD", "NETWORK"]) {
        let arguments = format!("{}, PATTERN evil, FROM {from}", file.display());
        let mut twins = MATCHERS.make(device, &arguments, "");
        MATCHERS.compare(&mut twins, 8, &changes, |rng| {
            let mut frame = hostile::frame(rng);
            let word = words[rng.usize(..words.len())];
            if frame.len() > word.len() {
                let at = rng.usize(..=frame.len() - word.len());
                frame[at..at + word.len()].copy_from_slice(word);
            }
            frame
        });
        assert_ne!(twins[0].read("alerts"), "0");
    }
}

/// What one of them has and the other has not is known.
#[test]
fn handlers_are_the_same() {
    let [cpu, gpu] =
        CLASSIFIERS.make(DEVICES[0], "RULE \"@0.0.0.0/0 0.0.0.0/0 0:1 0:1 0/0 0\"", "");
    let only = |one: &Twin, other: &Twin| -> Vec<String> {
        one.handlers().difference(&other.handlers()).cloned().collect()
    };
    assert_eq!(only(&cpu, &gpu), ["cache_hits", "cache_misses"]);
    assert!(only(&gpu, &cpu).is_empty());
    let [cpu, gpu] = MATCHERS.make(DEVICES[0], "PATTERN x", "");
    assert_eq!(only(&cpu, &gpu), ["engine", "flows"]);
    assert!(only(&gpu, &cpu).is_empty());
}
