//! The rules of a seven-field classifier: where they come from, how fields are read from packets, and how rules change
//! while packets are classified. [`SDNClassifier`](crate::classify::sdn_classifier) and its GPU form share them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use millrace_core::InRound;
use millrace_core::args::{Arg, ArgError, ArgText, FileName, Scope};
use millrace_core::element::HandlerError;
use millrace_core::headers::ether_type;
use millrace_core::{
    Args, Call, Context, Element, Handlers, Inspection, Lock, Need, Packet, Reason, Refused,
};
use millrace_gpu::kernel::CLASSIFY_REGIONS;
use millrace_gpu::region::{Base, View};
use millrace_match::rules::{Action, DROP, Key, LiveRules, Rule, RuleError, RuleSet};

use crate::classify::patterns::in_force::{InForce, Version};
use crate::rule_file::{self, Fault, Origin};

/// The arguments FILE, RULE and DEFAULT, and the rules in force.
pub(crate) struct SdnRules {
    file: Option<FileName>,
    /// The inline rules, which precede those of the file.
    own: Vec<Rule>,
    outputs: usize,
    default: Action,
    in_force: Arc<InForce<Compiled>>,
    /// The rules read from the file when the configuration was checked, until the router starts.
    read: Lock<Option<Vec<Rule>>>,
    /// Held from reading all rules until they are in force, so that the last text read stays in force.
    loading: Lock<()>,
    /// Whether trees are being rebuilt.
    renewing: Arc<AtomicBool>,
}

/// Rules that are or were in force.
pub(crate) type RulesInForce = Version<Compiled>;

/// Rules in the form in which they are searched.
pub(crate) struct Compiled {
    pub(crate) live: LiveRules,
    /// The port of each rule's number, for [`Context::route_by`].
    ports: Vec<u16>,
    default: u16,
    build_time: Duration,
    /// The table for GPUs, once one has asked for it.
    table: OnceLock<Arc<Vec<u32>>>,
}

/// The port of packets that a rule drops.
pub(crate) const FILTERED: u16 = Context::port_to_drop(Reason::Filtered);

/// The port of packets that match no rule, if these are dropped.
pub(crate) const NO_MATCH: u16 = Context::port_to_drop(Reason::NoMatch);

impl SdnRules {
    /// Reads FILE, RULE and DEFAULT; the file is read later.
    pub(crate) fn configure(args: &mut Args<'_>, outputs: usize) -> Self {
        let texts: Vec<InlineRule> = args.repeated("RULE");
        let file: Option<FileName> = args.optional("FILE");
        args.needs(file.as_ref().and_then(Need::read));
        let DefaultAction(default) = args.keyword("DEFAULT", DefaultAction(Action::Drop));
        let own: Vec<Rule> = texts.into_iter().map(|InlineRule(rule)| rule).collect();
        for action in own.iter().map(|rule| rule.action) {
            if let Action::Output(output) = action
                && usize::from(output) >= outputs
            {
                args.error(
                    "RULE",
                    format!(
                        "RULE: there is no output {output}; the number of outputs is {outputs}"
                    ),
                );
            }
        }
        if let Action::Output(output) = default
            && usize::from(output) >= outputs
        {
            args.error(
                "DEFAULT",
                format!("DEFAULT: there is no output {output}; the number of outputs is {outputs}"),
            );
        }
        if file.is_none() && own.is_empty() && !args.has_errors() {
            args.error((), "there are no rules: FILE or RULE is missing");
        }
        if let Err(message) = may_be_so_many(own.len()) {
            args.error("RULE", message);
        }
        let compiled = Compiled::new(RuleSet { rules: own.clone() }, default);
        let in_force = Arc::new(InForce::new(compiled));
        let (read, loading, renewing) = (Lock::default(), Lock::default(), Arc::default());
        Self { file, own, outputs, default, in_force, read, loading, renewing }
    }

    /// The rules in force, for packets of this round.
    #[inline]
    pub(crate) fn get<'a>(&'a self, at: &'a impl InRound) -> &'a RulesInForce {
        self.in_force.get(at)
    }

    /// The rules in force, for callers outside a round.
    pub(crate) fn keep(&self) -> Arc<RulesInForce> {
        self.in_force.keep()
    }

    /// Reads the file and reports its errors. Trees are built when the router starts.
    pub(crate) fn inspect(&self, inspection: &mut Inspection<'_>) {
        match self.gather(None) {
            Ok(rules) => *self.read.lock() = Some(rules),
            Err(faults) => rule_file::report(faults, inspection),
        }
    }

    /// Puts the rules in force that were read when the configuration was checked.
    ///
    /// # Errors
    /// There are too many, or they had not been read and have errors.
    pub(crate) fn initialize(&self) -> Result<(), Refused> {
        let read = self.read.lock().take();
        let started = match read {
            Some(rules) => self.exchange(rules),
            None => self.read(None),
        };
        started.map_err(Refused)
    }

    /// Reads the configured file, or another one; `Err` lists the errors with their positions.
    fn read(&self, file: Option<&Path>) -> Result<(), String> {
        let _loading = self.loading.lock();
        self.exchange(self.gather(file).map_err(|faults| rule_file::lines(&faults))?)
    }

    /// Replaces all rules by those of a text.
    fn write(&self, text: &[u8]) -> Result<(), String> {
        let _loading = self.loading.lock();
        let parsed = self.parse(Origin::new(None, text));
        self.exchange(parsed.map_err(|faults| rule_file::lines(&faults))?)
    }

    /// The rules of the configuration and those of its file, or of another one.
    fn gather(&self, file: Option<&Path>) -> Result<Vec<Rule>, Vec<Fault>> {
        let mut rules = self.own.clone();
        let file = file.or_else(|| self.file.as_ref().map(FileName::as_path));
        if let Some(path) = file {
            let text = rule_file::read(path).map_err(|fault| vec![fault])?;
            let origin = Origin::new(file, &text);
            let read = self.parse(origin)?;
            if read.is_empty() {
                return Err(vec![origin.fault_of_all("there is no rule in it")]);
            }
            rules.extend(read);
        }
        Ok(rules)
    }

    fn parse(&self, origin: Origin<'_>) -> Result<Vec<Rule>, Vec<Fault>> {
        let text = std::str::from_utf8(origin.text).map_err(|error| {
            let before = origin.text.get(..error.valid_up_to()).unwrap_or_default();
            let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
            let byte = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
            vec![origin.fault_at_byte(line, byte, "it is not UTF-8 text")]
        })?;
        let fault = |wrong: RuleError| origin.fault(wrong.line, wrong.column, wrong.message);
        let parsed = RuleSet::parse_for(self.outputs, text);
        parsed.map(|set| set.rules).map_err(|wrong| wrong.into_iter().map(fault).collect())
    }

    /// Puts other rules in force; packets are classified by the old ones until these are ready.
    fn exchange(&self, rules: Vec<Rule>) -> Result<(), String> {
        may_be_so_many(rules.len())?;
        let compiled = Compiled::new(RuleSet { rules }, self.default);
        let _writing = self.in_force.lock();
        self.in_force.exchange(compiled, None);
        Ok(())
    }

    /// Puts changed rules in force. After many changes, a background thread rebuilds the trees.
    fn change(
        &self,
        change: impl FnOnce(&LiveRules) -> Result<LiveRules, HandlerError>,
    ) -> Result<(), HandlerError> {
        let writing = self.in_force.lock();
        let current = self.in_force.keep();
        let live = change(&current.live)?;
        let has_changed_much = live.has_changed_much();
        self.in_force.exchange(current.with(live), None);
        drop(writing);
        if has_changed_much && !self.renewing.swap(true, Relaxed) {
            let (in_force, renewing) = (Arc::clone(&self.in_force), Arc::clone(&self.renewing));
            let work = move || {
                renew(&in_force);
                renewing.store(false, Relaxed);
            };
            if std::thread::Builder::new().name("sdn-rules".to_owned()).spawn(work).is_err() {
                // No thread could be started; the next change tries again.
                self.renewing.store(false, Relaxed);
            }
        }
        Ok(())
    }

    /// Parses a rule written to a handler.
    fn rule(&self, text: &str) -> Result<Rule, HandlerError> {
        Rule::parse_for(self.outputs, text).map_err(|error| error.to_string().into())
    }
}

/// Rebuilds trees while the rules continue to change.
fn renew(in_force: &InForce<Compiled>) {
    let before = in_force.keep();
    let began = Instant::now();
    let renewed = before.live.renewed();
    let build_time = began.elapsed();
    let _writing = in_force.lock();
    let current = in_force.keep();
    // Otherwise all rules have been replaced meanwhile.
    if let Some(live) = current.live.moved_to(renewed, &before.live) {
        in_force.exchange(Compiled { build_time, ..current.with(live) }, None);
    }
}

impl Compiled {
    fn new(rules: RuleSet, default: Action) -> Self {
        let began = Instant::now();
        let live = LiveRules::new(rules);
        let build_time = began.elapsed();
        let default = match default {
            Action::Output(output) => output,
            Action::Drop => NO_MATCH,
        };
        let ports = ports(&live);
        Self { live, ports, default, build_time, table: OnceLock::new() }
    }

    fn with(&self, live: LiveRules) -> Self {
        let ports = ports(&live);
        let (default, build_time) = (self.default, self.build_time);
        Self { live, ports, default, build_time, table: OnceLock::new() }
    }

    /// The rules as a table for a GPU.
    pub(crate) fn table(&self) -> &Arc<Vec<u32>> {
        let miss = match self.default {
            NO_MATCH => DROP,
            output => output.into(),
        };
        self.table.get_or_init(|| Arc::new(self.live.table(miss)))
    }

    /// The port for a packet whose rule has this number, for [`Context::route_by`].
    #[inline(always)]
    pub(crate) fn port(&self, number: u32) -> u16 {
        self.ports.get(number as usize).copied().unwrap_or(self.default)
    }
}

/// The port of each rule's number.
fn ports(live: &LiveRules) -> Vec<u16> {
    let port = |number: u32| match live.action(number) {
        Some(Action::Output(output)) => output,
        _ => FILTERED,
    };
    (0..live.numbers_end() as u32).map(port).collect()
}

/// The fields of a packet.
#[inline(always)]
pub(crate) fn key_of(packet: &Packet) -> Key {
    let frame = match (packet.mac_header(), packet.network_header()) {
        (None, None) => Some(packet.data()),
        (Some(_), None) => packet.mac_data(),
        (Some(mac), Some(network)) if network == mac + 14 => packet.mac_data(),
        _ => None,
    };
    // After VLAN tags, the network header may be anywhere.
    match frame.filter(|frame| packet.network_header().is_none() || !is_tagged(frame)) {
        Some(frame) => Key::of_frame(frame),
        None => key_by_layers(packet),
    }
}

#[inline(always)]
fn is_tagged(frame: &[u8]) -> bool {
    let tag = frame.get(12..14).and_then(<[u8]>::first_chunk);
    ether_type::is_tag(tag.map_or(0, |tag| u16::from_be_bytes(*tag)))
}

/// The fields of a packet as a GPU gets them.
#[inline(never)]
pub(crate) fn key_by_layers(packet: &Packet) -> Key {
    let view = View::of(packet, Base::Transport);
    let [ethernet, ether_type, network, transport] =
        CLASSIFY_REGIONS.each_ref().map(|region| view.slice(region));
    Key::of_slices(ethernet, ether_type, network, transport)
}

/// The handlers of the rules.
pub(crate) fn handlers<E: Element>(handlers: &mut Handlers<E>, rules: fn(&E) -> &SdnRules) {
    handlers.read("rules", move |element, _| {
        let current = rules(element).keep();
        let lines = current.live.rules().enumerate();
        lines.map(|(place, rule)| format!("{place} {rule}\n")).collect::<String>()
    });
    handlers.write("rules", move |element, call| Ok(rules(element).write(call.text().as_bytes())?));
    handlers.write("load", move |element, call| match call.bytes().trim_ascii() {
        b"" => Ok(rules(element).read(None)?),
        _ => Ok(rules(element).read(Some(call.parse::<FileName>()?.as_path()))?),
    });
    handlers.write("add", move |element, call| {
        let rules = rules(element);
        let rule = rules.rule(&call.text())?;
        rules.change(|live| with(live, live.len(), rule))
    });
    handlers.write("insert", move |element, call| {
        let rules = rules(element);
        let (place, text) = place_and_rest(call)?;
        let rule = rules.rule(&text)?;
        rules.change(|live| with(live, place, rule))
    });
    handlers.write("replace", move |element, call| {
        let rules = rules(element);
        let (place, text) = place_and_rest(call)?;
        let rule = rules.rule(&text)?;
        rules.change(|live| live.replaced(place, rule).map_err(|error| error.to_string().into()))
    });
    handlers.write("remove", move |element, call| {
        let (place, rest) = place_and_rest(call)?;
        let rest = rest.trim();
        if !rest.is_empty() {
            return Err(format!("expected nothing after the number of a rule, not ‘{rest}’").into());
        }
        let without = |live: &LiveRules| live.without(place);
        rules(element).change(|live| without(live).map_err(|error| error.to_string().into()))
    });
    handlers.read("memory", move |element, _| rules(element).keep().live.bytes());
    handlers.read("build_time", move |element, _| rules(element).keep().build_time.as_secs_f64());
}

fn with(live: &LiveRules, place: usize, rule: Rule) -> Result<LiveRules, HandlerError> {
    may_be_so_many(live.len() + 1)?;
    Ok(live.with(place, rule))
}

/// Reports an error if there are too many rules.
fn may_be_so_many(count: usize) -> Result<(), String> {
    if count > RuleSet::MOST {
        return Err(format!("{count} rules are more than the maximum of {}", RuleSet::MOST));
    }
    Ok(())
}

/// The number of a rule, and the text after it, with spaces in place of the number: columns count from the beginning of
/// the written text.
fn place_and_rest(call: &Call<'_>) -> Result<(usize, String), HandlerError> {
    let text = call.text();
    let (place, rest) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
    let number = place.parse().map_err(|_| "the first word should be the number of a rule")?;
    Ok((number, " ".repeat(place.len() + 1) + rest))
}

/// A rule in the configuration.
struct InlineRule(Rule);

impl Arg for InlineRule {
    const EXPECTS: &'static str = "a rule";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let text = text.unquote();
        let rule = String::from_utf8_lossy(&text).parse::<Rule>();
        rule.map(Self)
            .map_err(|error| ArgError::new(format!("column {}: {}", error.column, error.message)))
    }

    fn placeholder() -> Self {
        Self(Rule::any(Action::Drop))
    }
}

/// An output or `drop`.
#[derive(Clone, Copy)]
struct DefaultAction(Action);

impl Arg for DefaultAction {
    const EXPECTS: &'static str = "the number of an output, or drop";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        match text.as_str() {
            "drop" => Ok(Self(Action::Drop)),
            _ => {
                Ok(Self(Action::Output(u16::parse(text, scope).map_err(|_| ArgError::default())?)))
            }
        }
    }

    fn placeholder() -> Self {
        Self(Action::Drop)
    }
}
