//! The table of flows: `crates/elements/src/flows/table`.

#![allow(dead_code, unused_imports, reason = "the scenarios do not use all of it")]

/// Keys of flows: a number each.
pub(crate) mod key {
    use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

    pub(crate) trait TableKey: Copy + Eq + Send + Sync + 'static {
        type Stored: Default + Send + Sync;

        fn mix(self, seed: u64) -> u64;
        fn store(self, stored: &Self::Stored);
        fn load(stored: &Self::Stored) -> Self;
    }

    /// Two words, as the real key: a reader may see one of them from another flow.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct FlowId {
        pub(crate) addresses: u64,
        pub(crate) ports: u32,
    }

    impl FlowId {
        pub(crate) fn reversed(self) -> Self {
            Self { addresses: self.addresses.rotate_left(32), ports: self.ports.rotate_left(16) }
        }
    }

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Key {
        pub(crate) flow: FlowId,
        pub(crate) space: u32,
    }

    impl Key {
        /// The flow with a number, whose words are all different.
        pub(crate) fn numbered(number: u32) -> Self {
            Self { flow: FlowId { addresses: number.into(), ports: number }, space: 0 }
        }
    }

    impl TableKey for Key {
        type Stored = [AtomicU64; 2];

        /// All keys have the same buckets: they meet.
        fn mix(self, _: u64) -> u64 {
            self.flow.addresses << 32
        }

        fn store(self, [addresses, ports]: &Self::Stored) {
            addresses.store(self.flow.addresses, Relaxed);
            ports.store(self.flow.ports.into(), Relaxed);
        }

        fn load([addresses, ports]: &Self::Stored) -> Self {
            let ports = ports.load(Relaxed) as u32;
            Self { flow: FlowId { addresses: addresses.load(Relaxed), ports }, space: 0 }
        }
    }

    pub(crate) fn fold(one: u64, _: u64) -> u64 {
        one
    }
}

#[path = "../../elements/src/flows/table/mod.rs"]
pub(crate) mod table;
