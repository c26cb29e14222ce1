//! What the program provides to elements in addition to the graph: devices, standard output.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use crate::names::DeviceAddresses;

/// A service: the addresses of the network devices, for names in arguments.
pub struct DeviceBook(pub Box<dyn DeviceAddresses + Send + Sync>);

/// Replaces the configuration of the running router.
type Replace = dyn Fn(&str) -> Result<(), String> + Send + Sync;

/// A service: replaces the configuration of the running router with this text. The error describes the
/// problems, line by line.
pub struct HotConfig(pub Box<Replace>);

/// Services by type.
#[derive(Clone, Default)]
pub struct Services {
    map: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Services {
    /// Adds a service; it replaces the one with the same type.
    pub fn insert<T: Any + Send + Sync>(&mut self, service: T) {
        self.map.insert(TypeId::of::<T>(), Arc::new(service));
    }

    /// The service of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.map.get(&TypeId::of::<T>()).cloned().and_then(|service| service.downcast().ok())
    }
}
