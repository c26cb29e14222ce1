//! The scope of a configuration string: where its names are looked up.

use std::cell::RefCell;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock};

use crate::capability::{Capability, Offers};
use crate::names::{Addresses, DeviceAddresses, NameTable, NumberKind, enclosing};
use crate::needs::Need;
use crate::net::{EtherAddress, Ipv4Prefix, Ipv6Prefix};

/// The scope of an element, in which the names in its arguments are looked up.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    element: &'a str,
    names: &'a NameTable,
    /// Names that are being defined in the element's own compound element.
    fresh: Option<&'a NameTable>,
    elements: &'a dyn ElementLookup,
    devices: Option<&'a dyn DeviceAddresses>,
    /// Collects what the handlers need that arguments call.
    called: Option<&'a RefCell<Vec<Need>>>,
}

/// Finds elements of a configuration by name. Any `Fn(&str) -> Option<usize>` implements it.
pub trait ElementLookup {
    /// The index of the element with this full name.
    fn find(&self, name: &str) -> Option<usize>;

    /// The full names of all elements, to suggest the one that was meant.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether an element or compound element has this full name.
    fn has_group(&self, name: &str) -> bool {
        self.names().iter().any(|element| {
            let rest = element.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Asks the element with this index for what it [offers](crate::Element::capabilities), if there is an element yet.
    fn offer(&self, _id: usize, _offers: &mut Offers<'_>) {}
}

impl<F: Fn(&str) -> Option<usize>> ElementLookup for F {
    fn find(&self, name: &str) -> Option<usize> {
        self(name)
    }
}

impl<'a> Scope<'a> {
    /// The scope of the element with the full name `element` (`outer/inner` inside compound elements).
    pub fn new(element: &'a str, names: &'a NameTable, elements: &'a dyn ElementLookup) -> Self {
        Self { element, names, fresh: None, elements, devices: None, called: None }
    }

    /// A scope at the top level of a configuration that has names but no elements.
    pub fn bare(names: &'a NameTable) -> Self {
        Self::new("", names, &NoElements)
    }

    /// A scope without a configuration: only built-in names have a meaning.
    pub fn builtin() -> Self {
        static NAMES: LazyLock<NameTable> = LazyLock::new(NameTable::new);
        Self::bare(&NAMES)
    }

    /// This scope, with names of network devices standing for the addresses of the devices.
    #[must_use]
    pub fn with_devices(self, devices: &'a dyn DeviceAddresses) -> Self {
        Self { devices: Some(devices), ..self }
    }

    /// This scope, with a place for what the handlers need that arguments call.
    #[must_use]
    pub(crate) fn with_called(self, called: &'a RefCell<Vec<Need>>) -> Self {
        Self { called: Some(called), ..self }
    }

    /// An argument calls a handler, which needs this.
    pub(crate) fn calls(&self, need: Option<Need>) {
        if let Some(called) = self.called {
            called.borrow_mut().extend(need);
        }
    }

    /// This scope, with names of `fresh` hiding others.
    #[must_use]
    pub(crate) fn with_fresh(self, fresh: &'a NameTable) -> Self {
        Self { fresh: Some(fresh), ..self }
    }

    /// The full name of the element.
    pub fn element(&self) -> &'a str {
        self.element
    }

    /// The compound elements around the element, with a slash at the end: `outer/`, or empty.
    pub fn prefix(&self) -> &'a str {
        let end = self.element.rfind('/').map_or(0, |slash| slash + 1);
        self.element.get(..end).unwrap_or_default()
    }

    /// The prefixes in which a name is looked up: from the innermost compound element to the empty prefix.
    pub fn prefixes(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        enclosing(self.prefix())
    }

    /// The address that a name stands for, of the kind that `pick` selects.
    pub(crate) fn address<T>(
        &self,
        name: &str,
        pick: impl Fn(&Addresses) -> Option<T>,
    ) -> Option<T> {
        let fresh = self.fresh.and_then(|fresh| fresh.address(self.prefix(), name, &pick));
        fresh.or_else(|| self.names.address(self.prefix(), name, &pick))
    }

    /// The number that a name stands for.
    pub fn number_named(&self, kind: NumberKind, name: &str) -> Option<u32> {
        self.names.number(kind, self.prefix(), name)
    }

    /// The source of the addresses of network devices.
    pub fn devices(&self) -> Option<&'a dyn DeviceAddresses> {
        self.devices
    }

    /// What element `id` offers as a `T`. While elements are configured, only those of earlier
    /// [phases](crate::Class::phase) offer anything.
    pub fn offered<T: Capability + ?Sized>(&self, id: usize) -> Option<Arc<T>> {
        Offers::find(|offers| self.elements.offer(id, offers))
    }

    /// The element that a name means here: the nearest one, from inside out.
    pub fn find_element(&self, name: &str) -> Option<usize> {
        self.prefixes().find_map(|prefix| self.elements.find(&format!("{prefix}{name}")))
    }

    /// The full name of the element or compound element that a name means here: the nearest one, from inside
    /// out.
    pub fn find_group(&self, name: &str) -> Option<String> {
        let mut full = self.prefixes().map(|prefix| format!("{prefix}{name}"));
        full.find(|full| self.elements.has_group(full))
    }

    /// The names of elements as they may be written here.
    pub(super) fn element_names(&self) -> Vec<String> {
        let visible = |full: String| {
            let inside = self.prefixes().find_map(|prefix| full.strip_prefix(prefix));
            inside.map(str::to_owned).unwrap_or_default()
        };
        self.elements.names().into_iter().map(visible).collect()
    }
}

/// The meaning of names of addresses. Does not handle texts that are addresses themselves.
impl Scope<'_> {
    /// The Ethernet address that `NAME` or `NAME:eth` stands for.
    pub fn ether_named(&self, text: &str) -> Option<EtherAddress> {
        let name = strip_suffix(text, &["eth", "ether", "ethernet"])?;
        let defined = self.address(name, |a| a.ether);
        defined.or_else(|| self.devices()?.ether(name))
    }

    /// The IPv4 address that `NAME`, `NAME:ip`, `NAME:bcast` or `NAME:gw` stands for.
    pub fn ipv4_named(&self, text: &str) -> Option<Ipv4Addr> {
        if let Some(name) = strip_suffix(text, &["ip", "ip4"]) {
            let defined = self.address(name, |a| a.ipv4);
            return defined.or_else(|| Some(self.devices()?.ipv4(name)?.address()));
        }
        let (name, suffix) = text.rsplit_once(':')?;
        if suffix.eq_ignore_ascii_case("bcast") {
            return self.ipv4_prefix_named(name).map(Ipv4Prefix::broadcast);
        }
        if !suffix.eq_ignore_ascii_case("gw") {
            return None;
        }
        // A gateway that nobody names is the first address of the network.
        let first = |net: Ipv4Prefix| Ipv4Addr::from_bits(net.network().to_bits() | 1);
        let defined = self.address(text, |a| a.ipv4);
        defined
            .or_else(|| self.address(name, |a| a.ipv4_prefix).map(first))
            .or_else(|| self.devices()?.gateway(name))
            .or_else(|| self.devices()?.ipv4(name).map(first))
    }

    /// The IPv4 network that `NAME` or `NAME:ipnet` stands for.
    pub fn ipv4_prefix_named(&self, text: &str) -> Option<Ipv4Prefix> {
        let name = strip_suffix(text, &["net", "ipnet", "ip4net"])?;
        let defined = self.address(name, |a| a.ipv4_prefix);
        defined.or_else(|| self.devices()?.ipv4(name))
    }

    /// The IPv6 address that `NAME` or `NAME:ip6` stands for.
    pub fn ipv6_named(&self, text: &str) -> Option<Ipv6Addr> {
        let name = strip_suffix(text, &["ip6"])?;
        let defined = self.address(name, |a| a.ipv6);
        defined.or_else(|| Some(self.devices()?.ipv6(name)?.address()))
    }

    /// The IPv6 network that `NAME` or `NAME:ip6net` stands for.
    pub fn ipv6_prefix_named(&self, text: &str) -> Option<Ipv6Prefix> {
        let name = strip_suffix(text, &["ip6net"])?;
        let defined = self.address(name, |a| a.ipv6_prefix);
        defined.or_else(|| self.devices()?.ipv6(name))
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("element", &self.element).finish_non_exhaustive()
    }
}

/// The name before the suffix, `None` when there is a suffix that is not in the list (in any case).
fn strip_suffix<'t>(text: &'t str, suffixes: &[&str]) -> Option<&'t str> {
    match text.rsplit_once(':') {
        None => Some(text),
        Some((name, suffix)) => {
            suffixes.iter().any(|known| known.eq_ignore_ascii_case(suffix)).then_some(name)
        }
    }
}

struct NoElements;

impl ElementLookup for NoElements {
    fn find(&self, _: &str) -> Option<usize> {
        None
    }
}
