//! The rules of a matcher: where they come from, and what they are compiled to. They can be exchanged while packets
//! come.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use millrace_core::args::{Arg, ArgError, ArgText, FileName, Scope};
use millrace_core::{Args, Lock};
use millrace_match::patterns::{
    Content, EngineChoice, Format, Matcher, PatternSet, PlainOptions, Rule, StreamMatcher,
};

/// Where rules come from: the arguments FILE, PATTERN, FORMAT and NOCASE.
pub(crate) struct Source {
    file: Option<FileName>,
    /// Behind the rules of the file.
    patterns: Vec<Vec<u8>>,
    format: FormatName,
    nocase: bool,
}

/// What they are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) engine: EngineChoice,
    /// Whether streams are searched.
    pub(crate) streams: bool,
}

/// Rules compiled.
pub(crate) struct Compiled {
    pub(crate) set: PatternSet,
    pub(crate) matcher: Matcher,
    pub(crate) streams: Option<StreamMatcher>,
    pub(crate) build_time: Duration,
    /// How often each rule alerted.
    pub(crate) counts: Box<[AtomicU64]>,
    /// Different for each that there ever was.
    pub(crate) number: u64,
}

/// The rules in force.
pub(crate) struct InForce {
    source: Source,
    target: Target,
    current: ArcSwap<Compiled>,
    /// Held by whoever exchanges them.
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
        let format = args.keyword("FORMAT", FormatName::default());
        let nocase = args.keyword("NOCASE", false);
        for pattern in &patterns {
            if let Err(error) = PatternSet::new().push(Rule::of(Content::of(pattern.clone()))) {
                args.error("PATTERN", format!("PATTERN: {error}"));
            }
        }
        if file.is_none() && patterns.is_empty() && !args.has_errors() {
            args.error((), "there is nothing to search for: FILE or PATTERN is missing");
        }
        Self { file, patterns, format, nocase }
    }

    /// Reads the file that was configured, or another one, or none; `Err` says what is wrong, with the place.
    fn read(&self, file: Option<&Path>) -> Result<PatternSet, String> {
        let mut set = match file {
            Some(path) => {
                let name = path.display();
                let text = fs::read(path).map_err(|error| format!("{name}: {error}"))?;
                self.parse(&text).map_err(|error| format!("{name}: {error}"))?
            }
            None => PatternSet::new(),
        };
        for pattern in &self.patterns {
            let content = Content { nocase: self.nocase, ..Content::of(pattern.clone()) };
            set.push(Rule::of(content)).map_err(|error| error.to_string())?;
        }
        Ok(set)
    }

    fn parse(&self, text: &[u8]) -> Result<PatternSet, String> {
        let plain = PlainOptions { nocase: self.nocase };
        PatternSet::parse(text, self.format.0, plain).map_err(|error| error.to_string())
    }
}

impl Compiled {
    fn new(set: PatternSet, target: Target) -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let began = Instant::now();
        let matcher = Matcher::new(&set, target.engine).map_err(|error| error.to_string())?;
        let streams = target.streams.then(|| StreamMatcher::new(&set)).transpose();
        let streams = streams.map_err(|error| error.to_string())?;
        let build_time = began.elapsed();
        let counts = set.rules().iter().map(|_| AtomicU64::new(0)).collect();
        let number = NUMBER.fetch_add(1, Relaxed);
        Ok(Self { set, matcher, streams, build_time, counts, number })
    }

    /// Bytes of the engines.
    pub(crate) fn memory(&self) -> usize {
        self.matcher.memory() + self.streams.as_ref().map_or(0, StreamMatcher::memory)
    }

    /// A line a rule: number, count, sid, name.
    pub(crate) fn counts(&self) -> String {
        let line = |((number, rule), count): ((usize, &Rule), &AtomicU64)| {
            let sid = rule.sid.map_or_else(|| "-".to_owned(), |sid| sid.to_string());
            format!("{number} {} {sid} {}\n", count.load(Relaxed), name(rule))
        };
        (1..).zip(self.set.rules()).zip(&self.counts).map(line).collect()
    }
}

/// What a rule is called: its message, or its first content.
pub(crate) fn name(rule: &Rule) -> String {
    match (&rule.msg, rule.contents.first()) {
        (Some(msg), _) => msg.clone(),
        (None, Some(content)) => content.bytes.escape_ascii().to_string(),
        (None, None) => String::new(),
    }
}

impl InForce {
    /// Nothing yet.
    pub(crate) fn new(source: Source, target: Target) -> Result<Self, String> {
        // Which engine it is to be is seen when there are rules.
        let nothing = Target { engine: EngineChoice::Dfa, ..target };
        let current = ArcSwap::from_pointee(Compiled::new(PatternSet::new(), nothing)?);
        Ok(Self { source, target, current, writing: Lock::default() })
    }

    pub(crate) fn load(&self) -> Guard<Arc<Compiled>> {
        self.current.load()
    }

    /// What is in force, for longer than a moment.
    pub(crate) fn keep(&self) -> Arc<Compiled> {
        self.current.load_full()
    }

    /// Reads the configured file again, or another one.
    pub(crate) fn read(&self, file: Option<&Path>) -> Result<(), String> {
        let file = file.or_else(|| self.source.file.as_ref().map(FileName::as_path));
        self.exchange(|| self.source.read(file))
    }

    /// Takes the rules in a text.
    pub(crate) fn write(&self, text: &[u8]) -> Result<(), String> {
        self.exchange(|| self.source.parse(text))
    }

    /// Reads rules and compiles them beside those in force, which packets go on to be searched by, and puts them in
    /// force. One after the other, so that what was read last stays.
    fn exchange(&self, read: impl FnOnce() -> Result<PatternSet, String>) -> Result<(), String> {
        let _writing = self.writing.lock();
        self.current.store(Arc::new(Compiled::new(read()?, self.target)?));
        Ok(())
    }

    /// Takes the rules of another one if they are the same, with their counts.
    pub(crate) fn take(&self, old: &Self) {
        let _writing = self.writing.lock();
        let theirs = old.current.load_full();
        if theirs.set == self.current.load().set && old.target == self.target {
            self.current.store(theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_exchanged_while_others_search_by_the_old_ones() {
        let source = Source { patterns: vec![b"old".to_vec()], ..empty() };
        let target = Target { engine: EngineChoice::Auto, streams: true };
        let rules = InForce::new(source, target).unwrap();
        rules.read(None).unwrap();
        let old = rules.load();
        rules.write(b"new\nnewer").unwrap();
        assert_eq!((old.set.len(), rules.load().set.len()), (1, 2));
        assert!(rules.load().number > old.number);
        // Another one with the same rules takes over their counts.
        rules.load().counts[1].store(7, Relaxed);
        let source = Source { patterns: vec![b"new".to_vec(), b"newer".to_vec()], ..empty() };
        let other = InForce::new(source, target).unwrap();
        other.read(None).unwrap();
        other.take(&rules);
        assert_eq!(other.load().counts[1].load(Relaxed), 7);
        other.read(None).unwrap();
        assert_eq!(other.load().counts[1].load(Relaxed), 0);
        let different =
            InForce::new(Source { patterns: vec![b"x".to_vec()], ..empty() }, target).unwrap();
        different.read(None).unwrap();
        different.take(&rules);
        assert_eq!(different.load().set.len(), 1);
    }

    fn empty() -> Source {
        Source { file: None, patterns: vec![], format: FormatName::default(), nocase: false }
    }
}
