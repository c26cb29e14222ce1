//! The registry through which the GPU elements of a router find one another.

use std::sync::{Arc, OnceLock};

use millrace_core::{Inspection, Lock, Setup};

use super::layout::Layout;
use super::planning;
use super::role::{Role, Roles};
use super::runtime::Runtime;
use super::unit::Unit;
use super::walk;

/// The GPU elements of a router by index, and the sections that they form.
#[derive(Default)]
pub(crate) struct Book {
    roles: Lock<Roles>,
    pub(crate) runtime: Runtime,
    units: OnceLock<Vec<Arc<Unit>>>,
}

impl Book {
    /// Finds the sections of the router, makes their plans and reports errors. Only the first call does this.
    pub(crate) fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.units.get_or_init(|| {
            let roles = self.roles.lock();
            let layouts = walk::sections(&roles, inspection);
            let unit = |layout: Layout| planning::plan(layout, &roles, &self.runtime, inspection);
            layouts.into_iter().filter_map(unit).map(Arc::new).collect()
        });
    }

    /// The sections, once they have been [found](Self::inspect).
    pub(crate) fn units(&self) -> &[Arc<Unit>] {
        self.units.get().map_or(&[], Vec::as_slice)
    }
}

/// An element that is registered in the book.
pub(crate) struct Member {
    pub(crate) book: Arc<Book>,
    element: usize,
    unit: OnceLock<Arc<Unit>>,
}

impl Member {
    /// Registers the element that `setup` belongs to, with its role, in the book of its router.
    pub(crate) fn enter(setup: &mut Setup<'_>, role: Role) -> Self {
        let book: Arc<Book> = setup.shared();
        book.roles.lock().insert(setup.id(), role);
        Self { book, element: setup.id(), unit: OnceLock::new() }
    }

    /// Ensures that the sections are [found](Book::inspect).
    pub(crate) fn inspect(&self, inspection: &mut Inspection<'_>) {
        self.book.inspect(inspection);
    }

    /// The section that the element belongs to, once it has been found; `None` while there are errors.
    #[inline]
    pub(crate) fn unit(&self) -> Option<&Arc<Unit>> {
        if let Some(unit) = self.unit.get() {
            return Some(unit);
        }
        let mut units = self.book.units().iter();
        let found = units.find(|unit| unit.layout.elements().any(|id| id == self.element))?;
        Some(self.unit.get_or_init(|| found.clone()))
    }

    /// Resets the section's counts, for all elements that report them.
    pub(crate) fn reset_counts(&self) {
        if let Some(unit) = self.unit() {
            unit.section.reset_counts();
        }
    }
}
