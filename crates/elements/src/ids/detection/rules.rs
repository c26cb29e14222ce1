//! The rules of a matcher: their source, and their compiled form. They can be replaced while packets are processed.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use millrace_core::args::{Arg, ArgError, ArgText, FileName, Scope};
use millrace_core::{Args, Inspection, Lock, Need};
use millrace_match::patterns::{
    Content, EngineChoice, Format, Matcher, PatternSet, PlainOptions, Rule, StreamMatcher,
};

use crate::rule_file::{self, Fault, Origin};

/// Where rules come from: the arguments FILE, PATTERN, FORMAT and NOCASE.
pub(crate) struct Source {
    file: Option<FileName>,
    /// Rules that follow those of the file.
    patterns: Vec<Vec<u8>>,
    format: FormatName,
    nocase: bool,
}

/// What the rules are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) engine: EngineChoice,
    /// Whether streams are searched.
    pub(crate) streams: bool,
}

/// Compiled rules.
pub(crate) struct Compiled {
    pub(crate) set: PatternSet,
    pub(crate) matcher: Matcher,
    pub(crate) streams: Option<StreamMatcher>,
    pub(crate) build_time: Duration,
    /// How often each rule alerted. Rules that are also in the next set keep their counts.
    pub(crate) counts: Box<[Arc<AtomicU64>]>,
    /// A unique number.
    pub(crate) number: u64,
}

/// The rules in force.
pub(crate) struct InForce {
    source: Source,
    target: Target,
    current: ArcSwap<Compiled>,
    /// The rules read from the file when the configuration was checked, until the router starts.
    read: Lock<Option<PatternSet>>,
    /// Held while the rules are replaced.
    writing: Lock<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FormatName(Format);

impl Arg for FormatName {
    const EXPECTS: &'static str = "AUTO, PLAIN or SNORT";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        Ok(Self(match text.as_str() {
            "AUTO" => Format::Auto,
            "PLAIN" => Format::Plain,
            "SNORT" => Format::Snort,
            _ => return Err(ArgError::default()),
        }))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

impl Source {
    /// Reads FILE, PATTERN, FORMAT and NOCASE.
    pub(crate) fn configure(args: &mut Args<'_>) -> Self {
        let patterns: Vec<Vec<u8>> = args.repeated("PATTERN");
        let file: Option<FileName> = args.optional("FILE");
        args.needs(file.as_ref().and_then(Need::read));
        let format = args.keyword("FORMAT", FormatName::default());
        let nocase = args.keyword("NOCASE", false);
        for pattern in &patterns {
            if let Err(error) = PatternSet::new().push(Rule::of(Content::of(pattern.clone()))) {
                args.error("PATTERN", format!("PATTERN: {error}"));
            }
        }
        if file.is_none() && patterns.is_empty() && !args.has_errors() {
            args.error((), "there are no patterns: FILE or PATTERN is missing");
        }
        Self { file, patterns, format, nocase }
    }

    /// Reads the configured file, or another one.
    fn read(&self, file: Option<&Path>) -> Result<PatternSet, Vec<Fault>> {
        let file = file.or_else(|| self.file.as_ref().map(FileName::as_path));
        let mut set = match file {
            Some(path) => {
                let text = rule_file::read(path).map_err(|fault| vec![fault])?;
                let origin = Origin::new(file, &text);
                let set = self.parse(origin).map_err(|fault| vec![fault])?;
                if set.is_empty() {
                    return Err(vec![origin.fault_of_all("there is no pattern in it")]);
                }
                set
            }
            None => PatternSet::new(),
        };
        for pattern in &self.patterns {
            let content = Content { nocase: self.nocase, ..Content::of(pattern.clone()) };
            // The patterns were checked with the other arguments.
            let _ = set.push(Rule::of(content));
        }
        Ok(set)
    }

    fn parse(&self, origin: Origin<'_>) -> Result<PatternSet, Fault> {
        let plain = PlainOptions { nocase: self.nocase };
        PatternSet::parse(origin.text, self.format.0, plain)
            .map_err(|wrong| origin.fault_at_byte(wrong.line, wrong.column, wrong.message))
    }
}

impl Compiled {
    /// Compiles rules; those that are also in `before` share their counts with it.
    fn new(set: PatternSet, target: Target, before: Option<&Self>) -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let began = Instant::now();
        let matcher = Matcher::new(&set, target.engine).map_err(|error| error.to_string())?;
        let streams = target.streams.then(|| StreamMatcher::new(&set)).transpose();
        let streams = streams.map_err(|error| error.to_string())?;
        let build_time = began.elapsed();
        let mut counted = before.map(Self::by_rule).unwrap_or_default();
        let count = |rule| counted.get_mut(rule).and_then(Vec::pop).unwrap_or_default();
        let counts = set.rules().iter().map(count).collect();
        let number = NUMBER.fetch_add(1, Relaxed);
        Ok(Self { set, matcher, streams, build_time, counts, number })
    }

    /// The counts of each rule; for equal rules, the last one first.
    fn by_rule(&self) -> HashMap<&Rule, Vec<Arc<AtomicU64>>> {
        let mut counts: HashMap<_, Vec<_>> = HashMap::new();
        for (rule, count) in self.set.rules().iter().zip(&self.counts).rev() {
            counts.entry(rule).or_default().push(count.clone());
        }
        counts
    }

    /// Bytes of memory used by the engines.
    pub(crate) fn memory(&self) -> usize {
        self.matcher.memory() + self.streams.as_ref().map_or(0, StreamMatcher::memory)
    }

    /// One line per rule: number, count, sid, name.
    pub(crate) fn counts(&self) -> String {
        let line = |((number, rule), count): ((usize, &Rule), &Arc<AtomicU64>)| {
            let sid = rule.sid.map_or_else(|| "-".to_owned(), |sid| sid.to_string());
            format!("{number} {} {sid} {}\n", count.load(Relaxed), name(rule))
        };
        (1..).zip(self.set.rules()).zip(&self.counts).map(line).collect()
    }
}

/// The name of a rule: its message, or its first content.
pub(crate) fn name(rule: &Rule) -> String {
    match (&rule.msg, rule.contents.first()) {
        (Some(msg), _) => msg.clone(),
        (None, Some(content)) => content.bytes.escape_ascii().to_string(),
        (None, None) => String::new(),
    }
}

impl InForce {
    /// Starts without rules.
    pub(crate) fn new(source: Source, target: Target) -> Result<Self, String> {
        // Whether the configured engine is available is checked once there are rules.
        let nothing = Target { engine: EngineChoice::Dfa, ..target };
        let current = ArcSwap::from_pointee(Compiled::new(PatternSet::new(), nothing, None)?);
        Ok(Self { source, target, current, read: Lock::default(), writing: Lock::default() })
    }

    pub(crate) fn load(&self) -> Guard<Arc<Compiled>> {
        self.current.load()
    }

    /// The rules in force, to be held for longer.
    pub(crate) fn keep(&self) -> Arc<Compiled> {
        self.current.load_full()
    }

    /// Reads the file and reports its errors. Engines are compiled when the router starts.
    pub(crate) fn inspect(&self, inspection: &mut Inspection<'_>) {
        match self.source.read(None) {
            Ok(set) => *self.read.lock() = Some(set),
            Err(faults) => rule_file::report(faults, inspection),
        }
    }

    /// Puts the rules in force that were read when the configuration was checked; reads them if they were not.
    pub(crate) fn start(&self) -> Result<(), String> {
        match self.read.lock().take() {
            Some(set) => self.exchange(|| Ok(set)),
            None => self.read(None),
        }
    }

    /// Reads the configured file again, or another one.
    pub(crate) fn read(&self, file: Option<&Path>) -> Result<(), String> {
        self.exchange(|| self.source.read(file))
    }

    /// Uses the rules of a text.
    pub(crate) fn write(&self, text: &[u8]) -> Result<(), String> {
        self.exchange(|| self.source.parse(Origin::new(None, text)).map_err(|fault| vec![fault]))
    }

    /// Reads and compiles rules, while the current ones still search packets, and puts them in force. Calls run one at
    /// a time, so that the rules read last stay in force.
    fn exchange(
        &self,
        read: impl FnOnce() -> Result<PatternSet, Vec<Fault>>,
    ) -> Result<(), String> {
        let _writing = self.writing.lock();
        let set = read().map_err(|faults| rule_file::lines(&faults))?;
        let compiled = Compiled::new(set, self.target, Some(&self.current.load()))?;
        self.current.store(Arc::new(compiled));
        Ok(())
    }

    /// Takes over the counts of the rules that are the same. If all rules are the same, takes over the compiled rules
    /// too, so that streams can continue in the middle of a pattern.
    pub(crate) fn take(&self, old: &Self) {
        let _writing = self.writing.lock();
        let theirs = old.current.load_full();
        let ours = self.current.load();
        if theirs.set == ours.set && old.target == self.target {
            self.current.store(theirs);
            return;
        }
        let mut counted = theirs.by_rule();
        for (rule, count) in ours.set.rules().iter().zip(&ours.counts) {
            if let Some(counted) = counted.get_mut(rule).and_then(Vec::pop) {
                count.fetch_add(counted.load(Relaxed), Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_can_be_replaced_while_the_old_ones_are_in_use() {
        let source = Source { patterns: vec![b"old".to_vec()], ..empty() };
        let target = Target { engine: EngineChoice::Auto, streams: true };
        let rules = InForce::new(source, target).unwrap();
        rules.read(None).unwrap();
        let old = rules.load();
        rules.write(b"new\nnewer").unwrap();
        assert_eq!((old.set.len(), rules.load().set.len()), (1, 2));
        assert!(rules.load().number > old.number);
        // A new instance with the same rules takes over their counts.
        rules.load().counts[1].store(7, Relaxed);
        let source = Source { patterns: vec![b"new".to_vec(), b"newer".to_vec()], ..empty() };
        let other = InForce::new(source, target).unwrap();
        other.read(None).unwrap();
        other.take(&rules);
        assert_eq!(other.load().counts[1].load(Relaxed), 7);
        let some = Source { patterns: vec![b"x".to_vec(), b"newer".to_vec()], ..empty() };
        let different = InForce::new(some, target).unwrap();
        different.read(None).unwrap();
        different.take(&rules);
        assert_eq!(different.load().counts(), "1 0 - x\n2 7 - newer\n");
    }

    #[test]
    fn unchanged_rules_keep_their_counts() {
        let target = Target { engine: EngineChoice::Auto, streams: false };
        let rules = InForce::new(empty(), target).unwrap();
        rules.write(b"a\nb\na\n").unwrap();
        let old = rules.keep();
        (1..).zip(&old.counts).for_each(|(n, count)| count.store(n, Relaxed));
        // Equal rules in order, one new rule, and one that is gone.
        rules.write(b"a\na\nc\na\n").unwrap();
        assert_eq!(rules.load().counts(), "1 1 - a\n2 3 - a\n3 0 - c\n4 0 - a\n");
        // A batch that is still being processed by the old rules.
        old.counts[0].fetch_add(10, Relaxed);
        assert!(rules.load().counts().starts_with("1 11 - a\n"));
        rules.write(b"b\n").unwrap();
        assert_eq!(rules.load().counts(), "1 0 - b\n");
    }

    fn empty() -> Source {
        Source { file: None, patterns: vec![], format: FormatName::default(), nocase: false }
    }
}
