//! The rules of IPFilter and the patterns of IPClassifier: `allow src 10.0.0.0/8 && tcp port 80`.

mod case;
mod cases;
mod check;
mod header6;
mod lower;
mod names;
mod parser;
mod primitive;
mod words;

use std::fmt;
use std::sync::OnceLock;

use millrace_core::args::Scope;
use millrace_lang::nearest;

use super::decision::Program;
use super::expr::{Expr, Folded};
use super::finding::Finding;
use super::grouped::Grouped;
use super::insn::{Form, Jump, Test};
use super::layout::{Layout, NETWORK, TRANSPORT};
use super::live::{LiveRules, Rule};
use super::matcher::Matcher;
use super::next::Otherwise;
use case::Case;
use cases::Cases;
use primitive::{Condition, Primitive};

pub use case::State;

/// A compiled list of rules: the first rule whose expression holds decides about a packet.
///
/// Displayed, it is the text of IPFilter's `program` handler.
#[derive(Clone, Debug)]
pub struct FilterProgram {
    running: Running,
    outputs: Vec<bool>,
    looks: Looks,
}

/// What a program tests in packets.
#[derive(Clone, Copy, Debug)]
struct Looks {
    at_mac: bool,
    at_transport: bool,
    /// The states of connections.
    at_state: bool,
    /// Fields that are not common to the packets of a flow.
    past_flow: bool,
}

/// The form in which rules run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The form that suits the rules: the program if it is small enough to run on many packets at once, else the index.
    #[default]
    Fitting,
    /// The decision program. The cost per packet grows with the number of rules, and the cost of compiling with its
    /// square.
    Program,
    /// The index, for any number of rules.
    Index,
}

#[derive(Clone, Debug)]
enum Running {
    Program {
        grouped: Grouped,
        matcher: Box<Matcher<3>>,
    },
    Index {
        live: Box<LiveRules>,
        grouped: OnceLock<Grouped>,
        /// Whether there are so few rules that a change recompiles them all.
        few: bool,
    },
    Cases(Box<Cases>),
}

/// The parts of a packet that IP programs test. Each runs to the end of the packet; a part that the packet does not
/// have is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct IpSections<'a> {
    /// From the MAC header on.
    pub mac: &'a [u8],
    /// From the network header on.
    pub network: &'a [u8],
    /// From the transport header on.
    pub transport: &'a [u8],
    /// The number of its connection's [`State`]. As a number, because the compiler would keep in a state's spare values
    /// whether there are sections at all, which costs every packet a few instructions.
    pub state: u8,
}

impl<'a> IpSections<'a> {
    /// The sections in the order of their offsets.
    #[inline(always)]
    fn in_order(&self) -> [&'a [u8]; 3] {
        [self.mac, self.network, self.transport]
    }
}

impl FilterProgram {
    /// With this many rules or more, the decision program is compiled only for display, and changes do not recompile
    /// all rules.
    pub const MANY_RULES: usize = 32;

    /// Compiles the rules of an IPFilter with `outputs` outputs: `ACTION EXPRESSION` each, where
    /// the action is `allow` (output 0), `deny` or `drop`, or the number of an output.
    ///
    /// The warnings are returned with the program.
    ///
    /// # Errors
    /// All errors in the rules, and the warnings.
    pub fn compile_rules<S: AsRef<str>>(
        rules: &[S],
        outputs: usize,
        scope: &Scope<'_>,
    ) -> Result<(Self, Vec<Finding>), Vec<Finding>> {
        Self::compile_rules_for(Engine::Fitting, rules, outputs, scope)
    }

    /// [`compile_rules`](Self::compile_rules) for a given engine.
    ///
    /// # Errors
    /// As there.
    pub fn compile_rules_for<S: AsRef<str>>(
        engine: Engine,
        rules: &[S],
        outputs: usize,
        scope: &Scope<'_>,
    ) -> Result<(Self, Vec<Finding>), Vec<Finding>> {
        let mut compiler = Compiler::new(scope, outputs);
        for (argument, rule) in rules.iter().enumerate() {
            compiler.add_rule(argument, rule.as_ref());
        }
        compiler.finish(engine)
    }

    /// Compiles the patterns of an IPClassifier: an expression for each output.
    ///
    /// The warnings are returned with the program.
    ///
    /// # Errors
    /// All errors in the patterns, and the warnings.
    pub fn compile_patterns<S: AsRef<str>>(
        patterns: &[S],
        scope: &Scope<'_>,
    ) -> Result<(Self, Vec<Finding>), Vec<Finding>> {
        Self::compile_patterns_for(Engine::Fitting, patterns, scope)
    }

    /// [`compile_patterns`](Self::compile_patterns) for a given engine.
    ///
    /// # Errors
    /// As there.
    pub fn compile_patterns_for<S: AsRef<str>>(
        engine: Engine,
        patterns: &[S],
        scope: &Scope<'_>,
    ) -> Result<(Self, Vec<Finding>), Vec<Finding>> {
        let mut compiler = Compiler::new(scope, patterns.len());
        for (output, pattern) in (0..).zip(patterns) {
            let pattern = pattern.as_ref();
            let words = words::words(pattern);
            compiler.add_expression(output as usize, pattern.len(), &words, Jump::Output(output));
        }
        compiler.finish(engine)
    }

    /// The output for a packet, or [`DROP`](super::DROP) if the rule drops it or no rule matches.
    ///
    /// A condition on bytes that a packet does not have does not hold; its negation does.
    #[inline(always)]
    pub fn classify(&self, packet: &IpSections<'_>) -> usize {
        match &self.running {
            Running::Program { matcher, .. } => matcher.classify(packet.in_order()),
            Running::Index { live, .. } => live.classify(packet.in_order()),
            Running::Cases(cases) => cases.classify(packet),
        }
    }

    /// Writes the port of each packet to `ports`. `sections` returns the parts of a packet, or `None` if its header
    /// position is not set, which matters only if packets are treated differently.
    #[inline(always)]
    pub fn classify_all<'a, P>(
        &self,
        packets: &'a [P],
        sections: impl Fn(&'a P) -> Option<IpSections<'a>>,
        otherwise: Otherwise,
        ports: &mut [u16],
    ) {
        if self.is_constant() {
            ports.fill(otherwise.port(self.classify(&IpSections::default())));
            return;
        }
        match &self.running {
            Running::Program { matcher, .. } => {
                matcher.classify_all(
                    packets,
                    #[inline(always)]
                    |packet| Some(sections(packet)?.in_order()),
                    otherwise,
                    ports,
                );
            }
            Running::Index { live, .. } => {
                live.classify_all(
                    packets,
                    #[inline(always)]
                    |packet| Some(sections(packet)?.in_order()),
                    otherwise,
                    ports,
                );
            }
            Running::Cases(cases) => cases.classify_all(packets, sections, otherwise, ports),
        }
    }

    /// True if all packets are treated alike, so that none needs headers.
    #[inline(always)]
    pub fn is_constant(&self) -> bool {
        match &self.running {
            Running::Program { grouped, .. } => grouped.constant().is_some(),
            Running::Index { live, .. } => live.constant().is_some(),
            Running::Cases(_) => false,
        }
    }

    /// True if rules test the MAC header.
    #[inline(always)]
    pub fn looks_at_mac(&self) -> bool {
        self.looks.at_mac
    }

    /// True if rules test the transport header.
    #[inline(always)]
    pub fn looks_at_transport(&self) -> bool {
        self.looks.at_transport
    }

    /// True if rules ask for the state of connections.
    #[inline(always)]
    pub fn looks_at_state(&self) -> bool {
        self.looks.at_state
    }

    /// True if rules test only fields that the packets of a flow share: addresses, protocol, the first four bytes of
    /// the transport header, and whether the packet is a fragment.
    pub fn looks_at_flow_alone(&self) -> bool {
        !self.looks.past_flow
    }

    /// True if some packet can leave on this output.
    pub fn reaches(&self, output: usize) -> bool {
        self.outputs.get(output).copied().unwrap_or(false)
    }

    /// The engine in use; for rules that are compiled for several cases, the one of most rules.
    pub fn engine(&self) -> Engine {
        match &self.running {
            Running::Program { .. } => Engine::Program,
            Running::Index { .. } => Engine::Index,
            Running::Cases(cases) => {
                match cases.programs().any(|it| it.engine() == Engine::Index) {
                    true => Engine::Index,
                    false => Engine::Program,
                }
            }
        }
    }

    /// The size of the running form in bytes, without the rules that it was built from.
    pub fn bytes(&self) -> usize {
        match &self.running {
            Running::Program { matcher, .. } => matcher.bytes(),
            Running::Index { live, .. } => live.bytes(),
            Running::Cases(cases) => cases.programs().map(FilterProgram::bytes).sum(),
        }
    }
}

/// Incremental changes of many rules.
impl FilterProgram {
    /// The same program with a rule before the one at `place`, or at the end. `None` if all rules should be recompiled
    /// instead: when they are few, or treat all packets alike.
    ///
    /// # Errors
    /// All errors in the rule.
    pub fn with_rule(
        &self,
        place: usize,
        rule: &str,
        scope: &Scope<'_>,
    ) -> Result<Option<Self>, Vec<Finding>> {
        let mut compiler = Compiler::new(scope, self.outputs.len());
        compiler.add_rule(0, rule);
        if compiler.findings.iter().any(|finding| finding.is_error) {
            return Err(compiler.findings);
        }
        let Running::Index { live, few: false, .. } = &self.running else { return Ok(None) };
        if compiler.differs_by_case() {
            return Ok(None);
        }
        let mut rules = lowered(&compiler.rules, Case::ONLY);
        let looks = Looks::of(&Program::from_rules(&rules, Layout::Ip, 0));
        let live = rules.pop().and_then(|rule| live.with(place, rule));
        Ok(live.map(|live| self.changed(live, self.looks.and(looks))))
    }

    /// The same without the rule at `place`. `None` if the others should be recompiled instead.
    pub fn without_rule(&self, place: usize) -> Option<Self> {
        let Running::Index { live, few: false, .. } = &self.running else { return None };
        Some(self.changed(live.without(place)?, self.looks))
    }

    /// Whether rules have changed so often that all should be [rebuilt](Self::renewed).
    pub fn has_changed_much(&self) -> bool {
        matches!(&self.running, Running::Index { live, few: false, .. } if live.has_changed_much())
    }

    /// The same, rebuilt from the current rules.
    #[must_use]
    pub fn renewed(&self) -> Self {
        match &self.running {
            Running::Program { .. } | Running::Index { few: true, .. } | Running::Cases(_) => {
                self.clone()
            }
            Running::Index { live, few: false, .. } => {
                self.changed(LiveRules::new(live.rules().cloned().collect()), self.looks)
            }
        }
    }

    /// The rules of `self` in `renewed`, which was [rebuilt](Self::renewed) from `before`, an earlier state of `self`.
    /// `None` if that is not possible.
    pub fn moved_to(&self, renewed: Self, before: &Self) -> Option<Self> {
        match (&self.running, renewed.running, &before.running) {
            (
                Running::Index { live, .. },
                Running::Index { live: renewed, .. },
                Running::Index { live: before, .. },
            ) => Some(self.changed(live.moved_to(*renewed, before)?, self.looks)),
            _ => None,
        }
    }

    fn changed(&self, live: LiveRules, looks: Looks) -> Self {
        let outputs = (0..).map(|output| live.reaches(output)).take(self.outputs.len()).collect();
        let running = Running::Index { live: Box::new(live), grouped: OnceLock::new(), few: false };
        Self { running, outputs, looks }
    }
}

impl Looks {
    fn of(program: &Program) -> Self {
        let tests = || program.insns().iter().map(|insn| insn.test).filter(|test| test.mask != 0);
        Self {
            at_mac: tests().any(|test| test.offset < NETWORK),
            at_transport: tests().any(|test| test.offset >= TRANSPORT),
            at_state: false,
            past_flow: !tests().all(|test| lower::is_of_flow(&test)),
        }
    }

    /// The union of both.
    fn and(self, other: Self) -> Self {
        Self {
            at_mac: self.at_mac || other.at_mac,
            at_transport: self.at_transport || other.at_transport,
            at_state: self.at_state || other.at_state,
            past_flow: self.past_flow || other.past_flow,
        }
    }
}

impl fmt::Display for FilterProgram {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.running {
            Running::Program { grouped, .. } => grouped.fmt(out),
            Running::Index { live, grouped, .. } => {
                let rules: Vec<Rule> = live.rules().cloned().collect();
                let program = || Grouped::new(&merge(&rules, Form::Click));
                grouped.get_or_init(program).fmt(out)
            }
            Running::Cases(cases) => cases.fmt(out),
        }
    }
}

struct Compiler<'a> {
    scope: &'a Scope<'a>,
    outputs: usize,
    rules: Vec<(Expr<Primitive>, Jump)>,
    findings: Vec<Finding>,
}

impl<'a> Compiler<'a> {
    fn new(scope: &'a Scope<'a>, outputs: usize) -> Self {
        Self { scope, outputs, rules: Vec::new(), findings: Vec::new() }
    }

    fn add_rule(&mut self, argument: usize, rule: &str) {
        let words = words::words(rule);
        let Some((action, expression)) = words.split_first() else {
            self.findings.push(Finding::error(argument, 0..rule.len(), "empty pattern"));
            return;
        };
        let output = match action.text {
            "allow" if self.outputs == 0 => {
                Err("‘allow’ is meaningless, element has zero outputs".into())
            }
            "allow" => Ok(Jump::Output(0)),
            "deny" | "drop" => Ok(Jump::Drop),
            number => match millrace_core::args::parse::<i64>(number, self.scope) {
                Err(_) => Err(format!("unknown slot ID ‘{number}’")),
                Ok(slot) => match u32::try_from(slot) {
                    Ok(output) if (output as usize) < self.outputs => Ok(Jump::Output(output)),
                    _ => Err(format!("slot ‘{number}’ out of range")),
                },
            },
        };
        let output = output.unwrap_or_else(|message: String| {
            let error = Finding::error(argument, action.range.clone(), message);
            self.findings.push(error.help(self.actions(action.text)));
            Jump::Drop
        });
        self.add_expression(argument, rule.len(), expression, output);
    }

    /// What a rule may begin with, after it began with `given`.
    fn actions(&self, given: &str) -> String {
        match nearest(given, ["allow", "deny", "drop"]) {
            Some(near) if near != given => format!("did you mean ‘{near}’?"),
            _ => match self.outputs {
                0 => "no output is connected: a rule begins with ‘deny’ or ‘drop’".to_owned(),
                1 => "a rule begins with ‘allow’, ‘deny’, ‘drop’ or 0, the only output".to_owned(),
                n => format!(
                    "a rule begins with ‘allow’, ‘deny’, ‘drop’ or an output, 0 to {}",
                    n - 1
                ),
            },
        }
    }

    /// Adds a rule whose expression consists of these words; `end` is the end of the rule.
    fn add_expression(
        &mut self,
        argument: usize,
        end: usize,
        words: &[words::Word<'_>],
        output: Jump,
    ) {
        let expr = match words {
            [] => Ok(always()),
            [all] if ["-", "any", "all"].contains(&all.text) => Ok(always()),
            words => parser::parse(words, end, argument, self.scope, &mut self.findings),
        };
        match expr {
            Ok(expr) => self.rules.push((expr, output)),
            Err(finding) => {
                // An error after another one may disappear once that is corrected.
                let own = |known: &&Finding| known.argument == argument;
                let mut known = self.findings.iter().rev().take_while(own);
                if !known.any(|known| known.is_error) {
                    self.findings.push(finding);
                }
            }
        }
    }

    fn finish(self, engine: Engine) -> Result<(FilterProgram, Vec<Finding>), Vec<Finding>> {
        if self.findings.iter().any(|finding| finding.is_error) {
            return Err(self.findings);
        }
        let program = match self.differs_by_case() {
            true => FilterProgram::of_cases(engine, &self.rules, self.outputs),
            false => FilterProgram::new(engine, lowered(&self.rules, Case::ONLY), self.outputs),
        };
        Ok((program, self.findings))
    }

    /// Whether rules have words that Click's rules do not have.
    fn differs_by_case(&self) -> bool {
        self.rules.iter().any(|(expr, _)| expr.has(&Primitive::differs_by_case))
    }
}

/// A condition that every packet satisfies.
fn always() -> Expr<Primitive> {
    Expr::Is(Primitive::any(Condition::Constant(true)))
}

/// The rules for the packets of a case.
fn lowered(rules: &[(Expr<Primitive>, Jump)], case: Case) -> Vec<(Expr<Test>, Jump)> {
    let lower = |expr: &Expr<Primitive>| expr.flat_map(&mut |one| lower::lower(one, case));
    rules.iter().map(|(expr, output)| (lower(expr), *output)).collect()
}

/// The rules that can decide about a packet.
fn decisive(rules: Vec<(Expr<Test>, Jump)>) -> Vec<(Expr<Test>, Jump)> {
    let mut decisive = Vec::new();
    for (expr, output) in rules {
        match expr.folded() {
            Folded::Never => {}
            Folded::Depends(expr) => decisive.push((expr, output)),
            Folded::Always => {
                decisive.push((lower::always(), output));
                break;
            }
        }
    }
    decisive
}

impl FilterProgram {
    /// The program of rules that treat all cases alike.
    fn new(engine: Engine, rules: Vec<(Expr<Test>, Jump)>, count: usize) -> Self {
        let original = Program::from_rules(&rules, Layout::Ip, 0);
        let looks = Looks::of(&original);
        let is_many = match engine {
            Engine::Fitting => rules.len() >= Self::MANY_RULES,
            Engine::Program => false,
            Engine::Index => true,
        };
        if is_many {
            let live = Box::new(LiveRules::new(rules.into()));
            let outputs = (0..).map(|output| live.reaches(output)).take(count).collect();
            let running = Running::Index { live, grouped: OnceLock::new(), few: false };
            return Self { running, outputs, looks };
        }
        let program = merge(&rules, Form::Click);
        let exact = merge(&rules, Form::Exact);
        let matcher = Box::new(Matcher::for_programs(&program, &exact, original.insns()));
        let outputs = (0..).map(|output| program.reaches(output)).take(count).collect();
        let grouped = Grouped::new(&program);
        let is_small = engine == Engine::Program || matcher.is_small();
        let index = (!is_small).then(|| LiveRules::new(rules.into()));
        // If the index finds that all packets have the same destination and the program does not, packets without
        // headers do not have that destination.
        let running = match index.filter(|index| index.constant().is_none()) {
            None => Running::Program { grouped, matcher },
            Some(live) => {
                Running::Index { live: Box::new(live), grouped: grouped.into(), few: true }
            }
        };
        Self { running, outputs, looks }
    }

    /// The program of rules that differ by case.
    fn of_cases(engine: Engine, rules: &[(Expr<Primitive>, Jump)], count: usize) -> Self {
        let cases = Cases::new(
            |case| decisive(lowered(rules, case)),
            |rules| FilterProgram::new(engine, rules, count),
        );
        let reaches = |output| cases.programs().any(|program| program.reaches(output));
        let outputs = (0..count).map(reaches).collect();
        let asks = |one: &Primitive| matches!(one.condition, Condition::State(_));
        let looks = Looks {
            at_mac: cases.programs().any(FilterProgram::looks_at_mac),
            at_transport: cases.programs().any(FilterProgram::looks_at_transport),
            at_state: rules.iter().any(|(expr, _)| expr.has(&asks)),
            past_flow: true,
        };
        Self { running: Running::Cases(Box::new(cases)), outputs, looks }
    }
}

/// The program of the rules. Click merges the programs of neighbouring pairs, optimises the results, and repeats that
/// until one is left.
pub(super) fn merge(rules: &[(Expr<Test>, Jump)], form: Form) -> Program {
    let one = |(expr, output): &(Expr<Test>, Jump)| Program::from_rule(expr, *output, Layout::Ip);
    let mut programs: Vec<Program> = rules.iter().map(one).collect();
    if let [only] = &mut programs[..] {
        only.optimize(form);
    }
    while programs.len() > 1 {
        let mut rest = programs.into_iter();
        programs = Vec::with_capacity(rest.len().div_ceil(2));
        while let Some(mut program) = rest.next() {
            if let Some(next) = rest.next() {
                program.or_else(&next);
                program.optimize(form);
            }
            programs.push(program);
        }
    }
    let mut program = programs.pop().unwrap_or_else(|| Program::new(Layout::Ip, 0));
    program.settle_failure(Jump::Drop);
    // Groups are found only among adjacent tests of one word.
    program.sort_conjunctions();
    program
}

#[cfg(test)]
mod tests;
