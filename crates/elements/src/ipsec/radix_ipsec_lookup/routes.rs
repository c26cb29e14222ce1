//! The routes of RadixIPsecLookup; some of them are tunnels.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;

use millrace_core::Arg;
use millrace_core::args::{ArgText, Ipv4Network, Scope};
use millrace_core::net::Ipv4Prefix;

use crate::ipsec::esp::association::{Association, KEY_LEN};

/// A route.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) prefix: Ipv4Prefix,
    /// The next hop; unspecified if there is none.
    pub(super) gateway: Ipv4Addr,
    pub(super) port: usize,
    /// The security association, if the route is a tunnel.
    pub(super) association: Option<Arc<Association>>,
}

/// Routes in Click's order: a new route takes the place of the most recently removed one.
#[derive(Clone, Default)]
pub(super) struct Routes {
    places: Vec<Option<Route>>,
    free: Vec<usize>,
}

/// A change of the routes.
pub(super) enum Change {
    Add(Route),
    Set(Route),
    Remove(Ipv4Prefix),
}

impl Routes {
    /// The route with the longest prefix that contains an address.
    pub(super) fn find(&self, address: Ipv4Addr) -> Option<&Route> {
        let covering = self.all().filter(|route| route.prefix.contains(address));
        covering.max_by_key(|route| u32::from(route.prefix.mask()))
    }

    /// The association with this index.
    pub(super) fn association(&self, spi: u32) -> Option<&Arc<Association>> {
        let mut all = self.all().filter_map(|route| route.association.as_ref());
        all.find(|association| association.spi == spi)
    }

    /// Applies a change.
    ///
    /// # Errors
    /// The change conflicts with the existing routes.
    pub(super) fn apply(&mut self, change: Change) -> Result<(), String> {
        match change {
            Change::Add(route) => match self.of(route.prefix) {
                Some(Some(old)) => Err(format!("conflict with existing route ‘{}’", old.words())),
                _ => {
                    self.insert(route);
                    Ok(())
                }
            },
            Change::Set(route) => {
                match self.of(route.prefix) {
                    Some(place) => *place = Some(route),
                    None => self.insert(route),
                }
                Ok(())
            }
            Change::Remove(prefix) => {
                let is_it = |place: &Option<Route>| {
                    place.as_ref().is_some_and(|route| route.prefix == prefix)
                };
                let at = self.places.iter().position(is_it);
                let at = at.ok_or_else(|| format!("route ‘{prefix} - -1’ not found"))?;
                if let Some(place) = self.places.get_mut(at) {
                    *place = None;
                }
                self.free.push(at);
                Ok(())
            }
        }
    }

    /// Replaces each association by the same one of `old`, so that sequences go on and packets on their way keep
    /// theirs. Routes with the same association share it.
    pub(super) fn go_on_from(&mut self, old: &Self) {
        let mut known: Vec<Arc<Association>> = Vec::new();
        for association in self.places.iter_mut().flatten().filter_map(|r| r.association.as_mut()) {
            if let Some(same) = known.iter().find(|known| known.is_same(association)) {
                *association = same.clone();
                continue;
            }
            let mut before = old.all().filter_map(|route| route.association.as_ref());
            if let Some(before) = before.find(|before| before.is_same(association)) {
                if !Arc::ptr_eq(before, association) {
                    before.adopt(association);
                }
                *association = before.clone();
            }
            known.push(association.clone());
        }
    }

    /// The text of the handler `table`.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        self.all().for_each(|route| route.write_row(&mut text));
        text
    }

    fn all(&self) -> impl Iterator<Item = &Route> {
        self.places.iter().flatten()
    }

    fn of(&mut self, prefix: Ipv4Prefix) -> Option<&mut Option<Route>> {
        let is_it =
            |place: &&mut Option<Route>| place.as_ref().is_some_and(|route| route.prefix == prefix);
        self.places.iter_mut().find(is_it)
    }

    fn insert(&mut self, route: Route) {
        let at = self.free.pop().unwrap_or(self.places.len());
        match self.places.get_mut(at) {
            Some(place) => *place = Some(route),
            None => self.places.push(Some(route)),
        }
    }
}

impl Route {
    /// Reads `ADDR/MASK [GATEWAY] OUTPUT [SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE]`. Returns `None` if the syntax is
    /// wrong or the element has no such output.
    pub(super) fn read(text: &ArgText, scope: &Scope<'_>, outputs: usize) -> Option<Self> {
        let words = text.words();
        let (network, rest) = words.split_first()?;
        let Ipv4Network(prefix) = Ipv4Network::parse(network, scope).ok()?;
        let (first, behind) = rest.split_first()?;
        let (gateway, rest) = match first.as_str() {
            "-" => (Ipv4Addr::UNSPECIFIED, behind),
            _ => match Ipv4Addr::parse(first, scope) {
                Ok(gateway) => (gateway, behind),
                Err(_) => (Ipv4Addr::UNSPECIFIED, rest),
            },
        };
        let (port, tunnel) = rest.split_first()?;
        let port = usize::parse(port, scope).ok().filter(|port| *port < outputs)?;
        let association = match tunnel {
            [] => None,
            [spi, encryption_key, authentication_key, start, window] => {
                let spi = u32::parse(spi, scope).ok()?;
                let start = u32::parse(start, scope).ok()?;
                let window = u8::parse(window, scope).ok()?;
                let keys = (key(encryption_key)?, key(authentication_key)?);
                Some(Association::new(spi, keys.0, keys.1, start, window.into()))
            }
            _ => return None,
        };
        Some(Self { prefix: prefix.truncated(), gateway, port, association })
    }

    fn gateway_text(&self) -> String {
        match self.gateway {
            Ipv4Addr::UNSPECIFIED => "-".to_owned(),
            gateway => gateway.to_string(),
        }
    }

    fn words(&self) -> String {
        format!("{} {} {}", self.prefix, self.gateway_text(), self.port)
    }

    fn write_row(&self, text: &mut String) {
        let (prefix, gateway) = (self.prefix.to_string(), self.gateway_text());
        // Columns are as wide as two tabs.
        let wide = |column: &str, tab: usize| if column.len() + 1 < tab { "\t\t" } else { "\t" };
        let tabs = (wide(&prefix, 17), wide(&gateway, 9));
        // Writing to a string cannot fail.
        let _ = write!(text, "{prefix}{}{gateway}{}{}", tabs.0, tabs.1, self.port);
        if let Some(association) = self.association.as_ref().filter(|known| known.spi != 0) {
            let _ = writeln!(text, "  |TUNNELED CONNECTION| ");
            let _ = writeln!(text, "|SPI| |ENC KEY| |AUTH KEY| ||");
            let _ = writeln!(text, " |{}|{association}", association.spi);
        }
        text.push('\n');
    }
}

/// A key: its bytes as they are, or two hexadecimal digits for each.
fn key(text: &ArgText) -> Option<[u8; KEY_LEN]> {
    let bytes = text.unquote();
    if let Ok(key) = <[u8; KEY_LEN]>::try_from(bytes.as_slice()) {
        return Some(key);
    }
    let (digits, []) = bytes.as_chunks::<2>() else { return None };
    let digits: &[[u8; 2]; KEY_LEN] = digits.try_into().ok()?;
    let mut key = [0; KEY_LEN];
    for (byte, digits) in key.iter_mut().zip(digits) {
        let digit = |at: u8| char::from(at).to_digit(16);
        let [high, low] = digits.map(digit);
        *byte = (high? << 4 | low?) as u8;
    }
    Some(key)
}
