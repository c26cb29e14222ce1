//! Random configurations, like routers, bridges, filters and address translators, of 8 to 40 elements.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use fastrand::Rng;

use super::classes::{MAKERS, Maker, Stage, TRANSLATORS, class_of, of_class};

/// The number of elements of a file, without its devices and the elements that drop packets.
pub(super) const SIZES: std::ops::RangeInclusive<usize> = 8..=40;

/// A file.
#[derive(Debug)]
pub(super) struct Drawing {
    /// Its kind and its seed.
    pub(super) name: String,
    /// The configuration. Packets arrive on eth0 and leave by eth1 to eth3.
    pub(super) text: String,
    /// Its elements.
    pub(super) parts: Vec<Part>,
}

/// An element of a file.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The prefix of the names of its elements in the router.
    pub(super) name: String,
    /// The element with its arguments, and its stage.
    pub(super) kind: Kind,
}

/// The kind of an element alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) stage: Stage,
    pub(super) text: &'static str,
    pub(super) outputs: usize,
}

/// The classes at the beginning of each kind of file. An empty name means any translator.
const TRUNKS: [(&str, &[&str]); 4] = [
    ("router", &["Classifier", "Strip", "CheckIPHeader", "GetIPAddress", "DirectIPLookup"]),
    ("bridge", &["HostEtherFilter", "Classifier", "EtherMirror"]),
    ("filter", &["CheckIPHeader", "IPFilter"]),
    ("nat", &["Strip", "CheckIPHeader", ""]),
];

/// An output that is not connected yet.
#[derive(Clone, Debug)]
struct End {
    from: String,
    stage: Stage,
}

struct Sketch {
    random: Rng,
    text: String,
    parts: Vec<Part>,
    ends: Vec<End>,
}

/// Elements that end the path of packets.
const SINKS: [(&str, &str); 4] = [
    ("out1", "ToDevice(eth1)"),
    ("out2", "ToDevice(eth2)"),
    ("out3", "ToDevice(eth3)"),
    ("bad", "Discard"),
];

/// The maximum number of open outputs.
const ENDS: usize = 6;

impl Drawing {
    /// The file of a seed, of at most this number of elements.
    pub(super) fn draw(seed: u64, most: usize) -> Self {
        let (like, trunk) = TRUNKS[seed as usize % TRUNKS.len()];
        let mut random = Rng::with_seed(seed);
        let size = random.usize(*SIZES.start()..=most.max(*SIZES.start()));
        let begin = End { from: "FromDevice(eth0, BURST $burst)".to_owned(), stage: Stage::Frame };
        let mut sketch =
            Sketch { random, text: String::new(), parts: Vec::new(), ends: vec![begin] };
        for class in trunk {
            sketch.begin(class);
        }
        while sketch.room(size) > 0 || sketch.parts.len() < *SIZES.start() {
            sketch.grow(size);
        }
        sketch.close();
        let Sketch { mut text, parts, .. } = sketch;
        for (name, declared) in SINKS {
            if text.contains(&format!("-> {name};")) {
                text.insert_str(0, &format!("{name} :: {declared};\n"));
            }
        }
        Self { name: format!("{like}-{seed}"), text, parts }
    }

    /// The different kinds of elements in files.
    pub(super) fn kinds(drawings: &[Self]) -> Vec<Kind> {
        let kinds = drawings.iter().flat_map(|drawing| &drawing.parts);
        let kinds: BTreeSet<Kind> = kinds.map(|part| part.kind.clone()).collect();
        kinds.into_iter().collect()
    }
}

impl Sketch {
    /// Connects an element of a class to the first output of the previous one.
    fn begin(&mut self, class: &str) {
        let Some(stage) = self.ends.first().map(|end| end.stage) else { return };
        let takes = |maker: &&Maker| maker.from.contains(&stage);
        let makers: Vec<&Maker> = match class {
            "" => TRANSLATORS.iter().filter(takes).collect(),
            class => of_class(class).filter(takes).collect(),
        };
        let Some(maker) = self.random.choice(makers) else { return };
        let texts = maker.texts.iter().filter(|text| class.is_empty() || class_of(text) == class);
        let text = self.random.choice(texts.collect::<Vec<_>>());
        self.put(maker, text.copied().unwrap_or_default(), vec![0]);
    }

    /// The number of elements and open outputs that may still be added. Each open output needs an element that adds
    /// an Ethernet header.
    fn room(&self, size: usize) -> usize {
        size.saturating_sub(self.parts.len() + self.ends.len())
    }

    /// Connects an element to one open output, or to several that join there.
    fn grow(&mut self, size: usize) {
        let at = self.random.usize(..self.ends.len());
        let stage = self.ends[at].stage;
        let most = self.room(size).min(ENDS.saturating_sub(self.ends.len())).max(1);
        let makers = MAKERS.iter().filter(|maker| maker.from.contains(&stage));
        let makers: Vec<&Maker> = makers.filter(|maker| maker.outputs <= most).collect();
        let Some(maker) = self.random.choice(makers) else { return };
        let text = self.random.choice(maker.texts).copied().unwrap_or_default();
        let mut behind = vec![at];
        if self.random.u8(..4) == 0 {
            let others = (0..self.ends.len()).filter(|&end| end != at);
            behind.extend(others.filter(|&end| self.ends[end].stage == stage));
            behind.truncate(self.random.usize(1..4));
            behind.sort_unstable();
        }
        self.put(maker, text, behind);
    }

    /// Connects an element to these open outputs.
    fn put(&mut self, maker: &Maker, text: &'static str, behind: Vec<usize>) {
        let name = format!("e{}", self.parts.len());
        let mut stage = Stage::Frame;
        // Beginning with the last one, so that the others keep their indices.
        for &at in behind.iter().rev() {
            let end = self.ends.remove(at);
            stage = end.stage;
            let _ = writeln!(self.text, "{} -> {name};", end.from);
        }
        self.text.insert_str(0, &declaration(&name, text));
        let to = maker.to.unwrap_or(stage);
        let place = behind.first().copied().unwrap_or_default();
        for output in (0..maker.outputs).rev() {
            let from = format!("{name}[{output}]");
            let (end, chance) = (End { from: from.clone(), stage: to }, self.random.u8(..10));
            // Packets that leave by the output for errors are unchanged.
            let other = End { stage, ..end.clone() };
            match (output, maker.optional) {
                (0, _) => self.ends.insert(place, end),
                (_, true) if chance < 4 => {}
                (_, true) if chance < 7 => self.discard(&from),
                (_, true) => self.ends.push(other),
                (_, false) if chance < 1 => self.discard(&from),
                (_, false) => self.ends.push(end),
            }
        }
        self.parts.push(Part { name, kind: Kind { stage, text, outputs: maker.outputs } });
    }

    fn discard(&mut self, from: &str) {
        let _ = writeln!(self.text, "{from} -> bad;");
    }

    /// Connects all open outputs to devices.
    fn close(&mut self) {
        const HEADER: [&str; 2] = [
            "EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)",
            "EtherEncap(0x0800, 2:0:0:0:0:3, 2:0:0:0:0:4)",
        ];
        while let Some(at) =
            self.ends.iter().position(|end| matches!(end.stage, Stage::Bare | Stage::Packet))
        {
            let stage = self.ends[at].stage;
            let mut behind = vec![at];
            let others = (at + 1..self.ends.len()).filter(|&end| self.ends[end].stage == stage);
            let others: Vec<usize> = others.filter(|_| self.random.bool()).collect();
            behind.extend(others);
            let text = self.random.choice(HEADER).unwrap_or(HEADER[0]);
            let from = &[Stage::Bare, Stage::Packet];
            let texts = &[];
            let maker = Maker { from, to: Some(Stage::Frame), outputs: 1, optional: true, texts };
            self.put(&maker, text, behind);
        }
        for end in std::mem::take(&mut self.ends) {
            let device = self.random.u8(1..=3);
            let _ = writeln!(self.text, "{} -> out{device};", end.from);
        }
    }
}

impl Kind {
    /// The smallest file with the element.
    pub(super) fn alone(&self) -> String {
        let mut text = declaration("x", self.text) + "out :: ToDevice(eth1);\n";
        let _ = writeln!(text, "FromDevice(eth0, BURST $burst) -> {}x;", self.stage.way());
        for output in 0..self.outputs {
            let _ = writeln!(text, "x[{output}] -> out;");
        }
        text
    }
}

/// Declares an element, or several successive ones with a common prefix.
fn declaration(name: &str, text: &str) -> String {
    match text.contains(" -> ") && !text.starts_with('{') {
        true => format!("{name} :: {{ input -> {text} -> output }};\n"),
        false => format!("{name} :: {text};\n"),
    }
}

/// A file that brings packets into a stage and does nothing else.
pub(super) fn without(stage: Stage) -> String {
    format!("FromDevice(eth0, BURST $burst) -> {}ToDevice(eth1);\n", stage.way())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_of_the_size_that_is_wanted_and_always_the_same() {
        for seed in 0..100 {
            let drawing = Drawing::draw(seed, 40);
            assert!(SIZES.contains(&drawing.parts.len()), "{}", drawing.parts.len());
            assert_eq!(drawing.text, Drawing::draw(seed, 40).text);
        }
    }

    #[test]
    fn most_elements_are_drawn() {
        let drawings: Vec<Drawing> = (0..50).map(|seed| Drawing::draw(seed, 40)).collect();
        let classes: BTreeSet<&str> =
            Drawing::kinds(&drawings).iter().map(|kind| class_of(kind.text)).collect();
        assert!(classes.len() > 45, "{}: {classes:?}", classes.len());
    }
}
