//! Tasks that move from thread to thread.

use super::Router;
use crate::plan::PlannedTask;
use crate::schedule::Task;

impl Router {
    /// Has another thread run a task from now on. The move takes place when its present thread comes around; the task
    /// is never on two threads at once.
    ///
    /// # Errors
    /// The plan does not let that thread run it; the error gives the reason.
    pub fn move_task(&self, task: &Task, thread: usize) -> Result<(), String> {
        self.may_move(task, thread)?;
        task.send_to(thread);
        Ok(())
    }

    /// Whether `thread` may run a task: elements have state only on the threads of their thread vectors.
    fn may_move(&self, task: &Task, thread: usize) -> Result<(), String> {
        let plan = &self.plan;
        if thread >= plan.threads {
            return Err(format!(
                "there is no thread {thread}: the threads are 0 to {}",
                plan.threads - 1
            ));
        }
        let same = |one: &&PlannedTask| (one.element, one.index) == (task.element(), task.index());
        let planned = plan.tasks.iter().find(same).ok_or("the task is not part of the plan")?;
        if let Some((device, _)) = &planned.receives {
            return Err(format!(
                "it receives from {device}, whose queues belong to the threads of the plan: use \
                 THREADOFFSET"
            ));
        }
        if self.draft.attendances.iter().any(|one| one.0 == task.element()) {
            return Err("it runs on every thread on which packets arrive".to_owned());
        }
        if task.stays() {
            return Err("other threads wait for it, so it cannot move: use \
                        StaticThreadSched"
                .to_owned());
        }
        if !planned.runs {
            return Err("packets are pushed to the element, so its task does nothing".to_owned());
        }
        match plan.out_of_reach(task.element(), thread) {
            None => Ok(()),
            Some(element) => Err(format!(
                "thread {thread} is not planned to reach ‘{}’: use StaticThreadSched, or let tasks move \
                 with BalancedThreadSched",
                self.name_of(element)
            )),
        }
    }
}
