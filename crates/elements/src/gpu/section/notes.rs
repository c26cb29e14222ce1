//! Annotations that a section's elements write when packets leave it. No two elements may write the same one, and none
//! should write one that a later element reads.

use std::ops::Range;

use millrace_core::Inspection;
use millrace_gpu::kernel::Kernel;
use millrace_gpu::region::{Base, Extent};
use millrace_lang::Diagnostic;

use super::layout::Layout;
use super::role::StageRole;

/// Reports conflicting writes. `predicate` is the annotation of the predicate word, if there is one.
pub(crate) fn check(
    layout: &Layout,
    stages: &[&StageRole],
    predicate: Option<usize>,
    inspection: &mut Inspection<'_>,
) {
    let noting: Vec<(usize, &StageRole, &Range<usize>)> = layout
        .stages
        .iter()
        .zip(stages)
        .filter_map(|(placed, &role)| Some((placed.element, role, role.notes.as_ref()?)))
        .collect();
    for (at, &(element, role, notes)) in noting.iter().enumerate() {
        let word = predicate.map(|begin| begin..begin + 4).filter(|word| overlap(word, notes));
        if let Some(word) = word {
            let whose = inspection.described(layout.debatcher);
            refuse(element, notes, &format!("‘{whose}’ the predicate word"), &word, inspection);
        }
        for &(other, before, taken) in noting.iter().take(at) {
            let kernels = [before, role].map(|role| role.stage.spec().kernel);
            if overlap(taken, notes) && !take_turns(kernels, taken == notes) {
                refuse(
                    element,
                    notes,
                    &format!("‘{}’", inspection.described(other)),
                    taken,
                    inspection,
                );
            }
        }
    }
    for (place, (placed, role)) in layout.stages.iter().zip(stages).enumerate() {
        let early = layout.ancestors(place).find(|&early| {
            let apart =
                role.only.is_some() || stages.get(early).is_some_and(|early| early.only.is_some());
            let notes = stages.get(early).and_then(|early| early.notes.as_ref());
            !apart && notes.is_some_and(|notes| reads(role).any(|read| overlap(&read, notes)))
        });
        let Some(early) = early.and_then(|early| layout.stages.get(early)) else { continue };
        let message = format!(
            "‘{}’ gets the annotation as it was before ‘{}’, which writes it when packets leave the section",
            inspection.described(placed.element),
            inspection.described(early.element)
        );
        inspection.report(
            Diagnostic::warning(inspection.span_of(placed.element), message)
                .help("where that matters, use two sections"),
        );
    }
}

/// Whether two elements can write overlapping annotations: each writes its results only for packets that came to it.
fn take_turns(kernels: [Kernel; 2], same_place: bool) -> bool {
    let looks_up = |kernel| matches!(kernel, Kernel::Lpm4 | Kernel::Lpm6);
    kernels.into_iter().all(looks_up) || same_place && kernels[0] == kernels[1]
}

fn refuse(
    element: usize,
    notes: &Range<usize>,
    whose: &str,
    taken: &Range<usize>,
    inspection: &mut Inspection<'_>,
) {
    let message = format!(
        "‘{}’ notes its results in annotation bytes {} to {}, and {whose} in {} to {}",
        inspection.described(element),
        notes.start,
        notes.end - 1,
        taken.start,
        taken.end - 1
    );
    inspection.report(
        Diagnostic::error(inspection.span_of(element), message)
            .help("give one of them another place by ANNO"),
    );
}

/// The annotations that a stage reads.
fn reads(role: &StageRole) -> impl Iterator<Item = Range<usize>> {
    let regions = role.stage.spec().regions.into_iter();
    regions.filter(|region| region.base == Base::Annotation).map(|region| {
        let begin = usize::try_from(region.offset).unwrap_or(0);
        match region.extent {
            Extent::Bytes(bytes) => begin..begin + usize::from(bytes),
            Extent::ToEnd => begin..usize::MAX,
        }
    })
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}
