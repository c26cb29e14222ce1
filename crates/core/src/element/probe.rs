//! What the registration of a class finds out for itself.

use std::marker::PhantomData;

use super::{Element, PerPacket};
use crate::engine::Steps;

/// Asks of an element class, by its type, whether it treats packets one by one: `Probe::<E>::STEPS`, which is the
/// constant of this type where the class does, and else that of the trait [`AsABatch`], which must be in scope.
pub struct Probe<E>(PhantomData<E>);

impl<E: PerPacket> Probe<E> {
    /// How packets are treated one by one.
    pub const STEPS: Option<Steps> = Some(Steps::of::<E>());
}

/// The answer of every other class.
pub trait AsABatch {
    /// There is no such thing.
    const STEPS: Option<Steps> = None;
}

impl<E: Element> AsABatch for Probe<E> {}
