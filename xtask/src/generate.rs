//! `cargo xtask generate`: writes the output of the generators of `millrace_testkit::generate` to files.

use std::env;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use millrace_testkit::data::{self, Data};
use millrace_testkit::generate::flows::Flows;
use millrace_testkit::generate::frame::{Frame, LONGEST, SHORTEST};
use millrace_testkit::generate::payload::{self, NearMiss, Part};
use millrace_testkit::generate::rules::{self, Fields, Header, Kind, Rule, RuleSet, Statistics};
use millrace_testkit::generate::trace::{Locality, Trace};
use millrace_testkit::generate::{patterns, pcap};
use serde_json::{Value, json};

use crate::data::fetch;

/// What is generated. The same options give the same bytes
#[derive(clap::Subcommand)]
pub(crate) enum What {
    /// A rule set with the statistics of a ClassBench kind, and an action for each rule
    Rules {
        #[command(flatten)]
        set: Set,
        /// The format of rules
        #[arg(long, default_value = "classbench")]
        form: RuleForm,
        /// Prints the numbers of tuples, prefixes and ranges instead of the rules
        #[arg(long, conflicts_with = "form")]
        statistics: bool,
        #[command(flatten)]
        out: Out,
    },
    /// Packets for the rule set that the same options generate
    Trace {
        #[command(flatten)]
        set: Set,
        /// The number of packets
        #[arg(long, value_name = "N", default_value_t = 10_000)]
        packets: usize,
        /// The percentage of packets that match no rule, if that is possible
        #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(..=100))]
        misses: u32,
        /// How often a header is repeated
        #[arg(long, default_value = "none")]
        locality: LocalityWord,
        /// The length of a frame in bytes, without Ethernet's checksum
        #[arg(long, value_name = "BYTES", default_value_t = SHORTEST, value_parser = length)]
        length: usize,
        /// The contents of the packets
        #[arg(long, default_value = "numbers")]
        payload: PayloadWord,
        /// A capture, or the headers and the rule of each packet as JSON
        #[arg(long, default_value = "pcap")]
        form: TraceForm,
        #[command(flatten)]
        out: Out,
    },
    /// Bytes in which to search for patterns
    Payload {
        /// Their kind
        kind: PayloadKind,
        /// Their number
        #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
        length: usize,
        #[command(flatten)]
        patterns: PatternSet,
        #[command(flatten)]
        out: Out,
    },
    /// Patterns to search for
    Patterns {
        #[command(flatten)]
        patterns: PatternSet,
        /// The format of patterns
        #[arg(long, default_value = "plain")]
        form: PatternForm,
        #[command(flatten)]
        out: Out,
    },
}

/// A rule set.
#[derive(clap::Args)]
pub(crate) struct Set {
    /// Access lists, firewalls or IP chains: `acl1`, `fw1`, `ipc1`
    #[arg(long, value_name = "KIND", default_value = "acl1", value_parser = kind)]
    kind: &'static Kind,
    /// The number of rules
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rules: u32,
    /// Adds conditions on Ethernet fields
    #[arg(long)]
    ethernet: bool,
    /// The number of actions: outputs, from 0
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    actions: u16,
    /// The seed: another one gives another set
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// A pattern set.
#[derive(clap::Args)]
pub(crate) struct PatternSet {
    /// The number of patterns; by default 1000 generated ones, or all phrases
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// The phrases of Debian's package modsecurity-crs instead of generated patterns
    #[arg(long)]
    phrases: bool,
    /// The seed: another one gives other patterns and payloads
    #[arg(id = "pattern-seed", long = "seed", value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// The output.
#[derive(clap::Args)]
pub(crate) struct Out {
    /// The output file; standard output by default
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum RuleForm {
    /// `@source destination ports : ports ... action`, as in rule files of SDNClassifier
    Classbench,
    /// Arguments of IPFilter: even actions are `allow`, odd ones `drop`; without Ethernet fields
    Ipfilter,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum TraceForm {
    Pcap,
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LocalityWord {
    None,
    Low,
    High,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PayloadWord {
    /// Letters, and at the end the numbers by which `millrace_testkit::generate::flows` finds loss and reordering;
    /// packets with the same header are one flow
    Numbers,
    /// HTTP requests and responses
    Http,
    /// Random bytes
    Noise,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PayloadKind {
    /// HTTP requests and responses
    Http,
    /// Text and web pages of Debian's package debian-policy
    Text,
    /// Random bytes
    Noise,
    /// Patterns without their last bytes, which lead an Aho-Corasick automaton deep into its tables; contains no
    /// pattern
    Heads,
    /// Patterns without their first bytes, which defeat filters by last bytes; contains no pattern
    Tails,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PatternForm {
    /// One pattern per line, `|hex|` for bytes that are not text
    Plain,
    /// One Snort rule per line
    Snort,
    /// The numbers of patterns, bytes and states of an Aho-Corasick automaton
    Statistics,
}

/// Generates the data.
///
/// # Errors
/// The file cannot be written, or Debian's packages cannot be fetched.
pub(crate) fn run(what: &What) -> Result<()> {
    match what {
        What::Rules { set, form, statistics, out } => {
            let made = set.make();
            let text = match (statistics, form) {
                (true, _) => format!("{}\n", Statistics::of(&made)),
                (false, RuleForm::Classbench) => rules::text(&made),
                (false, RuleForm::Ipfilter) => made.iter().map(ipfilter).collect(),
            };
            out.write(|file| file.write_all(text.as_bytes()))
        }
        What::Trace { set, packets, misses, locality, length, payload, form, out } => {
            let locality = match locality {
                LocalityWord::None => Locality::NONE,
                LocalityWord::Low => Locality::LOW,
                LocalityWord::High => Locality::HIGH,
            };
            let rules = set.make();
            let trace = Trace { headers: *packets, misses: *misses, locality, seed: set.seed };
            let headers = trace.make(&rules);
            out.write(|file| match form {
                TraceForm::Pcap => pcap::write(file, frames(&headers, *length, *payload, set.seed)),
                TraceForm::Json => headers
                    .iter()
                    .try_for_each(|header| writeln!(file, "{}", header_json(header, &rules))),
            })
        }
        What::Payload { kind, length, patterns, out } => {
            let bytes = patterns.payload(*kind, *length)?;
            out.write(|file| file.write_all(&bytes))
        }
        What::Patterns { patterns, form, out } => {
            let found = patterns.make()?;
            let text = match form {
                PatternForm::Plain => patterns::plain(&found),
                PatternForm::Snort => patterns::snort_rules(&found),
                PatternForm::Statistics => format!(
                    "{} patterns, {} bytes, {} states\n",
                    found.len(),
                    found.iter().map(Vec::len).sum::<usize>(),
                    patterns::states(&found),
                ),
            };
            out.write(|file| file.write_all(text.as_bytes()))
        }
    }
}

impl Set {
    fn make(&self) -> Vec<Rule> {
        let fields = if self.ethernet { Fields::Seven } else { Fields::Five };
        let Self { kind, actions, seed, .. } = *self;
        RuleSet { kind, rules: self.rules as usize, fields, actions, seed }.make()
    }
}

impl PatternSet {
    fn make(&self) -> Result<Vec<Vec<u8>>> {
        if !self.phrases {
            return Ok(patterns::made_up(self.count.unwrap_or(1000), self.seed));
        }
        let folder = fetch(Data::Phrases)?;
        let mut phrases =
            patterns::phrases(&folder).with_context(|| folder.display().to_string())?;
        if let Some(count) = self.count {
            if count > phrases.len() {
                bail!("--count: there are {} phrases", phrases.len());
            }
            phrases.truncate(count);
        }
        Ok(phrases)
    }

    fn payload(&self, kind: PayloadKind, length: usize) -> Result<Vec<u8>> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        Ok(match kind {
            PayloadKind::Http => payload::http(&mut random, length),
            PayloadKind::Noise => payload::noise(&mut random, length),
            PayloadKind::Text => {
                let folder = fetch(Data::Texts)?;
                let corpus = data::texts(&folder).with_context(|| folder.display().to_string())?;
                payload::text(&corpus, &mut random, length)
            }
            PayloadKind::Heads => {
                NearMiss::new(&self.make()?, Part::Head).make(&mut random, length)
            }
            PayloadKind::Tails => {
                NearMiss::new(&self.make()?, Part::Tail).make(&mut random, length)
            }
        })
    }
}

impl Out {
    /// Relative file names are relative to the user's directory.
    fn write(&self, make: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let Some(path) = &self.out else {
            let mut out = BufWriter::new(io::stdout().lock());
            let done = make(&mut out).and_then(|()| out.flush());
            // A reader of the output may stop after the first lines.
            return match done {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                done => done.context("standard output"),
            };
        };
        let path = env::current_dir()?.join(path);
        let name = || path.display().to_string();
        let mut file = BufWriter::new(File::create(&path).with_context(name)?);
        make(&mut file).and_then(|()| file.flush()).with_context(name)
    }
}

fn ipfilter(rule: &Rule) -> String {
    let word = if rule.action.is_multiple_of(2) { "allow" } else { "drop" };
    format!("{word} {},\n", rule.expression())
}

fn frames(
    headers: &[Header],
    length: usize,
    payload: PayloadWord,
    seed: u64,
) -> Box<dyn Iterator<Item = Vec<u8>>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let headers = headers.to_vec();
    if let PayloadWord::Numbers = payload {
        let mut different = headers.clone();
        let mut numbers = std::collections::HashMap::new();
        different.retain(|header| {
            let next = numbers.len();
            let is_new = !numbers.contains_key(header);
            numbers.entry(*header).or_insert(next);
            is_new
        });
        let mut flows = Flows::new(different);
        return Box::new(headers.into_iter().map(move |header| {
            flows.next(numbers.get(&header).copied().unwrap_or_default(), length)
        }));
    }
    Box::new(headers.into_iter().map(move |header| {
        let room = length.saturating_sub(Frame::new(header, &[]).headers());
        let bytes = match payload {
            PayloadWord::Http => payload::http(&mut random, room),
            _ => payload::noise(&mut random, room),
        };
        Frame::new(header, &bytes).bytes()
    }))
}

fn header_json(header: &Header, rules: &[Rule]) -> Value {
    let address = |address| std::net::Ipv4Addr::from_bits(address).to_string();
    let station = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
    let first = rules::first_match(rules, header);
    json!({
        "ethernet": header.ethernet.map(station),
        "type": header.ether_type,
        "addresses": header.addresses.map(address),
        "protocol": header.protocol,
        "ports": header.ports,
        "rule": first,
        "action": first.and_then(|at| rules.get(at)).map(|rule| rule.action),
    })
}

fn kind(name: &str) -> Result<&'static Kind, String> {
    Kind::named(name).ok_or_else(|| "acl1, fw1 or ipc1".to_owned())
}

fn length(text: &str) -> Result<usize, String> {
    let length = text.parse().ok().filter(|length| (SHORTEST..=LONGEST).contains(length));
    length.ok_or_else(|| format!("{SHORTEST} to {LONGEST} bytes"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use millrace_testkit::generate::flows::{Ledger, Report};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(subcommand)]
        what: What,
    }

    /// The output file that these options produce.
    fn written(words: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("out");
        let words = ["generate"].into_iter().chain(words.split(' '));
        let words = words.map(str::to_owned).chain(["--out".into(), file.display().to_string()]);
        run(&Cli::try_parse_from(words).unwrap().what).unwrap();
        std::fs::read(file).unwrap()
    }

    fn lines(words: &str) -> Vec<String> {
        String::from_utf8(written(words)).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn rules_are_lines() {
        let found = lines("rules --kind fw1 --rules 50 --ethernet --actions 1");
        assert_eq!(found.len(), 50);
        assert!(found.iter().all(|line| line.starts_with('@') && line.ends_with("\t0")));
        assert!(found.iter().any(|line| line.contains("eth_type=0x0800")));
        let found = lines("rules --rules 20 --form ipfilter");
        assert!(found.iter().all(|line| line.starts_with("allow ") || line.starts_with("drop ")));
        let found = lines("rules --rules 20 --statistics");
        assert!(found[0].starts_with("20 rules, 10 tuples, "), "{found:?}");
    }

    #[test]
    fn a_trace_is_a_capture_or_json() {
        let words = "trace --kind ipc1 --rules 30 --packets 200 --locality high --length 100";
        let capture = written(words);
        // After the file header of 24 bytes, each record has 16 bytes, of which the third word is a length, and a
        // frame.
        let mut rest = &capture[24..];
        let mut count = 0;
        while let Some((record, frames)) = rest.split_at_checked(16) {
            let length = u32::from_le_bytes(record[8..12].try_into().unwrap()) as usize;
            assert!(millrace_testkit::generate::flows::number(&frames[..length]).is_some());
            rest = &frames[length..];
            count += 1;
        }
        assert_eq!(count, 200);
        let found = lines(&format!("{words} --form json --misses 50"));
        assert_eq!(found.len(), 200);
        let values = found.iter().map(|line| serde_json::from_str(line).unwrap());
        let missed = values.filter(|value: &Value| value["rule"].is_null()).count();
        assert!((40..160).contains(&missed), "{missed}");
    }

    #[test]
    fn packets_with_one_header_are_numbered_in_order() {
        let headers = Trace { locality: Locality::HIGH, ..Trace::new(500) }.make(&[]);
        let mut ledger = Ledger::default();
        for frame in frames(&headers, 60, PayloadWord::Numbers, 0) {
            ledger.receive(&frame);
        }
        let different: std::collections::HashSet<_> = headers.iter().collect();
        let flows = Flows::new(different.into_iter().copied());
        // Nothing was lost if the number of packets is equal.
        let Report { reordered, doubled, .. } = ledger.report(&flows);
        assert_eq!((reordered, doubled), (0, 0));
    }

    #[test]
    fn payloads_and_patterns_are_bytes() {
        for kind in ["http", "noise", "heads", "tails"] {
            assert_eq!(written(&format!("payload {kind} --length 3000 --count 100")).len(), 3000);
        }
        assert_eq!(lines("patterns --count 70").len(), 70);
        assert!(lines("patterns --count 7 --form snort")[6].ends_with("sid:7;)"));
        assert!(lines("patterns --count 7 --form statistics")[0].starts_with("7 patterns, "));
    }

    #[test]
    fn invalid_options_are_rejected() {
        for words in [
            "rules --kind acl",
            "rules --rules 0",
            "rules --actions 0",
            "trace --length 59",
            "trace --misses 101",
            "payload",
        ] {
            let words = ["generate"].into_iter().chain(words.split(' '));
            assert!(Cli::try_parse_from(words).is_err());
        }
    }
}
