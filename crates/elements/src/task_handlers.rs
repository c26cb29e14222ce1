//! The handlers that all elements with a task have.

use millrace_core::{HandlerError, Handlers, Task};

/// The handlers of elements with a task: `scheduled` and `home_thread`. Writing `home_thread` moves the task to
/// another thread, if the plan allows that thread to run it.
pub(crate) fn task_handlers<E: 'static>(
    handlers: &mut Handlers<E>,
    task: impl Fn(&E) -> &Task + Copy + Send + Sync + 'static,
) {
    handlers.read("scheduled", move |e, _| task(e).is_scheduled());
    handlers.write("scheduled", move |e, call| {
        match call.parse()? {
            true => task(e).schedule(),
            false => task(e).unschedule(),
        }
        Ok(())
    });
    handlers.read("home_thread", move |e, _| task(e).home());
    handlers.write("home_thread", move |e, call| {
        call.router().move_task(task(e), call.parse()?).map_err(HandlerError::Refused)
    });
}
