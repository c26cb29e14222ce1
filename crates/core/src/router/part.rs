//! What a router asks of its elements.

use std::any::Any;
use std::sync::Arc;

use crate::capability::Offers;
use crate::schedule::Notifier;

/// An element of any class.
pub(crate) trait Part: Any + Send + Sync {
    fn offer(self: Arc<Self>, offers: &mut Offers<'_>);
    fn notifier(&self, port: usize) -> Option<&Notifier>;
    fn room_notifier(&self, port: usize) -> Option<&Notifier>;
    fn shows(&self) -> bool;
    fn held(&self) -> usize;
}
