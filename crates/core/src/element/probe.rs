//! What the registration of a class detects by itself.

use std::marker::PhantomData;

use super::{Element, PerPacket};
use crate::engine::Steps;

/// Finds out from the type of an element class whether it processes packets one by one: `Probe::<E>::STEPS`
/// is the constant of this type if the class does, and otherwise that of the trait [`AsABatch`], which must
/// be in scope.
pub struct Probe<E>(PhantomData<E>);

impl<E: PerPacket> Probe<E> {
    /// How packets are processed one by one.
    pub const STEPS: Option<Steps> = Some(Steps::of::<E>());
}

/// The result for every other class.
pub trait AsABatch {
    /// There is none.
    const STEPS: Option<Steps> = None;
}

impl<E: Element> AsABatch for Probe<E> {}
