//! Makes the plan from the nodes of a section.

use std::collections::{BTreeMap, BTreeSet};

use millrace_core::memory::ANNOTATION_LEN;

use super::layout::{Area, layout};
use super::predicate::{ALWAYS, Decision, Field, both, simplified};
use super::{Edge, Limits, Node, Plan, PlanError, StageInfo, Step};
use crate::kernel::{Condition, Launch, MAX_CONDITIONS, MAX_INPUTS, MAX_TABLES, TILE};
use crate::region::union::{Request, range};
use crate::region::{Base, Extent, Region};
use crate::stage::StageSpec;

pub(super) fn plan(nodes: &[Node], limits: Limits, slices: &[Region]) -> Result<Plan, PlanError> {
    let specs: Vec<StageSpec> = nodes.iter().map(|node| node.stage.spec()).collect();
    check(nodes, &specs)?;
    let fields = fields(&specs)?;
    let treated = Ways { nodes, fields: &fields }.conditions()?;
    let mut requests: Vec<Request> = specs
        .iter()
        .enumerate()
        .flat_map(|(stage, spec)| spec.regions.iter().map(move |&region| Request { stage, region }))
        .collect();
    check_writers(nodes, &requests)?;
    for &region in slices {
        check_region(&region).map_err(|message| PlanError {
            node: 0,
            message: format!("{region} cannot be copied: {message}"),
        })?;
        // This request does not come from a stage.
        requests.push(Request { stage: nodes.len(), region });
    }

    if !(1..=Limits::MAX_PACKETS).contains(&limits.packets) {
        let (packets, most) = (limits.packets, Limits::MAX_PACKETS);
        let message = format!("batches of {packets} packets; 1 to {most} are possible");
        return Err(PlanError { node: 0, message });
    }
    let capacity = limits.packets.next_multiple_of(TILE);
    let treats_all: Vec<bool> = treated.iter().map(|conditions| conditions == &[ALWAYS]).collect();
    let has_predicate = fields.iter().any(Option::is_some);
    let layout = layout(nodes, &requests, &treats_all, has_predicate, capacity)?;
    let payload_at = layout.end(capacity).next_multiple_of(16);
    let payload_bytes = payload_bytes(&requests, limits)?;
    let slot_bytes = payload_at.saturating_add(payload_bytes);
    if u32::try_from(slot_bytes).is_err() {
        let message =
            format!("a batch of {capacity} packets takes {slot_bytes} bytes; 4 GiB is the maximum");
        return Err(PlanError { node: 0, message });
    }

    let mut tables = 0;
    let steps = specs.iter().zip(&fields).zip(&treated).zip(&layout.results);
    let steps = steps.map(|(((spec, field), conditions), result)| {
        let mut launch = Launch {
            predicate: layout.predicate.unwrap_or_default(),
            result: *result,
            payload: payload_at as u32,
            table: tables,
            constants: spec.constants,
            field_shift: field.map_or(0, |field| field.shift),
            field_mask: field.map_or(0, Field::mask),
            ..Launch::default()
        };
        tables += u32::from(spec.table);
        layout.columns_of(&spec.regions, &mut launch);
        let conditions = conditions.iter().filter(|&&condition| condition != ALWAYS);
        for (slot, condition) in launch.condition.iter_mut().zip(conditions) {
            *slot = *condition;
            launch.conditions += 1;
        }
        Step { kernel: spec.kernel, launch, has_table: spec.table, field: *field }
    });
    let steps = steps.collect();
    let [input, both, output] = layout.areas;
    Ok(Plan {
        capacity,
        steps,
        stages: nodes.iter().zip(specs).map(|(node, spec)| info(node, spec)).collect(),
        predicate: layout.predicate,
        depth: requests.iter().map(|one| one.region.depth()).max().unwrap_or(Base::Annotation),
        slices: layout.slices,
        valids: layout.valids,
        payloads: layout.payloads,
        input,
        both,
        output,
        payload: Area { at: payload_at as u32, tile: 0 },
        slot_bytes,
        payload_bytes,
    })
}

fn info(node: &Node, spec: StageSpec) -> StageInfo {
    StageInfo {
        name: node.stage.name().to_owned(),
        regions: spec.regions,
        from: node.from.clone(),
        only: node.only,
    }
}

fn payload_bytes(requests: &[Request], limits: Limits) -> Result<usize, PlanError> {
    let Some(first) = requests.iter().find(|one| one.region.extent == Extent::ToEnd) else {
        return Ok(0);
    };
    if limits.payload == 0 {
        let message = "asks for payload, but batches have no room for payload".to_owned();
        return Err(PlanError { node: first.stage, message });
    }
    Ok(limits.payload.saturating_add(15) & !15)
}

/// Checks each node alone.
fn check(nodes: &[Node], specs: &[StageSpec]) -> Result<(), PlanError> {
    let mut tables = 0;
    for (index, (node, spec)) in nodes.iter().zip(specs).enumerate() {
        let refuse = |message: String| Err(PlanError { node: index, message });
        tables += usize::from(spec.table);
        if tables > MAX_TABLES {
            return refuse(format!(
                "is element number {tables} with a table; {MAX_TABLES} is the maximum"
            ));
        }
        if spec.regions.len() > MAX_INPUTS {
            let count = spec.regions.len();
            return refuse(format!("asks for {count} slices; {MAX_INPUTS} is the maximum"));
        }
        if spec.regions.iter().filter(|region| region.extent == Extent::ToEnd).count() > 1 {
            return refuse("asks for more than one slice to the packet's end".to_owned());
        }
        for region in &spec.regions {
            if let Err(message) = check_region(region) {
                return refuse(format!("asks for {region}: {message}"));
            }
        }
        if spec.outputs > Field::MAX_OUTPUTS {
            let (count, most) = (spec.outputs, Field::MAX_OUTPUTS);
            return refuse(format!("decides between {count} outputs; {most} is the maximum"));
        }
        let outputs = |edge: Edge| specs.get(edge.node).map(|spec| spec.outputs);
        for &edge in node.from.iter().chain(&node.only) {
            if edge.node >= index {
                return refuse("comes before an element that leads to it".to_owned());
            }
            if outputs(edge).is_none_or(|outputs| edge.output >= outputs.max(1)) {
                return refuse(format!("comes after output {}, which does not exist", edge.output));
            }
        }
        if node.only.is_some_and(|edge| outputs(edge) == Some(0)) {
            return refuse("depends on an element that decides nothing".to_owned());
        }
    }
    Ok(())
}

fn check_region(region: &Region) -> Result<(), &'static str> {
    if region.extent == Extent::ToEnd && region.access.writes() {
        return Err("a slice to the packet's end cannot be written");
    }
    let bytes = range(region);
    if bytes.as_ref().is_some_and(|bytes| bytes.is_empty()) {
        return Err("a slice must have bytes");
    }
    if region.base == Base::Annotation {
        let within = 0..=ANNOTATION_LEN as i32;
        let fits = |bytes: std::ops::Range<i32>| {
            within.contains(&bytes.start) && within.contains(&bytes.end)
        };
        if !bytes.is_some_and(fits) {
            return Err("annotations have 48 bytes");
        }
    }
    Ok(())
}

/// Assigns the bits of the predicate word.
fn fields(specs: &[StageSpec]) -> Result<Vec<Option<Field>>, PlanError> {
    let mut used = 0;
    let mut fields = Vec::with_capacity(specs.len());
    for (node, spec) in specs.iter().enumerate() {
        if spec.outputs == 0 {
            fields.push(None);
            continue;
        }
        let field = Field::above(used, spec.outputs);
        used += field.bits;
        if used > u32::BITS {
            let message = format!(
                "needs bits {} to {} of the predicate, which has 32",
                field.shift,
                used - 1
            );
            return Err(PlanError { node, message });
        }
        fields.push(Some(field));
    }
    Ok(fields)
}

/// The paths of packets between the nodes.
struct Ways<'a> {
    nodes: &'a [Node],
    fields: &'a [Option<Field>],
}

impl Ways<'_> {
    /// The conditions under which each node processes a row.
    fn conditions(&self) -> Result<Vec<Vec<Condition>>, PlanError> {
        let mut come: Vec<Vec<Condition>> = Vec::with_capacity(self.nodes.len());
        let mut treated = Vec::with_capacity(self.nodes.len());
        for (index, node) in self.nodes.iter().enumerate() {
            let refuse = |message: String| Err(PlanError { node: index, message });
            let comes = self.arriving(node, &come);
            let treats =
                match node.only.and_then(|edge| Some((self.field(edge.node)?, edge.output))) {
                    None => comes.clone(),
                    Some((field, output)) => conjoined(&comes, field.is(Decision::Output(output))),
                };
            if treats.is_empty() {
                return refuse("cannot be reached by any packet".to_owned());
            }
            let most = comes.len().max(treats.len());
            if most > MAX_CONDITIONS {
                return refuse(format!(
                    "processes packets under {most} conditions; {MAX_CONDITIONS} is the maximum"
                ));
            }
            come.push(comes);
            treated.push(treats);
        }
        Ok(treated)
    }

    fn field(&self, node: usize) -> Option<Field> {
        self.fields.get(node).copied().flatten()
    }

    /// The conditions of the rows that arrive at a node, given those at the nodes before it.
    fn arriving(&self, node: &Node, come: &[Vec<Condition>]) -> Vec<Condition> {
        if node.from.is_empty() {
            return vec![ALWAYS];
        }
        let mut outputs: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
        for edge in &node.from {
            outputs.entry(edge.node).or_default().insert(edge.output);
        }
        let mut arriving = Vec::new();
        for (&from, outputs) in &outputs {
            let comes = come.get(from).map(Vec::as_slice).unwrap_or_default();
            let Some(field) = self.field(from) else {
                arriving.extend_from_slice(comes);
                continue;
            };
            // If the field has this value, the stage has processed the row, so its own conditions need not be
            // repeated.
            arriving.extend(field.any_of(outputs));
            let passes_untreated = self.nodes.get(from).is_some_and(|node| node.only.is_some());
            if passes_untreated && outputs.contains(&0) {
                arriving.extend(conjoined(comes, field.is(Decision::Open)));
            }
        }
        simplified(&arriving)
    }
}

fn conjoined(conditions: &[Condition], with: Condition) -> Vec<Condition> {
    let all: Vec<_> = conditions.iter().filter_map(|&condition| both(condition, with)).collect();
    simplified(&all)
}

/// Rejects slices that would not contain the bytes that an earlier stage wrote.
///
/// Stages that use the same bytes from the same base share a column, so they see each other's writes. From different
/// bases, or to the packet's end, they do not.
fn check_writers(nodes: &[Node], requests: &[Request]) -> Result<(), PlanError> {
    let leads = reachable(nodes);
    let leads_to = |from: usize, to: usize| leads.get(from).is_some_and(|all| all.contains(&to));
    let one_way = is_one_way(nodes);
    for (index, writer) in requests.iter().enumerate() {
        if !writer.region.access.writes() {
            continue;
        }
        for (other_index, other) in requests.iter().enumerate() {
            // A pair of writers is found from both sides; the error names the later one.
            let is_later = (other.stage, other_index) > (writer.stage, index);
            if !is_later && (other.stage != writer.stage || other.region.access.writes()) {
                continue;
            }
            if index == other_index || !may_overlap(&writer.region, &other.region) {
                continue;
            }
            let shares =
                writer.region.base == other.region.base && other.region.extent != Extent::ToEnd;
            let is_same = writer.stage == other.stage;
            let is_ordered = leads_to(writer.stage, other.stage);
            let name = nodes.get(writer.stage).map_or("", |node| node.stage.name());
            let region = other.region;
            let message = match (shares, region.access.writes()) {
                (true, true) if is_same || !(is_ordered || one_way) => {
                    format!("writes {region}, as does {name}, in an undefined order")
                }
                (false, true) => {
                    format!("writes {region}, which may overlap bytes that {name} writes")
                }
                (false, false) if is_same || is_ordered || !one_way => {
                    format!("reads {region}, which may overlap bytes that {name} writes")
                }
                _ => continue,
            };
            return Err(PlanError { node: other.stage, message });
        }
    }
    Ok(())
}

/// True if the order of any two stages that a packet passes is fixed: there is one entry, and no output leads to two
/// nodes.
fn is_one_way(nodes: &[Node]) -> bool {
    let mut seen = BTreeSet::new();
    let ways = nodes.iter().flat_map(|node| {
        let edges: BTreeSet<_> =
            node.from.iter().map(|edge| Some((edge.node, edge.output))).collect();
        if edges.is_empty() { BTreeSet::from([None]) } else { edges }
    });
    ways.into_iter().all(|way| seen.insert(way))
}

/// True if two regions can have a byte in common, in any packet.
fn may_overlap(one: &Region, other: &Region) -> bool {
    let Some(distance) = other.base.least_distance(one.base) else {
        return one.base == other.base && overlap_at(one, other, 0);
    };
    if one.base == other.base {
        return overlap_at(one, other, 0);
    }
    if other.base < one.base {
        return may_overlap(other, one);
    }
    // The inner region may be anywhere from its least distance on.
    let end = range(one).map_or(i32::MAX, |bytes| bytes.end);
    i32::from(other.offset) + distance < end
}

fn overlap_at(one: &Region, other: &Region, distance: i32) -> bool {
    let bytes = |region: &Region| range(region).unwrap_or(i32::from(region.offset)..i32::MAX);
    let (one, other) = (bytes(one), bytes(other));
    one.start < other.end.saturating_add(distance) && other.start.saturating_add(distance) < one.end
}

/// For each node, the nodes that packets can reach from it.
fn reachable(nodes: &[Node]) -> Vec<BTreeSet<usize>> {
    let mut reachable = vec![BTreeSet::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate().rev() {
        let mut behind: BTreeSet<usize> = reachable.get(index).cloned().unwrap_or_default();
        behind.insert(index);
        for edge in &node.from {
            if let Some(set) = reachable.get_mut(edge.node) {
                set.extend(&behind);
            }
        }
    }
    reachable
}
