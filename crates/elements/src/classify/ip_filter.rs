//! IPFilter - filters IP packets by firewall rules
//!
//! # Synopsis
//! `IPFilter(ACTION_1 PATTERN_1, ..., ACTION_N PATTERN_N [, keyword CACHING])`
//!
//! # Description
//! Applies to each packet the action of the first rule whose pattern it matches, and drops packets that match none.
//! Patterns are those of IPClassifier, also with words for IPv6 and, behind a ConnectionTracker, for the state of
//! connections.
//!
//! An ACTION is `allow`, which means output 0; `drop` or `deny`; or the number of an output. Instead of a rule,
//! `file NAME` includes the rules in a file, one per line; the file is read when the router starts.
//!
//! Packets must have their IP header position set (by CheckIPHeader or MarkIPHeader). Others are dropped, unless the
//! rules treat all packets alike.
//!
//! A few short rules are compiled into a decision program. If that would be longer than about ten tests, an index is
//! used instead: it looks up each field of the packet once, and intersects the results to find the first rule that
//! matches. Ten rules of any form cost little more than three, and 1,000 about three times as much. The index needs
//! about 650 bytes per rule of any form, 300 for typical firewall rules, and at most 32 MiB for each of the sixteen
//! fields that most rules test. Conditions on other fields are checked rule by rule, when everything else matches.
//!
//! Rules that have words for IPv6 or for states are compiled once for each IP version and state; conditions that these
//! decide cost nothing.
//!
//! # Arguments
//! - ACTION PATTERN: a rule. Any number.
//! - CACHING: whether each thread remembers the output of the last flow for the next packet of that flow. It has no
//!   effect on rules that test more than addresses, protocol and ports. Keyword, default false.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `program` (read): the decision program, as in Click. Each line tests whether four bytes of the packet, under a
//!   mask, have a value, and states the next step; `[X]` drops. Offsets from 512 on count from the transport header,
//!   others from 256 on from the IP header, the rest from two bytes before the MAC header. With 32 or more rules it is
//!   compiled when first read, which takes seconds for thousands of rules. If rules are compiled for several cases, each
//!   program stands behind the cases that it is for.
//! - `config` (read, write): the arguments. New ones take effect at once, or, if any has an error, not at all. Without
//!   a rule all packets are dropped, which gets a warning, as rules do that ask for states behind no ConnectionTracker.
//! - `rules` (read): the current rules, including those of files, one per line, with their numbers from 0.
//! - `insert N RULE` (write): inserts a rule before rule N, or at the end; `add RULE` (write): at the end. With
//!   thousands of rules this takes far less than a millisecond: changes are kept separately, and from time to time a
//!   background thread rebuilds the index.
//! - `remove N` (write): removes rule N.
//! - `cache_hits_count` (read): packets whose output was cached; -1 without CACHING, as for the handlers below.
//! - `cache_misses_count` (read): packets whose output was not cached.
//! - `cache_total_count` (read): the sum of both.
//! - `cache_hits_ratio` (read): percentage of packets whose output was cached.
//! - `cache_misses_ratio` (read): percentage of packets whose output was not cached.
//!
//! # Drops
//! - filtered: a rule drops the packet, or no rule matches.
//! - header not set: the packet's IP header position is not set.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000028 00000000 4006b0ce 0a000001 0a000002
//!                       04d20050 00000000 00000000 50020000 00000000>, LIMIT 10)
//!     -> MarkIPHeader
//!     -> f :: IPFilter(allow src 10.0.0.0/8 && tcp dst port 80 or 443,
//!                      1 icmp type echo,
//!                      deny all);
//! f [0] -> Counter -> Discard;
//! f [1] -> Discard;
//! ```
//!
//! # See also
//! IPClassifier, ConnectionTracker, Classifier, CheckIPHeader, CheckIP6Header, MarkIPHeader, AddressInfo

mod rule_list;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use millrace_core::args::{Args, Scope};
use millrace_core::element::{HandlerError, Inspection};
use millrace_core::memory::Ports;
use millrace_core::{
    Batch, Call, Class, Context, Count, Element, Failed, Handlers, Init, Need, Packet, PerThread,
    Reason, Refused, Setup, register,
};

use super::ip_classifier::{self, FlowKey};
use super::patterns::arguments::Patterns;
use super::patterns::in_force::{self, Exchangeable, InForce};
use super::patterns::states::missing_tracker;
use super::program::FilterProgram;
use rule_list::RuleList;

/// The element; its manual is at the top of the file.
pub struct IpFilter {
    outputs: usize,
    current: Arc<InForce<Current>>,
    /// Whether the index is being rebuilt.
    renewing: Arc<AtomicBool>,
    hits: PerThread<Count>,
    misses: PerThread<Count>,
}

/// The rules in force and their compiled form.
pub(crate) struct Current {
    /// As configured.
    rules: Arc<[String]>,
    caching: bool,
    /// Different for each configuration.
    epoch: u64,
    /// All rules, including those of files.
    list: RuleList,
}

/// The last flow, its output, and the version of the rules that decided it.
#[derive(Default)]
pub struct LastFlow {
    rules: u64,
    flow: Option<(FlowKey, Result<usize, Reason>)>,
}

register!(IpFilter, "ip_filter.rs");

impl Element for IpFilter {
    const CLASS: Class = Class::new("IPFilter", "1/-", "h/h");
    type Local = LastFlow;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let outputs = setup.outputs();
        let current = Arc::new(InForce::new(configure(&mut setup.args, outputs)?));
        let renewing = Arc::default();
        Ok(Self {
            outputs,
            current,
            renewing,
            hits: PerThread::default(),
            misses: PerThread::default(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let current = self.current.keep();
        if has_files(&current.rules) {
            let scope = init.router().scope_of(init.id());
            let list = compile_with_files(&current.rules, self.outputs, &scope)?;
            if let Some(warning) = missing_tracker(&list.program, || init.offered_upstream(0)) {
                init.warn(warning);
            }
            self.current.exchange(current.with(list), None);
        }
        Ok(())
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        let current = self.current.keep();
        // What files contain is known later.
        if let Some(warning) =
            missing_tracker(&current.list.program, || inspection.offered_upstream(0))
            && !has_files(&current.rules)
        {
            inspection.warn(warning);
        }
    }

    fn push(&self, cx: &mut Context, last: &mut LastFlow, _port: usize, batch: &mut Batch) {
        let current = self.current.get(cx);
        if !current.caching {
            let mut ports: Ports = [0; Batch::CAPACITY];
            let program = &current.list.program;
            let ports = ip_classifier::classify_all(program, batch, Reason::Filtered, &mut ports);
            return cx.route_by(batch, ports);
        }
        let current = self.current.keep();
        let program = &current.list.program;
        let (mut hits, mut misses) = (0, 0);
        last.keep_to(current.number);
        cx.route_or_drop(batch, |packet| {
            let known = last.recall(program, packet);
            *if known.is_some() { &mut hits } else { &mut misses } += 1;
            known.unwrap_or_else(|| last.classify(program, packet))
        });
        self.hits.mine(cx).add(hits);
        self.misses.mine(cx).add(misses);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        in_force::handlers(handlers);
        handlers.read("rules", |filter, _| filter.current.keep().list.lines());
        handlers.write("add", |filter, call| {
            filter.change(call, |list| list.with(usize::MAX, &call.text(), &call.scope()))
        });
        handlers.write("insert", |filter, call| {
            let text = call.text();
            let (place, rule) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
            let place =
                place.parse().map_err(|_| "the first word should be the number of a rule")?;
            filter.change(call, |list| list.with(place, rule.trim(), &call.scope()))
        });
        handlers.write("remove", |filter, call| {
            let place =
                call.text().parse().map_err(|_| "argument should be the number of a rule")?;
            filter.change(call, |list| list.without(place, &call.scope()))
        });
        handlers.read("cache_hits_count", |filter, _| filter.if_caching(|hits, _| hits));
        handlers.read("cache_misses_count", |filter, _| filter.if_caching(|_, misses| misses));
        handlers
            .read("cache_total_count", |filter, _| filter.if_caching(|hits, misses| hits + misses));
        handlers.read("cache_hits_ratio", |filter, _| filter.if_caching(percentage));
        handlers.read("cache_misses_ratio", |filter, _| {
            filter.if_caching(|hits, misses| percentage(misses, hits))
        });
    }
}

impl Exchangeable for IpFilter {
    type Rules = Current;

    fn in_force(&self) -> &InForce<Current> {
        &self.current
    }

    fn recompile(&self, call: &Call<'_>) -> Result<Current, HandlerError> {
        let mut args = call.args();
        let current = configure(&mut args, self.outputs);
        let mut current = current.map_err(|Failed| args.messages())?;
        current.list = compile_with_files(&current.rules, self.outputs, &call.scope())?;
        warn_of(&current.list, call);
        Ok(current)
    }

    fn program(current: &Current) -> String {
        current.list.program.to_string()
    }

    fn config(current: &Current) -> Option<String> {
        let rules = current.list.config()?;
        Some(if current.caching { rules + ", CACHING true" } else { rules })
    }
}

impl IpFilter {
    /// Puts changed rules in force.
    fn change(
        &self,
        call: &Call<'_>,
        change: impl FnOnce(&RuleList) -> Result<RuleList, HandlerError>,
    ) -> Result<(), HandlerError> {
        let writing = self.current.lock();
        let current = self.current.keep();
        let list = change(&current.list)?;
        warn_of(&list, call);
        let has_changed_much = list.program.has_changed_much();
        self.current.exchange(current.with(list), None);
        drop(writing);
        if has_changed_much && !self.renewing.swap(true, Relaxed) {
            let (current, renewing) = (Arc::clone(&self.current), Arc::clone(&self.renewing));
            std::thread::spawn(move || {
                renew(&current);
                renewing.store(false, Relaxed);
            });
        }
        Ok(())
    }

    /// A number computed from the counts of packets that were classified from the cache and of those that were not, or
    /// -1 when there is no cache.
    fn if_caching(&self, of: impl Fn(f64, f64) -> f64) -> f64 {
        if !self.current.keep().caching {
            return -1.0;
        }
        of(self.hits.total() as f64, self.misses.total() as f64)
    }
}

/// Warns whoever changes the rules of what the element cannot do with them.
fn warn_of(list: &RuleList, call: &Call<'_>) {
    if list.is_empty() {
        call.warn(NO_RULES);
    }
    let upstream = || call.router().offered_upstream(call.element(), 0);
    if let Some(warning) = missing_tracker(&list.program, upstream) {
        call.warn(warning);
    }
}

/// The warning if there is no rule.
const NO_RULES: &str = "there is no rule: every packet is dropped";

/// Rebuilds the index while the rules continue to change.
fn renew(in_force: &InForce<Current>) {
    let before = in_force.keep();
    let renewed = before.list.program.renewed();
    let _writing = in_force.lock();
    let current = in_force.keep();
    if current.epoch == before.epoch
        && let Some(list) = current.list.moved_to(renewed, &before.list.program)
    {
        in_force.exchange(current.with(list), None);
    }
}

impl Current {
    /// The same with other rules.
    fn with(&self, list: RuleList) -> Self {
        Self { rules: Arc::clone(&self.rules), caching: self.caching, epoch: self.epoch, list }
    }
}

impl LastFlow {
    /// Forgets results of other rules.
    fn keep_to(&mut self, rules: u64) {
        if self.rules != rules {
            *self = Self { rules, flow: None };
        }
    }

    /// The output of a packet of the last flow.
    fn recall(&self, program: &FilterProgram, packet: &Packet) -> Option<Result<usize, Reason>> {
        if !program.looks_at_flow_alone() {
            return None;
        }
        let (key, output) = self.flow?;
        (FlowKey::of(packet)? == key).then_some(output)
    }

    /// The output of a packet, whose flow becomes the last one.
    fn classify(&mut self, program: &FilterProgram, packet: &Packet) -> Result<usize, Reason> {
        let output = ip_classifier::classify(program, packet, Reason::Filtered);
        self.flow = FlowKey::of(packet).map(|key| (key, output));
        output
    }
}

fn percentage(part: f64, rest: f64) -> f64 {
    if part + rest == 0.0 { 0.0 } else { part / (part + rest) * 100.0 }
}

/// Reads the arguments. Rules from files are not in the program yet.
fn configure(args: &mut Args<'_>, outputs: usize) -> Result<Current, Failed> {
    let caching = args.keyword("CACHING", false);
    let rules = Patterns::take(args);
    // A rule that matches nothing keeps the numbers of the others.
    let own =
        rules.plain.iter().map(|rule| file_name(rule).map_or(rule.as_str(), |_| "drop false"));
    let own: Vec<&str> = own.collect();
    let compiled = FilterProgram::compile_rules(&own, outputs, args.scope());
    let (Ok((_, findings)) | Err(findings)) = &compiled;
    rules.report(findings, args);
    if own.is_empty() {
        args.warn((), NO_RULES);
    }
    args.complete()?;
    args.needs(rules.plain.iter().filter_map(|rule| Need::read(file_name(rule)?)));
    let (program, _) = compiled.map_err(|_| Failed)?;
    static EPOCHS: AtomicU64 = AtomicU64::new(0);
    let list = RuleList::new(&own, program, outputs);
    Ok(Current { list, caching, epoch: EPOCHS.fetch_add(1, Relaxed), rules: rules.plain.into() })
}

/// The file whose rules this one includes.
fn file_name(rule: &str) -> Option<&str> {
    let name = rule.trim().strip_prefix("file")?;
    name.starts_with(char::is_whitespace).then(|| name.trim())
}

fn has_files(rules: &[String]) -> bool {
    rules.iter().any(|rule| file_name(rule).is_some())
}

/// Compiles the rules, including those in files.
fn compile_with_files(
    rules: &[String],
    outputs: usize,
    scope: &Scope<'_>,
) -> Result<RuleList, String> {
    let mut texts = Vec::new();
    let mut places = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        let Some(name) = file_name(rule) else {
            texts.push(rule.clone());
            places.push(format!("pattern {number}"));
            continue;
        };
        let contents = std::fs::read_to_string(name).map_err(|error| format!("{name}: {error}"))?;
        for (line, text) in (1..).zip(contents.lines()) {
            if !text.trim().is_empty() {
                texts.push(text.to_owned());
                places.push(format!("{name}:{line}"));
            }
        }
    }
    let compiled = FilterProgram::compile_rules(&texts, outputs, scope);
    compiled.map(|(program, _)| RuleList::new(&texts, program, outputs)).map_err(|findings| {
        let errors = findings.iter().filter(|finding| finding.is_error);
        let say = |finding: &super::program::Finding| {
            let place = places.get(finding.argument).map_or("", String::as_str);
            format!("{place}: {}", finding.message)
        };
        errors.map(say).collect::<Vec<_>>().join("\n")
    })
}

#[cfg(test)]
mod tests {
    use millrace_core::router::hear;
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    use crate::test_packets::ip::{Datagram, withstands};
    use crate::test_packets::ip6;

    fn datagrams() -> Vec<Packet> {
        let udp = Datagram::default();
        let tcp = Datagram::tcp(b"data");
        let ping = Datagram::icmp(8, 0, [0; 4], b"ping");
        [udp, tcp, ping].iter().map(Datagram::packet).collect()
    }

    fn lengths(out: &[Vec<Packet>]) -> Vec<usize> {
        out.iter().map(Vec::len).collect()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = "IPFilter(1 udp, allow src 1.0.0.1 && dst port www, deny all)";
        let mut rig = Rig::new(rules, 1, 2).unwrap();
        let out = rig.push_packets(0, datagrams());
        assert_eq!(lengths(&out), [1, 1]);
        assert_eq!(out[1][0].data()[9], 17);
        assert_eq!(rig.stats().drops, [(Reason::Filtered, 1)]);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn packets_without_a_header_pass_only_if_all_packets_do() {
        for (rules, passed, drops) in [
            ("IPFilter(allow all)", 1, vec![]),
            ("IPFilter(allow not tcp)", 0, vec![(Reason::NoHeader, 1)]),
            ("IPFilter(allow tcp)", 0, vec![(Reason::NoHeader, 1)]),
            ("IPFilter(drop all)", 0, vec![(Reason::Filtered, 1)]),
        ] {
            let mut rig = Rig::new(rules, 1, 1).unwrap();
            assert_eq!(rig.push(0, &["no header"])[0].len(), passed, "{rules}");
            assert_eq!(rig.stats().drops, drops, "{rules}");
        }
    }

    #[test]
    fn rules_can_test_the_mac_header() {
        let mut rig = Rig::new("IPFilter(allow ether src 2:0:0:0:0:1 && udp)", 1, 1).unwrap();
        let frame = [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0][..], &Datagram::default().bytes()];
        let mut packet = Packet::from_bytes(&frame.concat()).unwrap();
        packet.set_mac_header(0);
        packet.set_network_header(14, 20);
        assert!(packet.strip(14));
        let mut without = packet.share().unwrap();
        without.clear_mac_header();
        assert_eq!(rig.push_packets(0, vec![packet, without])[0].len(), 1);
    }

    #[test]
    fn names_of_addresses_are_known() {
        let mut rig = Rig::new("IPFilter(allow dst port domain or www)", 1, 1).unwrap();
        assert_eq!(rig.push_packets(0, datagrams())[0].len(), 1);
    }

    #[test]
    fn rules_can_be_exchanged() {
        let mut rig = Rig::new("IPFilter(allow udp)", 1, 1).unwrap();
        let udp =
            " 0 264/00110000%00ff0000  yes->[0]  no->[X]\nsafe length 266\nalignment offset 0\n";
        assert_eq!(rig.read("program").unwrap(), udp);
        let ((), warnings) = hear(|| rig.write("config", "allow tcp, drop all").unwrap());
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(rig.read("config").unwrap(), "allow tcp, drop all");
        assert_eq!(rig.push_packets(0, datagrams())[0][0].data()[9], 6);
        let error = rig.write("config", "allow tpc").unwrap_err().to_string();
        assert_eq!(error, "pattern 0: empty term near ‘tpc’");
        assert_eq!(rig.push_packets(0, datagrams())[0].len(), 1);
    }

    /// The rule of the stateful firewall for what belongs to no connection.
    #[test]
    fn neighbours_and_routers_of_ipv6_pass_from_the_wire_itself() {
        let rules = "allow ip6 hlim 255 \
                     and (icmp6 type neighborsolicit or neighboradvert or routeradvert), deny all";
        let mut rig = Rig::new(&format!("IPFilter({rules})"), 1, 1).unwrap();
        let message = |kind, hop_limit| {
            let payload = vec![kind; 24];
            let packet =
                ip6::Datagram { next_header: 58, hop_limit, payload, ..Default::default() };
            packet.packet()
        };
        for (kind, hop_limit, passes) in [
            (134, 255, 1),
            (135, 255, 1),
            (136, 255, 1),
            (134, 64, 0),
            (137, 255, 0),
            (128, 255, 0),
        ] {
            let out = rig.push_packets(0, vec![message(kind, hop_limit)]);
            assert_eq!(out[0].len(), passes, "type {kind}, hop limit {hop_limit}");
        }
    }

    #[test]
    fn rules_that_cannot_do_what_is_meant_are_warned_of() {
        let mut rig = Rig::new("IPFilter(allow udp)", 1, 1).unwrap();
        let mut heard = |handler, text| hear(|| rig.write(handler, text).unwrap()).1.join("\n");
        assert!(heard("config", "").contains("there is no rule: every packet is dropped"));
        assert_eq!(heard("add", "allow tcp"), "");
        assert!(heard("insert", "0 allow established").contains("no ConnectionTracker upstream"));
        assert_eq!(heard("remove", "0"), "");
        assert!(heard("remove", "0").contains("there is no rule"));
        assert!(heard("config", "allow new").contains("every packet is ‘untracked’"));
    }

    #[test]
    fn rules_can_be_read_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules");
        let element = format!("IPFilter(deny tcp, file {}, 1 all)", path.display());
        assert!(Rig::new(&element, 1, 2).is_err());
        std::fs::write(&path, "allow udp\n\n deny icmp type 13 \n").unwrap();
        let mut rig = Rig::new(&element, 1, 2).unwrap();
        assert_eq!(lengths(&rig.push_packets(0, datagrams())), [1, 1]);
        std::fs::write(&path, "allow udp\n\nno rule\n").unwrap();
        let message = rig.write("config", &format!("file {}", path.display())).unwrap_err();
        let expected = format!("{}:3: unknown slot ID ‘no’", path.display());
        assert!(message.to_string().starts_with(&expected), "{message}");
    }

    #[test]
    fn the_last_flow_is_remembered() {
        let mut rig = Rig::new("IPFilter(allow udp, deny all, CACHING true)", 1, 1).unwrap();
        let two = || {
            let mut packets = datagrams();
            packets.truncate(2);
            packets
        };
        let doubled = two().into_iter().flat_map(|packet| [packet.share().unwrap(), packet]);
        assert_eq!(rig.push_packets(0, doubled.collect())[0].len(), 2);
        let read = |rig: &Rig, name: &str| rig.read(name).unwrap();
        let counts = ["cache_hits_count", "cache_misses_count", "cache_total_count"];
        assert_eq!(counts.map(|name| read(&rig, name)), ["2", "2", "4"]);
        assert_eq!(read(&rig, "cache_hits_ratio"), "50");
        // Other rules have other outputs.
        rig.write("config", "allow tcp, CACHING true").unwrap();
        assert_eq!(rig.push_packets(0, two())[0].len(), 1);
        assert_eq!(read(&rig, "cache_hits_count"), "2");
        // Rules that test more than the flow are evaluated for every packet.
        rig.write("config", "allow ip len > 30, CACHING true").unwrap();
        let mut short = Datagram::udp(b"");
        assert_eq!(
            rig.push_packets(0, vec![Datagram::default().packet(), short.packet()])[0].len(),
            1
        );
        short.payload.clear();
        assert_eq!(rig.push_packets(0, vec![short.packet()])[0].len(), 0);
        let rig = Rig::new("IPFilter(allow udp)", 1, 1).unwrap();
        assert_eq!(counts.map(|name| read(&rig, name)), ["-1"; 3]);
        assert_eq!(read(&rig, "cache_misses_ratio"), "-1");
    }

    #[test]
    fn errors_are_reported() {
        let Err(diagnostics) = Rig::new("IPFilter(allow tcp, permit udp, 3 \"x\")", 1, 2) else {
            panic!("accepted");
        };
        let messages: Vec<&str> = diagnostics.iter().map(|it| it.message.as_str()).collect();
        assert_eq!(
            messages,
            ["pattern 1: unknown slot ID ‘permit’", "pattern 2: slot ‘3’ out of range",]
        );
    }

    #[test]
    fn no_packet_causes_a_panic() {
        withstands("IPFilter(1 tcp opt syn, allow src port > 1023 or ip ttl < 9, 1 ip frag)", 2);
        withstands("IPFilter(0 ether src 1:2:3:4:5:6, 1 udp, CACHING true)", 2);
    }
}
