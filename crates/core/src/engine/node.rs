//! What the engine runs.

use super::context::Context;
use crate::memory::Batch;

/// One thread's instance of an element: the shared part and what the thread keeps.
pub(crate) trait Node: Send {
    fn push(&mut self, cx: &mut Context, port: usize, batch: &mut Batch);
    fn pull(&mut self, cx: &mut Context, port: usize, max: usize, batch: &mut Batch);
    fn run_task(&mut self, cx: &mut Context) -> bool;
    fn run_timer(&mut self, cx: &mut Context);
    fn stop_requested(&mut self, cx: &mut Context) -> bool;
    fn drain(&mut self, cx: &mut Context) -> bool;
    fn handed_over(&self, thread: usize, rings: &mut Vec<(u64, u64)>);
    /// For an element that treats packets one by one: where it is, and where what the thread keeps for it.
    fn parts(&mut self) -> Option<(*const (), *mut ())>;
}

/// Makes instances of elements, by their number.
pub(crate) trait Nodes: Send + Sync {
    fn node(&self, element: usize) -> Option<Box<dyn Node>>;
}
