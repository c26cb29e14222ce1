//! What elements request while they are configured.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use millrace_lang::Diagnostic;

use super::receiving::{Receiver, Receiving, Transmitting};
use crate::needs::Need;
use crate::schedule::{Task, Timer};

/// Tasks, timers and requests of the elements.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) tasks: Vec<DraftTask>,
    /// How many tasks each element has.
    task_counts: HashMap<usize, usize>,
    pub(crate) receivers: Vec<DraftReceiver>,
    pub(crate) teams: Vec<DraftTeam>,
    /// Elements with a task on each thread that reaches them.
    pub(crate) attendances: Vec<(usize, Receiver)>,
    /// Elements that transmit to devices.
    pub(crate) transmitters: Vec<(usize, Transmitting)>,
    pub(crate) timers: Vec<Timer>,
    /// How many timers each element has.
    timer_counts: HashMap<usize, usize>,
    pub(crate) pins: Pins,
    /// Advice that `check` prints.
    pub(crate) advice: Vec<Diagnostic>,
    /// The element that decides what happens on a request to stop.
    pub(crate) driver: Option<usize>,
    /// The seed for random numbers, if the configuration sets one.
    pub(crate) seed: Option<u64>,
    /// Whether any task may move to any thread while the router runs.
    pub(crate) movable: bool,
    /// What elements need while the router runs, beside packets.
    pub(crate) needs: Vec<(usize, Need)>,
    /// State that elements share with one another, one of each type.
    pub(crate) shared: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

/// A task, and its purpose.
#[derive(Debug)]
pub(crate) struct DraftTask {
    pub(crate) task: Task,
    /// The input that it pulls from; it never runs when packets are pushed there.
    pub(crate) pulls: Option<usize>,
    pub(crate) place: Place,
}

/// Where a task belongs if the configuration does not pin it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the first thread.
    First,
    /// On another thread than the element's packets come from.
    Away,
    /// On its thread of several: the plan created it.
    Team,
}

/// An element that works on several threads at once. The plan gives it its tasks.
#[derive(Debug)]
pub(crate) struct DraftTeam {
    pub(crate) element: usize,
    /// The maximum number of threads; no limit by default.
    pub(crate) most: Option<usize>,
    /// The first of the threads.
    pub(crate) offset: Option<usize>,
    pub(crate) receiver: Receiver,
}

/// An element that receives from a device. The plan gives it its tasks.
#[derive(Debug)]
pub(crate) struct DraftReceiver {
    pub(crate) element: usize,
    pub(crate) wish: Receiving,
    pub(crate) receiver: Receiver,
}

impl Draft {
    pub(crate) fn shared<T: Any + Default + Send + Sync>(&mut self) -> Arc<T> {
        let entry = self.shared.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // The entry of a type holds a value of it.
        entry.clone().downcast().unwrap_or_default()
    }

    pub(crate) fn add_task(&mut self, element: usize, place: Place) -> Task {
        let task = Task::new(element, next(&mut self.task_counts, element));
        self.tasks.push(DraftTask { task: task.clone(), pulls: None, place });
        task
    }

    pub(crate) fn add_pull_task(&mut self, element: usize, input: usize) -> Task {
        let task = self.add_task(element, Place::First);
        if let Some(draft) = self.tasks.last_mut() {
            draft.pulls = Some(input);
        }
        task
    }

    pub(crate) fn add_team(
        &mut self,
        element: usize,
        most: Option<usize>,
        offset: Option<usize>,
    ) -> Receiver {
        let receiver = Receiver::default();
        self.teams.push(DraftTeam { element, most, offset, receiver: receiver.clone() });
        receiver
    }

    pub(crate) fn add_attendance(&mut self, element: usize) -> Receiver {
        let receiver = Receiver::default();
        self.attendances.push((element, receiver.clone()));
        receiver
    }

    pub(crate) fn add_receiver(&mut self, element: usize, wish: Receiving) -> Receiver {
        let receiver = Receiver::default();
        self.receivers.push(DraftReceiver { element, wish, receiver: receiver.clone() });
        receiver
    }

    pub(crate) fn add_timer(&mut self, element: usize) -> Timer {
        let timer = Timer::new(element, next(&mut self.timer_counts, element));
        self.timers.push(timer.clone());
        timer
    }
}

/// Counts one more of the element. Returns how many there were.
fn next(counts: &mut HashMap<usize, usize>, element: usize) -> usize {
    let count = counts.entry(element).or_default();
    *count += 1;
    *count - 1
}

/// The threads that the configuration gives to elements or compound elements, for their tasks and timers.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    /// In the order of the configuration; `None` leaves the choice to the plan.
    all: Vec<(String, Option<usize>)>,
    /// The last entry for each name.
    last: HashMap<String, usize>,
}

impl Pins {
    pub(crate) fn add(&mut self, name: &str, thread: Option<usize>) {
        self.last.insert(name.to_owned(), self.all.len());
        self.all.push((name.to_owned(), thread));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(String, Option<usize>)> {
        self.all.iter()
    }

    /// The thread that an element is pinned to: the last entry for the element itself or a compound element around it.
    pub(super) fn thread_of(&self, name: &str) -> Option<usize> {
        let ends = name.match_indices('/').map(|(slash, _)| slash).chain([name.len()]);
        let entries = ends.filter_map(|end| self.last.get(name.get(..end)?));
        self.all.get(*entries.max()?)?.1
    }
}
