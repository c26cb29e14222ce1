//! Facts about classes that the tools need and the engine does not: classes of other programs, and some properties.

use std::collections::HashSet;

use millrace_core::{Class, Registry};

/// What the tools know about classes.
pub(super) struct Traits {
    registry: Registry,
    /// Compounds, whose contents are not examined.
    compounds: HashSet<String>,
}

impl Traits {
    pub(super) fn new() -> Self {
        Self { registry: Registry::linked(), compounds: HashSet::new() }
    }

    /// For a configuration in which these classes, and the anonymous one, are compounds.
    pub(super) fn with_compounds(names: impl Iterator<Item = String>) -> Self {
        Self { compounds: names.chain([String::new()]).collect(), ..Self::new() }
    }

    pub(super) fn is_compound(&self, class: &str) -> bool {
        self.compounds.contains(class)
    }

    pub(super) fn class(&self, name: &str) -> Option<&'static Class> {
        self.registry.get(name).map(|info| &info.class)
    }

    /// True if packets that enter `input` can leave by `output`. For an unknown class, true for all ports.
    pub(super) fn connects(&self, class: &str, input: usize, output: usize) -> bool {
        match self.class(class) {
            Some(class) => class.flow_code().connects(input, output),
            None => !self.is_compound(class),
        }
    }
}

/// True if elements of a class need to know the alignment of their packets.
pub(super) fn wants_alignment(class: &str) -> bool {
    matches!(
        class,
        "Classifier" | "CheckIPHeader" | "CheckIPHeader2" | "UDPIPEncap" | "IPInputCombo"
    )
}

/// Whether an element is a source of packets, and whether it is a sink, if that does not follow from its ports.
pub(super) fn source_and_sink(class: &str) -> Option<(bool, bool)> {
    match class {
        "Idle" => Some((false, false)),
        "FromDevice" | "ToDevice" | "PollDevice" | "FromHost" | "ToHost" | "KernelTap"
        | "KernelTun" | "Socket" | "RawSocket" | "RouterLink" | "FromDPDKDevice"
        | "ToDPDKDevice" | "FromNetmapDevice" | "ToNetmapDevice" => Some((true, true)),
        "ToDump" | "ToIPSummaryDump" | "ToIPFlowDumps" => Some((false, true)),
        _ => None,
    }
}
