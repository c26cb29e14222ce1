//! The table of all fields, each layer's in its own file, and how a name finds one.

use std::borrow::Cow;

use super::field::Field;
use super::{anno, icmp, ip, link, payload, tcp, udp};

/// All fields.
pub(crate) fn fields() -> impl Iterator<Item = &'static Field> {
    let layers: [&[Field]; 7] = [
        anno::FIELDS,
        link::FIELDS,
        ip::FIELDS,
        tcp::FIELDS,
        udp::FIELDS,
        icmp::FIELDS,
        payload::FIELDS,
    ];
    layers.into_iter().flatten()
}

/// Synonyms and the names that they stand for.
fn synonyms() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let layers = [anno::SYNONYMS, link::SYNONYMS, ip::SYNONYMS, tcp::SYNONYMS, payload::SYNONYMS];
    layers.into_iter().flatten()
}

/// The field with this name. Spaces may replace underscores, `ip_` is optional, and synonyms are accepted.
pub(crate) fn find(name: &str) -> Option<&'static Field> {
    let mut name = Cow::Borrowed(name);
    loop {
        if let Some((_, meant)) = synonyms().find(|(synonym, _)| *synonym == name) {
            name = Cow::Borrowed(meant);
            continue;
        }
        if let Some(field) = fields().find(|field| field.name == name) {
            return Some(field);
        }
        if name.contains(' ') {
            name = Cow::Owned(name.replacen(' ', "_", 1));
        } else if !name.contains('_') {
            name = Cow::Owned(format!("ip_{name}"));
        } else {
            return None;
        }
    }
}
