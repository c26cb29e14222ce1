//! Rigs for the tests of elements that use a device.

use millrace_core::Registry;
use millrace_core::services::Services;
use millrace_core::testing::Rig;
use millrace_io::Devices;
use millrace_io::memory::{End, Interface, Network};

/// A rig whose element finds a device in memory with this name; and the far end.
pub(crate) fn rig(device: &str, element: &str, inputs: usize, outputs: usize) -> (Rig, End) {
    rig_towards(Interface::new("host"), device, element, inputs, outputs)
}

/// The same, with a far end that has this name and this much room.
pub(crate) fn rig_towards(
    host: Interface,
    device: &str,
    element: &str,
    inputs: usize,
    outputs: usize,
) -> (Rig, End) {
    let network = Network::default();
    let far = network.connect(Interface::new(device), host);
    let mut services = Services::default();
    services.insert(Devices(Box::new(network)));
    (Rig::with(Registry::linked(), element, inputs, outputs, services).unwrap(), far)
}

/// Elements of a class are refused with each of these arguments, for a reason that contains these words.
pub(crate) fn refuses(class: &str, inputs: usize, outputs: usize, cases: &[(&str, &str)]) {
    for (bad, problem) in cases {
        let refused = Rig::new(&format!("{class}({bad})"), inputs, outputs).err();
        let said = format!("{refused:?}");
        assert!(said.contains(problem), "{bad}: {said}");
    }
}
