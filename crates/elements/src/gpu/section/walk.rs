//! Finds the GPU sections of a graph, and reports errors in them.
//!
//! A section is `Batcher -> [Balancer ->] HostToDeviceMemcpy -> GPU elements -> DeviceToHostMemcpy ->
//! [GPUCompletionQueue ->] Debatcher`. The GPU elements may diverge and join again; all packets of each come from the
//! section's own Batcher.

use millrace_core::Inspection;
use millrace_lang::{Diagnostic, Span};

use super::layout::{Layout, Placed};
use super::role::{Role, Roles};

/// The form of a section, for messages.
const SHAPE: &str = "a GPU section is Batcher -> HostToDeviceMemcpy -> GPU elements -> DeviceToHostMemcpy -> \
                     GPUCompletionQueue -> Debatcher";

/// The valid sections of a graph; errors are reported.
pub(crate) fn sections(roles: &Roles, inspection: &mut Inspection<'_>) -> Vec<Layout> {
    let mut sound = true;
    let batchers = roles.iter().filter(|(_, role)| matches!(role, Role::Batcher(_)));
    let mut found: Vec<Layout> = Vec::new();
    let mut walked = Vec::new();
    for (&batcher, _) in batchers {
        let mut walk = Walk { roles, inspection, batcher, seen: Vec::new(), order: Vec::new() };
        let layout = walk.section();
        sound &= layout.is_some();
        walked.extend(walk.seen.iter().map(|step| step.0));
        walked.push(batcher);
        found.extend(layout);
    }
    // Where a section is cut short by an error, the elements after it are in no section for that reason only.
    if sound {
        strays(roles, &walked, &found, inspection);
    }
    found
}

/// Reports elements that belong to no section; of consecutive ones only the first.
fn strays(roles: &Roles, walked: &[usize], found: &[Layout], inspection: &mut Inspection<'_>) {
    let strays: Vec<usize> =
        roles.keys().copied().filter(|element| !walked.contains(element)).collect();
    let before = |element: usize| inspection.coming(element).map(|(_, (from, _), _)| from);
    let is_first = |element: &usize| !before(*element).any(|from| strays.contains(&from));
    let mut first: Vec<usize> = strays.iter().copied().filter(is_first).collect();
    if first.is_empty() {
        // They form a loop.
        first.extend(strays.first());
    }
    for element in first {
        let before: Vec<usize> = inspection.coming(element).map(|(_, (from, _), _)| from).collect();
        let message = format!("‘{}’ is not in a GPU section", inspection.described(element));
        let left = found.iter().find(|layout| before.contains(&layout.debatcher));
        let help = match left {
            Some(layout) => format!(
                "packets leave their section at ‘{}’, before this element; {SHAPE}",
                inspection.described(layout.debatcher)
            ),
            None => format!("{SHAPE}: put a Batcher before it"),
        };
        inspection.report(Diagnostic::error(inspection.span_of(element), message).help(help));
    }
}

/// What is expected at a point of a section.
#[derive(Clone, Copy)]
enum Expected {
    ToDevice,
    Stages,
    Debatcher,
}

impl Expected {
    /// How to correct a section that has an element of this role, or without a role, at this point.
    fn help(self, role: Option<&Role>) -> &'static str {
        match (self, role) {
            (Self::ToDevice, None) => "put it before the Batcher",
            (Self::ToDevice, Some(Role::Batcher(_))) => "a GPU section has one Batcher",
            (Self::ToDevice, Some(Role::Stage(_))) => "put HostToDeviceMemcpy before it",
            (Self::Stages, None) => {
                "it works on the CPU: put it before the Batcher or after the Debatcher"
            }
            (Self::Stages, Some(Role::CompletionQueue(_) | Role::Debatcher(..))) => {
                "put DeviceToHostMemcpy before it"
            }
            (Self::Stages, Some(Role::Balancer(_))) => "put it before HostToDeviceMemcpy",
            (Self::Debatcher, None) => "put a Debatcher before it",
            (Self::Debatcher, Some(Role::ToDevice | Role::Stage(_))) => {
                "several GPU elements may stand between HostToDeviceMemcpy and DeviceToHostMemcpy: \
                 nothing is copied in between"
            }
            _ => SHAPE,
        }
    }
}

/// The walk from one Batcher.
struct Walk<'w, 'i> {
    roles: &'w Roles,
    inspection: &'w mut Inspection<'i>,
    batcher: usize,
    /// Elements that have been reached, and whether the walk is still among their successors.
    seen: Vec<(usize, bool)>,
    /// Stages, each after its successors.
    order: Vec<usize>,
}

impl Walk<'_, '_> {
    fn section(&mut self) -> Option<Layout> {
        let mut layout = Layout { batcher: self.batcher, ..Layout::default() };
        let (mut at, mut way) = self.next(self.batcher)?;
        if let Some(Role::Balancer(_)) = self.roles.get(&at) {
            self.come_to(at, &[self.batcher])?;
            layout.balancer = Some(at);
            (at, way) = self.next(at)?;
        }
        if !matches!(self.roles.get(&at), Some(Role::ToDevice)) {
            let before = self.name(layout.balancer.unwrap_or(self.batcher));
            let why = format!("‘{before}’ must lead to HostToDeviceMemcpy");
            return self.out_of_place(at, way, Expected::ToDevice, &why);
        }
        self.come_to(at, &[layout.balancer.unwrap_or(self.batcher)])?;
        layout.to_device = at;

        let mut ends = Vec::new();
        let (first, way) = self.next(at)?;
        self.stages(first, way, &mut ends)?;
        self.order.reverse();
        if self.order.is_empty() {
            let message =
                format!("the GPU section of ‘{}’ contains no GPU element", self.name(self.batcher));
            let finding = Diagnostic::error(self.inspection.span_of(at), message);
            return self.refuse(
                finding.help("put GPU elements between HostToDeviceMemcpy and DeviceToHostMemcpy"),
            );
        }
        let (to_host, _) = *ends.first()?;
        layout.to_host = to_host;
        let stages = self.order.clone();
        layout.stages = stages.iter().map(|&stage| self.place(stage, at)).collect::<Option<_>>()?;
        self.only_from(to_host, &stages)?;

        let (mut at, mut way) = self.next(to_host)?;
        let mut before = to_host;
        if let Some(Role::CompletionQueue(_)) = self.roles.get(&at) {
            self.come_to(at, &[before])?;
            layout.queue = Some(at);
            before = at;
            (at, way) = self.next(at)?;
        }
        if !matches!(self.roles.get(&at), Some(Role::Debatcher(..))) {
            let before = self.name(before);
            let why = format!("‘{before}’ must lead to Debatcher");
            return self.out_of_place(at, way, Expected::Debatcher, &why);
        }
        self.come_to(at, &[before])?;
        layout.debatcher = at;
        self.name_predicates(&mut layout)?;
        Some(layout)
    }

    /// Walks on from `at`, a stage or whatever was found where a stage is expected, through all its successors up to
    /// the end of the section.
    fn stages(&mut self, at: usize, way: Span, ends: &mut Vec<(usize, Span)>) -> Option<()> {
        match self.roles.get(&at) {
            Some(Role::Stage(_)) => {}
            Some(Role::ToHost) => return self.end(at, way, ends),
            Some(_) if at == self.batcher || self.seen.iter().any(|step| step.0 == at) => {
                return self.looped(at, way);
            }
            _ => {
                let why = "only GPU elements may be between HostToDeviceMemcpy and \
                           DeviceToHostMemcpy";
                return self.out_of_place(at, way, Expected::Stages, why);
            }
        }
        match self.seen.iter().find(|step| step.0 == at) {
            Some((_, false)) => return Some(()),
            Some((_, true)) => return self.looped(at, way),
            None if self.seen.len() > Layout::MOST => {
                let message = format!("more than {} elements in one GPU section", Layout::MOST);
                return self.refuse(Diagnostic::error(self.inspection.span_of(at), message));
            }
            None => self.seen.push((at, true)),
        }
        let mut ways: Vec<_> = self.inspection.leaving(at).collect();
        // Reversed in the end, the order is that of the outputs.
        ways.sort_by_key(|&(output, _, _)| std::cmp::Reverse(output));
        for (_, (next, _), way) in ways {
            self.stages(next, way, ends)?;
        }
        if let Some(step) = self.seen.iter_mut().find(|step| step.0 == at) {
            step.1 = false;
        }
        self.order.push(at);
        Some(())
    }

    /// All branches must end at one DeviceToHostMemcpy.
    fn end(&mut self, at: usize, way: Span, ends: &mut Vec<(usize, Span)>) -> Option<()> {
        match ends.first() {
            None => {
                self.seen.push((at, false));
                ends.push((at, way));
                Some(())
            }
            Some(&(first, _)) if first == at => Some(()),
            // Branches are walked from the last output to the first.
            Some(&(later, way_there)) => {
                let message = format!(
                    "two ends of one GPU section: ‘{}’ and ‘{}’",
                    self.name(at),
                    self.name(later)
                );
                let finding = Diagnostic::error(way_there, message);
                let finding = finding.remark(way, "another path ends here");
                self.refuse(finding.help(
                    "connect all branches to one DeviceToHostMemcpy; a Dispatcher after the \
                     Debatcher separates the packets",
                ))
            }
        }
    }

    /// A stage with the connections that lead to it.
    fn place(&mut self, stage: usize, to_device: usize) -> Option<Placed> {
        let mut allowed = self.order.clone();
        allowed.push(to_device);
        self.only_from(stage, &allowed)?;
        let coming: Vec<_> = self.inspection.coming(stage).collect();
        let mut from = Vec::new();
        for (_, (element, port), _) in coming {
            if let Some(place) = self.order.iter().position(|&other| other == element) {
                from.push((place, port));
            }
        }
        from.sort_unstable();
        let outputs = match self.roles.get(&stage) {
            Some(Role::Stage(role)) => role.stage.spec().outputs,
            _ => 0,
        };
        Some(Placed { element: stage, outputs, from, only: None })
    }

    /// Reports an error if packets come from elements other than `allowed`.
    fn only_from(&mut self, at: usize, allowed: &[usize]) -> Option<()> {
        let stranger = self.inspection.coming(at).find(|(_, (from, _), _)| !allowed.contains(from));
        let Some((_, (from, _), way)) = stranger else { return Some(()) };
        if let Some(other) = self.batcher_before(from) {
            // If two sections share an element, the first one walked reports it.
            if other < self.batcher {
                return None;
            }
            let message = format!(
                "the GPU sections of ‘{}’ and ‘{}’ share ‘{}’",
                self.name(self.batcher),
                self.name(other),
                self.name(at)
            );
            let help = "sections cannot share elements; a Batcher accepts packets from any \
                        number of elements";
            return self.refuse(Diagnostic::error(way, message).help(help));
        }
        let message = format!(
            "packets of ‘{}’ reach ‘{}’ without passing ‘{}’",
            self.name(from),
            self.name(at),
            self.name(self.batcher)
        );
        self.refuse(
            Diagnostic::error(way, message)
                .help("packets may enter a GPU section only through its Batcher"),
        )
    }

    /// Adds an element of the section's frame, whose packets may come only from `allowed`.
    fn come_to(&mut self, at: usize, allowed: &[usize]) -> Option<()> {
        self.seen.push((at, false));
        self.only_from(at, allowed)
    }

    /// Resolves the predicates of CHK_ANNO.
    fn name_predicates(&mut self, layout: &mut Layout) -> Option<()> {
        for place in 0..layout.stages.len() {
            let Some(element) = layout.stages.get(place).map(|placed| placed.element) else {
                continue;
            };
            let Some(Role::Stage(role)) = self.roles.get(&element) else { continue };
            let Some(only) = &role.only else { continue };
            let resolved = only.resolve(element, layout, self.inspection);
            let (before, output) = match resolved {
                Ok(found) => found,
                Err(finding) => return self.refuse(*finding),
            };
            if before >= place || !layout.is_passed(before, place) {
                let message = format!(
                    "‘{}’ has not decided yet when packets reach ‘{}’",
                    only.element,
                    self.name(element)
                );
                return self.refuse(
                    Diagnostic::error(only.span, message)
                        .help("CHK_ANNO names an element that all packets have passed before"),
                );
            }
            if let Some(placed) = layout.stages.get_mut(place) {
                placed.only = Some((before, output));
            }
        }
        Some(())
    }

    /// Another section's Batcher that sends packets to an element inside that section.
    fn batcher_before(&self, element: usize) -> Option<usize> {
        let mut before = vec![element];
        let mut next = 0;
        while let Some(&at) = before.get(next) {
            next += 1;
            match self.roles.get(&at) {
                Some(Role::Batcher(_)) if at != self.batcher => return Some(at),
                None | Some(Role::Batcher(_) | Role::Debatcher(..)) => {}
                Some(_) => {
                    let coming = self.inspection.coming(at).map(|(_, (from, _), _)| from);
                    let new: Vec<_> = coming.filter(|from| !before.contains(from)).collect();
                    before.extend(new);
                }
            }
        }
        None
    }

    fn next(&mut self, at: usize) -> Option<(usize, Span)> {
        // A missing connection has already been reported.
        let (_, (next, _), way) = self.inspection.leaving(at).next()?;
        Some((next, way))
    }

    fn name(&self, element: usize) -> String {
        self.inspection.described(element)
    }

    fn looped<T>(&mut self, at: usize, way: Span) -> Option<T> {
        let message = format!("‘{}’ is in a loop: a GPU section cannot have loops", self.name(at));
        self.refuse(Diagnostic::error(way, message))
    }

    fn out_of_place<T>(
        &mut self,
        at: usize,
        way: Span,
        expected: Expected,
        why: &str,
    ) -> Option<T> {
        let span = self.inspection.span_of(at);
        let message = format!(
            "‘{}’ is in the wrong place in the GPU section of ‘{}’: {why}",
            self.name(at),
            self.name(self.batcher)
        );
        let mut finding = Diagnostic::error(span, message);
        // Omitted if the element is declared in the connection itself.
        if span.is_none_or(|span| span.start != way.start) {
            finding = finding.remark(way, "the section reaches it here");
        }
        self.refuse(finding.help(expected.help(self.roles.get(&at))))
    }

    fn refuse<T>(&mut self, finding: Diagnostic) -> Option<T> {
        self.inspection.report(finding);
        None
    }
}
