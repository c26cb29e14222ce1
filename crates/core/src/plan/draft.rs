//! What elements request while they are configured.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use millrace_lang::Diagnostic;

use super::receiving::{Receiver, Receiving, Transmitting};
use crate::schedule::{Task, Timer};

/// Tasks, timers and requests of the elements.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) tasks: Vec<DraftTask>,
    pub(crate) receivers: Vec<DraftReceiver>,
    pub(crate) teams: Vec<DraftTeam>,
    /// Elements with a task on each thread that reaches them.
    pub(crate) attendances: Vec<(usize, Receiver)>,
    /// Elements that transmit to devices.
    pub(crate) transmitters: Vec<(usize, Transmitting)>,
    pub(crate) timers: Vec<Timer>,
    /// Elements or compound elements, and the thread for their tasks and timers; `None` leaves the choice to
    /// the plan.
    pub(crate) pins: Vec<(String, Option<usize>)>,
    /// Advice that `check` prints.
    pub(crate) advice: Vec<Diagnostic>,
    /// The element that decides what happens on a request to stop.
    pub(crate) driver: Option<usize>,
    /// The seed for random numbers, if the configuration sets one.
    pub(crate) seed: Option<u64>,
    /// Whether any task may move to any thread while the router runs.
    pub(crate) movable: bool,
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
        let index = self.tasks.iter().filter(|draft| draft.task.element() == element).count();
        let task = Task::new(element, index);
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
        let index = self.timers.iter().filter(|timer| timer.element() == element).count();
        let timer = Timer::new(element, index);
        self.timers.push(timer.clone());
        timer
    }
}
