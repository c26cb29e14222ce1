//! The GPU elements of a router, as they find one another.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use millrace_core::element::Receiver;
use millrace_core::{Inspection, Lock, Reason, Setup};
use millrace_gpu::Stage;

use super::batcher::Collecting;
use super::predicate::Predicate;
use super::runtime::Runtime;
use super::unit::{Layout, Unit};
use super::{unit, walk};

/// What an element is to its section.
pub(super) enum Role {
    /// Where packets go in.
    Batcher(Collecting),
    /// What chooses between device and CPU.
    Balancer(super::balancer::Choice),
    /// The beginning of what is done on the device.
    ToDevice,
    /// Something done on the device.
    Stage(StageRole),
    /// The end of what is done on the device.
    ToHost,
    /// What keeps batches in order, and how many of them.
    CompletionQueue(Option<usize>),
    /// Where packets come out: its tasks, and the annotation for predicates.
    Debatcher(Receiver, usize),
}

/// A [`Stage`] among the elements.
pub(super) struct StageRole {
    pub(super) stage: Arc<dyn Stage>,
    /// The packets that it treats, of those that come (CHK_ANNO).
    pub(super) only: Option<Predicate>,
    /// How many outputs its element has.
    pub(super) ports: usize,
    /// Why packets are dropped that it decides to drop.
    pub(super) reason: Reason,
    /// Bytes of the annotations that it writes when packets leave the section.
    pub(super) notes: Option<Range<usize>>,
}

/// The roles of a router's elements by index.
pub(super) type Roles = BTreeMap<usize, Role>;

/// The GPU elements of a router by index, and the sections that they make.
#[derive(Default)]
pub(super) struct Book {
    roles: Lock<Roles>,
    pub(super) runtime: Runtime,
    units: OnceLock<Vec<Arc<Unit>>>,
}

impl Book {
    /// That of the router which `setup` belongs to, with the element's role in it.
    pub(super) fn enter(setup: &mut Setup<'_>, role: Role) -> Arc<Self> {
        let book: Arc<Self> = setup.shared();
        book.roles.lock().insert(setup.id(), role);
        book
    }

    /// Finds the sections of the router and makes their plans, for whichever element asks first, and reports
    /// what is wrong.
    pub(super) fn inspect(&self, inspection: &mut Inspection<'_>) -> &[Arc<Unit>] {
        self.units.get_or_init(|| {
            let roles = self.roles.lock();
            let layouts = walk::sections(&roles, inspection);
            let unit = |layout: Layout| unit::plan(layout, &roles, &self.runtime, inspection);
            layouts.into_iter().filter_map(unit).map(Arc::new).collect()
        })
    }

    /// The sections, once they have been [found](Self::inspect).
    pub(super) fn units(&self) -> &[Arc<Unit>] {
        self.units.get().map_or(&[], Vec::as_slice)
    }

    /// The section that an element belongs to.
    pub(super) fn unit_of(&self, element: usize) -> Option<&Arc<Unit>> {
        self.units().iter().find(|unit| unit.layout.elements().any(|id| id == element))
    }

    /// Looks at all roles.
    pub(super) fn with_roles<R>(&self, look: impl FnOnce(&Roles) -> R) -> R {
        look(&self.roles.lock())
    }
}
