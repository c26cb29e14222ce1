//! What the engine runs.

use super::context::Context;
use crate::memory::Batch;

/// One thread's instance of an element: the shared part and the thread's state.
pub(crate) trait Node: Send {
    fn push(&mut self, cx: &mut Context, port: usize, batch: &mut Batch);
    fn pull(&mut self, cx: &mut Context, port: usize, max: usize, batch: &mut Batch);
    fn run_task(&mut self, cx: &mut Context) -> bool;
    fn run_timer(&mut self, cx: &mut Context);
    fn stop_requested(&mut self, cx: &mut Context) -> bool;
    fn drain(&mut self, cx: &mut Context) -> bool;
    fn handed_over(&self, thread: usize, rings: &mut Vec<(u64, u64)>);
    /// For an element that processes packets one by one: the addresses of the element and of the thread's
    /// state for it.
    fn parts(&mut self) -> Option<(*const (), *mut ())>;
}

/// Makes instances of elements, by their number.
pub(crate) trait Nodes: Send + Sync {
    fn node(&self, element: usize) -> Option<Box<dyn Node>>;
}
