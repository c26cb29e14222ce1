//! The input of a plan: the stages of a section and the paths between them.

use std::sync::Arc;

use crate::Stage;

/// A stage of a section, and where its packets come from.
pub struct Node {
    /// The stage.
    pub stage: Arc<dyn Stage>,
    /// The outputs of earlier nodes that lead here; empty if all packets of the batch arrive.
    pub from: Vec<Edge>,
    /// Limits processing to packets for which an earlier node chose this output (`CHK_ANNO`). The others pass.
    pub only: Option<Edge>,
}

/// An output of a node: its index in the section, and the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// The node.
    pub node: usize,
    /// Its output; 0 for a stage that does not choose.
    pub output: u32,
}

/// Why a plan is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PlanError {
    /// The index of the node.
    pub node: usize,
    /// The error.
    pub message: String,
}
