//! Which connections a capture is of.

use std::collections::BTreeSet;

use millrace_core::Router;
use millrace_core::graph::Link;
use millrace_core::router::or_rather;
use millrace_lang::nearest;

use super::wish::Wish;

/// One side of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    In,
    Out,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::In => "input",
            Self::Out => "output",
        }
    }

    /// The end of a connection on this side of an element.
    fn end(self, link: &Link) -> (usize, usize) {
        match self {
            Self::In => link.1,
            Self::Out => link.0,
        }
    }
}

/// The connections that are wished for, by their places in the router.
///
/// # Errors
/// There is no such element, port or device; the message names the nearest one.
pub(super) fn connections(router: &Router, wish: &Wish) -> Result<Vec<usize>, String> {
    let mut found = BTreeSet::new();
    if wish.all {
        found.extend(0..router.connections().len());
    }
    for place in &wish.places {
        found.extend(at(router, place)?);
    }
    for device in &wish.devices {
        found.extend(of_device(router, device)?);
    }
    Ok(found.into_iter().collect())
}

/// The connections of a place: `ELEMENT` stands for its outputs, or for its inputs if it has no outputs.
fn at(router: &Router, place: &str) -> Result<Vec<usize>, String> {
    let place = place.trim();
    let wrong = || format!("expected ELEMENT, ELEMENT[OUTPUT] or [INPUT]ELEMENT, not ‘{place}’");
    let (name, port) = if let Some(rest) = place.strip_prefix('[') {
        let (port, name) = rest.split_once(']').ok_or_else(wrong)?;
        (name.trim(), Some((Side::In, port)))
    } else if let Some(rest) = place.strip_suffix(']') {
        let (name, port) = rest.rsplit_once('[').ok_or_else(wrong)?;
        (name.trim(), Some((Side::Out, port)))
    } else {
        (place, None)
    };
    let id = router.find(name).ok_or_else(|| {
        format!("there is no element ‘{name}’{}", or_rather(router.near_element(name)))
    })?;
    let of = |side: Side, port: Option<usize>| -> Vec<usize> {
        let links = router.connections().iter().enumerate();
        let ends = links.map(|(at, link)| (at, side.end(link)));
        let here = ends.filter(|(_, end)| end.0 == id && port.is_none_or(|port| end.1 == port));
        here.map(|(at, _)| at).collect()
    };
    let Some((side, port)) = port else {
        let leaving = of(Side::Out, None);
        let found = if leaving.is_empty() { of(Side::In, None) } else { leaving };
        return match found.is_empty() {
            true => Err(format!("‘{name}’ is not connected")),
            false => Ok(found),
        };
    };
    let port: usize = port.trim().parse().map_err(|_| wrong())?;
    let kind = match side {
        Side::In => router.input_kind(id, port),
        Side::Out => router.output_kind(id, port),
    };
    let found = of(side, Some(port));
    match found.is_empty() {
        false => Ok(found),
        true if kind.is_some() => {
            Err(format!("{} {port} of ‘{name}’ is not connected", side.name()))
        }
        true => {
            let info = router.elements().nth(id);
            let count = info.map_or(0, |info| match side {
                Side::In => info.inputs.len(),
                Side::Out => info.outputs.len(),
            });
            Err(match count {
                0 => format!("‘{name}’ has no {}s", side.name()),
                1 => format!("‘{name}’ has no {0} {port}: its {0} is 0", side.name()),
                _ => format!(
                    "‘{name}’ has no {0} {port}: its {0}s are 0 to {1}",
                    side.name(),
                    count - 1
                ),
            })
        }
    }
}

/// What comes from a device and what goes to it: the connections of elements at the border of the graph whose first
/// argument is the device.
fn of_device(router: &Router, device: &str) -> Result<Vec<usize>, String> {
    let mut found = Vec::new();
    let mut known = Vec::new();
    for (id, info) in router.elements().enumerate() {
        if info.inputs.is_empty() == info.outputs.is_empty() {
            continue;
        }
        let first = info.config.split(',').next().unwrap_or_default();
        let first = first.trim().trim_matches('"');
        if info.class.name.contains("Device") || info.class.name.contains("Host") {
            known.push(first);
        }
        if first == device {
            let ends = |link: &Link| link.0.0 == id || link.1.0 == id;
            let links = router.connections().iter().enumerate();
            found.extend(links.filter(|(_, link)| ends(link)).map(|(at, _)| at));
        }
    }
    match found.is_empty() {
        true => Err(format!(
            "no element receives from or sends to ‘{device}’{}",
            or_rather(nearest(device, known))
        )),
        false => Ok(found),
    }
}

/// The name of a connection: `a[0] -> [1]b`.
pub(super) fn name_of(router: &Router, connection: usize) -> String {
    let Some(&((from, output), (to, input))) = router.connections().get(connection) else {
        return String::new();
    };
    format!("{}[{output}] -> [{input}]{}", router.name_of(from), router.name_of(to))
}
