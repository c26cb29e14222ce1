//! From a section's layout and the roles of its elements to a unit that runs.

use std::sync::Arc;

use millrace_core::{Inspection, PerThread};
use millrace_gpu::plan::{Edge, Limits, Node, Plan, PlanError};
use millrace_gpu::section::{Lanes, Mode, Section, Settings};
use millrace_lang::Diagnostic;

use super::layout::{Layout, Placed};
use super::news::News;
use super::notes;
use super::role::{Balancing, Collecting, Role, Roles, StageRole};
use super::runtime::Runtime;
use super::unit::{Turn, Unit};

/// Makes the plan of a section; reports what cannot be planned.
pub(crate) fn plan(
    layout: Layout,
    roles: &Roles,
    runtime: &Runtime,
    inspection: &mut Inspection<'_>,
) -> Option<Unit> {
    let stage = |place: &Placed| match roles.get(&place.element) {
        Some(Role::Stage(role)) => Some(role),
        _ => None,
    };
    let stages: Vec<&StageRole> = layout.stages.iter().map(stage).collect::<Option<_>>()?;
    let Some(Role::Batcher(collecting)) = roles.get(&layout.batcher) else { return None };
    let Some(Role::Debatcher(tasks, annotation)) = roles.get(&layout.debatcher) else {
        return None;
    };
    let nodes = layout.stages.iter().zip(&stages).map(|(placed, role)| Node {
        stage: role.stage.clone(),
        from: placed.from.iter().flat_map(|&(node, port)| edges(&stages, node, port)).collect(),
        only: placed.only.map(|(node, output)| Edge { node, output }),
    });
    let nodes: Vec<Node> = nodes.collect();
    let limits = Limits { packets: collecting.capacity, payload: collecting.bytes };
    let plan = match Plan::with_slices(&nodes, limits, &collecting.slices) {
        Ok(plan) => Arc::new(plan),
        Err(PlanError { node, message }) => {
            let element = layout.stages.get(node).map_or(layout.batcher, |placed| placed.element);
            let message = format!("‘{}’: {message}", inspection.described(element));
            inspection.report(Diagnostic::error(inspection.span_of(element), message));
            return None;
        }
    };
    let turns = stages.iter().enumerate().map(|(node, role)| Turn {
        field: plan.steps.get(node).and_then(|step| step.field),
        ports: role.ports,
        reason: role.reason,
    });
    let turns: Vec<Turn> = turns.collect();
    let annotation = turns.iter().any(|turn| turn.field.is_some()).then_some(*annotation);
    notes::check(&layout, &stages, annotation, inspection);
    let settings = settings(collecting, &layout, roles, runtime, inspection);
    let stages = stages.iter().map(|role| role.stage.clone()).collect();
    Some(Unit {
        section: Section::new(plan, stages, Some(runtime.source()), settings),
        lanes: Lanes::default(),
        news: News::default(),
        tasks: tasks.clone(),
        annotation,
        turns,
        passages: PerThread::default(),
        layout,
    })
}

/// The edges that a port of a stage's element stands for: with one port, all outputs leave by it.
fn edges(stages: &[&StageRole], node: usize, port: usize) -> Vec<Edge> {
    let outputs = stages.get(node).map_or(0, |role| role.stage.spec().outputs);
    match stages.get(node).is_some_and(|role| role.ports == 1) {
        true if outputs > 0 => (0..outputs).map(|output| Edge { node, output }).collect(),
        _ => vec![Edge { node, output: port as u32 }],
    }
}

/// The section's sizes and times.
fn settings(
    collecting: &Collecting,
    layout: &Layout,
    roles: &Roles,
    runtime: &Runtime,
    inspection: &Inspection<'_>,
) -> Settings {
    let slots = collecting.slots.unwrap_or(runtime.streams());
    let length = match layout.queue.and_then(|queue| roles.get(&queue)) {
        Some(Role::CompletionQueue(Some(length))) => *length,
        _ => 2 * slots,
    };
    let inline = inspection.clock().is_virtual();
    let default = Settings::default();
    let (mode, interval, probe) = match layout.balancer.and_then(|balancer| roles.get(&balancer)) {
        // Measurements use real time, so no two runs would be the same.
        Some(Role::Balancer(Balancing { mode: Mode::Adaptive, interval, probe })) if inline => {
            (Mode::Gpu, *interval, *probe)
        }
        Some(Role::Balancer(Balancing { mode, interval, probe })) => (*mode, *interval, *probe),
        _ => (Mode::Gpu, default.interval, default.probe),
    };
    Settings {
        packets: collecting.capacity,
        timeout: collecting.timeout,
        slots,
        length,
        bytes: collecting.bytes.saturating_mul(length + 1),
        patience: runtime.patience(),
        mode,
        interval,
        probe,
        inline,
    }
}
