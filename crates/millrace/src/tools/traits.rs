//! What the tools have to know of classes besides what the engine knows: the classes that other
//! programs have, and a few marks.

use std::collections::HashSet;

use millrace_core::{Class, Registry};

/// What the tools know of the classes.
pub(super) struct Traits {
    registry: Registry,
    /// Compounds: nobody has looked inside.
    compounds: HashSet<String>,
}

impl Traits {
    pub(super) fn new() -> Self {
        Self { registry: Registry::linked(), compounds: HashSet::new() }
    }

    /// Of a configuration in which these classes, and the one without a name, are compounds.
    pub(super) fn with_compounds(names: impl Iterator<Item = String>) -> Self {
        Self { compounds: names.chain([String::new()]).collect(), ..Self::new() }
    }

    pub(super) fn is_compound(&self, class: &str) -> bool {
        self.compounds.contains(class)
    }

    pub(super) fn class(&self, name: &str) -> Option<&'static Class> {
        self.registry.get(name).map(|info| &info.class)
    }

    /// Whether what enters `input` can leave by `output`. Of a class that nobody knows, everything
    /// can.
    pub(super) fn connects(&self, class: &str, input: usize, output: usize) -> bool {
        match self.class(class) {
            Some(class) => class.flow_code().connects(input, output),
            None => !self.is_compound(class),
        }
    }
}

/// Whether elements of a class want to know how their packets are aligned.
pub(super) fn wants_alignment(class: &str) -> bool {
    matches!(
        class,
        "Classifier" | "CheckIPHeader" | "CheckIPHeader2" | "UDPIPEncap" | "IPInputCombo"
    )
}

/// Whether an element gives packets that it did not get, and whether it takes packets for good,
/// where that is not plain from its ports.
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
