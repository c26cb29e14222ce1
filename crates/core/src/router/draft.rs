//! What elements ask for while they are configured.

use crate::engine::{Task, Timer};

/// Tasks, timers and wishes of the elements.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) tasks: Vec<DraftTask>,
    pub(crate) timers: Vec<Timer>,
    /// Elements or compounds, and the thread that their tasks and timers shall run on.
    pub(crate) pins: Vec<(String, usize)>,
    /// Elements and what the user may want to know of them.
    pub(crate) advice: Vec<(usize, String)>,
    /// The element that decides what happens on a request to stop.
    pub(crate) driver: Option<usize>,
}

/// A task, and the device queue that it receives from.
#[derive(Debug)]
pub(crate) struct DraftTask {
    pub(crate) task: Task,
    pub(crate) receives: Option<(String, usize)>,
    /// The input that it pulls from; it never runs when packets are pushed there.
    pub(crate) pulls: Option<usize>,
}

impl Draft {
    pub(crate) fn add_task(&mut self, element: usize, receives: Option<(String, usize)>) -> Task {
        let index = self.tasks.iter().filter(|draft| draft.task.element() == element).count();
        let task = Task::new(element, index);
        self.tasks.push(DraftTask { task: task.clone(), receives, pulls: None });
        task
    }

    pub(crate) fn add_pull_task(&mut self, element: usize, input: usize) -> Task {
        let task = self.add_task(element, None);
        if let Some(draft) = self.tasks.last_mut() {
            draft.pulls = Some(input);
        }
        task
    }

    pub(crate) fn add_timer(&mut self, element: usize) -> Timer {
        let index = self.timers.iter().filter(|timer| timer.element() == element).count();
        let timer = Timer::new(element, index);
        self.timers.push(timer.clone());
        timer
    }
}
