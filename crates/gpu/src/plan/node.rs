//! What a plan is made of: the stages of a section and the ways between them.

use std::sync::Arc;

use crate::Stage;

/// A stage's place in a section, and where its packets come from.
pub struct Node {
    /// The stage.
    pub stage: Arc<dyn Stage>,
    /// The outputs of earlier nodes that lead here; empty when all packets of the batch come.
    pub from: Vec<Edge>,
    /// Which of the packets that come are treated (`CHK_ANNO`): those for which an earlier node decided for this output.
    /// The others pass.
    pub only: Option<Edge>,
}

/// An output of a node: its index in the section, and the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// The node.
    pub node: usize,
    /// Its output; 0 of a stage that decides nothing.
    pub output: u32,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PlanError {
    /// The node that it is about.
    pub node: usize,
    /// What is wrong with it.
    pub message: String,
}
