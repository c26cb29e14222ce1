//! The declaration of a class: name, port counts, processing, flow (Kohler et al., "The Click modular
//! router", TOCS 2000, section 4; the codes are Click's).

/// The declaration of an element class.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// The name in configurations.
    pub name: &'static str,
    /// Port counts: `"1/1"`, `"1/1-2"`, `"0-/="`.
    pub ports: &'static str,
    /// Processing: `"a/ah"`; the last letter of a side applies to all further ports.
    pub processing: &'static str,
    /// Flow: which inputs reach which outputs, `"x/x"` when each reaches all.
    pub flow: &'static str,
    /// Other names of the same class.
    pub aliases: &'static [&'static str],
    /// Elements of a lower phase are configured and initialised first.
    pub phase: i8,
    /// Has effects outside the graph whose order is visible (printing, dumps). On virtual time each packet
    /// then goes its whole way before the next one of its batch.
    pub ordered: bool,
    /// Its effects are visible packet by packet (lines of text, steps of a script). While they are
    /// ([`Element::shows`](crate::Element::shows)), each packet goes its whole way before the next one.
    pub shows_packets: bool,
    /// Its arguments have variables of its own (`$x`), which get their values while it runs (Script).
    pub own_variables: bool,
    /// Only provides information and handles no packets: needs no connection.
    pub information: bool,
    /// Packets that arrive leave on another thread (Pipeliner).
    pub crosses_threads: bool,
    /// Each thread's packets leave by one output: the thread's number modulo the number of outputs
    /// (CPUSwitch).
    pub by_thread: bool,
    /// When an element waits for packets on this element's notifier, the elements upstream of this one wake
    /// it as well (PullSwitch).
    pub passes_wakes: bool,
    /// While one of its outputs is pulled, another one may be pulled too, around a loop (Bypass). Such an
    /// element keeps no per-thread state.
    pub reentrant: bool,
}

impl Class {
    /// The phase of most classes.
    pub const PHASE_DEFAULT: i8 = 0;
    /// The phase of classes that define names for others (AddressInfo).
    pub const PHASE_INFO: i8 = -10;
    /// The phase of classes that must come after others (Script, ControlSocket).
    pub const PHASE_LAST: i8 = 10;

    /// A class with the given name, port counts and processing, each in Click's code.
    pub const fn new(name: &'static str, ports: &'static str, processing: &'static str) -> Self {
        Self {
            name,
            ports,
            processing,
            flow: "x/x",
            aliases: &[],
            phase: Self::PHASE_DEFAULT,
            ordered: false,
            shows_packets: false,
            own_variables: false,
            information: false,
            crosses_threads: false,
            by_thread: false,
            passes_wakes: false,
            reentrant: false,
        }
    }

    /// Sets the flow code.
    #[must_use]
    pub const fn flow(mut self, flow: &'static str) -> Self {
        self.flow = flow;
        self
    }

    /// Sets other names of the class.
    #[must_use]
    pub const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Sets the configuration phase.
    #[must_use]
    pub const fn phase(mut self, phase: i8) -> Self {
        self.phase = phase;
        self
    }

    /// Declares that the order of the element's effects is visible outside the graph.
    #[must_use]
    pub const fn ordered(mut self) -> Self {
        self.ordered = true;
        self
    }

    /// Declares that the order of the element's effects is visible outside the graph, packet by packet.
    #[must_use]
    pub const fn shows_packets(mut self) -> Self {
        self.ordered = true;
        self.shows_packets = true;
        self
    }

    /// Declares that the element's arguments have variables of their own.
    #[must_use]
    pub const fn own_variables(mut self) -> Self {
        self.own_variables = true;
        self
    }

    /// Declares that the element handles no packets and needs no connection.
    #[must_use]
    pub const fn information(mut self) -> Self {
        self.information = true;
        self
    }

    /// Declares that packets leave on another thread than they arrived on.
    #[must_use]
    pub const fn crosses_threads(mut self) -> Self {
        self.crosses_threads = true;
        self
    }

    /// Declares that each thread's packets leave by one output: the thread's number modulo the number of
    /// outputs.
    #[must_use]
    pub const fn by_thread(mut self) -> Self {
        self.by_thread = true;
        self
    }

    /// Declares that elements that wait for this element's notifier are also woken by the elements upstream
    /// of it.
    #[must_use]
    pub const fn passes_wakes(mut self) -> Self {
        self.passes_wakes = true;
        self
    }

    /// Declares that an output may be pulled while another one is.
    #[must_use]
    pub const fn reentrant(mut self) -> Self {
        self.reentrant = true;
        self
    }

    /// The allowed numbers of inputs and outputs.
    pub fn port_counts(&self) -> (PortCount, PortCount) {
        let (inputs, outputs) = self.ports.split_once('/').unwrap_or((self.ports, self.ports));
        (PortCount::parse(inputs), PortCount::parse(outputs))
    }

    /// The processing codes.
    pub fn processing(&self) -> Processing {
        let (inputs, outputs) =
            self.processing.split_once('/').unwrap_or((self.processing, self.processing));
        Processing { inputs, outputs }
    }

    /// The flow code.
    pub fn flow_code(&self) -> Flow {
        let (inputs, outputs) = self.flow.split_once('/').unwrap_or((self.flow, self.flow));
        Flow { inputs, outputs }
    }
}

/// How many ports an element may have on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortCount {
    /// Between two numbers; no upper bound when the second is absent.
    Range(usize, Option<usize>),
    /// As many as inputs (`=`), or that many more (`=+`, `=++`).
    SameAsInputs(usize),
}

impl PortCount {
    fn parse(code: &str) -> Self {
        if let Some(extra) = code.strip_prefix('=') {
            return Self::SameAsInputs(extra.len());
        }
        match code.split_once('-') {
            None => {
                let n = code.parse().unwrap_or(0);
                Self::Range(n, Some(n))
            }
            Some((low, high)) => Self::Range(low.parse().unwrap_or(0), high.parse().ok()),
        }
    }

    /// The minimum and maximum number of ports, given the number of inputs.
    pub fn bounds(self, inputs: usize) -> (usize, Option<usize>) {
        match self {
            Self::Range(low, high) => (low, high),
            Self::SameAsInputs(extra) => (inputs + extra, Some(inputs + extra)),
        }
    }
}

/// How a port passes packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// The upstream element acts.
    Push,
    /// The downstream element acts.
    Pull,
    /// Either, as the graph needs.
    Agnostic,
}

impl std::fmt::Display for PortKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Push => "push",
            Self::Pull => "pull",
            Self::Agnostic => "agnostic",
        })
    }
}

/// A processing code, split into its sides.
#[derive(Clone, Copy, Debug)]
pub struct Processing {
    inputs: &'static str,
    outputs: &'static str,
}

impl Processing {
    /// How input `port` passes packets.
    pub fn input(self, port: usize) -> PortKind {
        Self::letter(self.inputs, port)
    }

    /// How output `port` passes packets.
    pub fn output(self, port: usize) -> PortKind {
        Self::letter(self.outputs, port)
    }

    fn letter(side: &str, port: usize) -> PortKind {
        match nth_or_last(side, port) {
            Some('h') => PortKind::Push,
            Some('l') => PortKind::Pull,
            _ => PortKind::Agnostic,
        }
    }
}

/// A flow code, split into its sides. Ports are connected if both sides share a letter; `#` stands for the
/// port's own number, `[^#]` for all others.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    inputs: &'static str,
    outputs: &'static str,
}

impl Flow {
    /// Returns whether packets that arrive at `input` can leave by `output`.
    pub fn connects(self, input: usize, output: usize) -> bool {
        match (nth_group(self.inputs, input), nth_group(self.outputs, output)) {
            (Some("#"), Some("#")) => input == output,
            (Some("#"), Some("[^#]")) => input != output,
            (Some(a), Some(b)) => {
                let (a, b) = (letters(a), letters(b));
                match (a, b) {
                    ((false, a), (false, b)) => a.chars().any(|letter| b.contains(letter)),
                    ((true, a), (false, b)) => b.chars().any(|letter| !a.contains(letter)),
                    ((false, a), (true, b)) => a.chars().any(|letter| !b.contains(letter)),
                    ((true, _), (true, _)) => true,
                }
            }
            _ => false,
        }
    }
}

/// A group of letters without its brackets, and whether it is negated.
fn letters(group: &str) -> (bool, &str) {
    let inner = group.trim_start_matches('[').trim_end_matches(']');
    match inner.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, inner),
    }
}

fn nth_or_last(side: &str, n: usize) -> Option<char> {
    side.chars().nth(n).or_else(|| side.chars().last())
}

/// The `n`th letter or bracketed group of one side of a flow code, or its last one.
fn nth_group(side: &str, n: usize) -> Option<&str> {
    let mut rest = side;
    let mut last = None;
    for _ in 0..=n {
        let Some(first) = rest.chars().next() else { break };
        let end = match first {
            '[' => rest.find(']').map_or(rest.len(), |at| at + 1),
            _ => first.len_utf8(),
        };
        let (group, after) = rest.split_at(end);
        last = Some(group);
        rest = after;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_counts_follow_clicks_codes() {
        let bounds = |code, inputs| PortCount::parse(code).bounds(inputs);
        assert_eq!(bounds("1", 0), (1, Some(1)));
        assert_eq!(bounds("1-2", 0), (1, Some(2)));
        assert_eq!(bounds("1-", 0), (1, None));
        assert_eq!(bounds("-", 0), (0, None));
        assert_eq!(bounds("=", 3), (3, Some(3)));
        assert_eq!(bounds("=+", 3), (4, Some(4)));
    }

    #[test]
    fn the_last_processing_letter_holds_for_later_ports() {
        let class = Class::new("X", "1/2", "a/ah");
        assert_eq!(class.processing().input(0), PortKind::Agnostic);
        assert_eq!(class.processing().output(0), PortKind::Agnostic);
        assert_eq!(class.processing().output(1), PortKind::Push);
        assert_eq!(class.processing().output(7), PortKind::Push);
    }

    #[test]
    fn flow_codes_connect_shared_letters() {
        let flow = |code| Class::new("X", "-/-", "a/a").flow(code).flow_code();
        assert!(flow("x/x").connects(0, 5));
        assert!(!flow("x/y").connects(0, 0));
        assert!(flow("#/#").connects(2, 2));
        assert!(!flow("#/#").connects(2, 1));
        assert!(flow("#/[^#]").connects(2, 1));
        assert!(!flow("#/[^#]").connects(2, 2));
        assert!(flow("xy/[xy]x").connects(1, 0));
        assert!(!flow("xy/[xy]x").connects(1, 1));
        assert!(flow("xy/[^x]").connects(1, 0));
        assert!(!flow("xy/[^x]").connects(0, 0));
    }
}
