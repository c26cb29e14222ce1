//! AnnotationInfo - defines names for packet annotations
//!
//! # Synopsis
//! `AnnotationInfo(NAME OFFSET [SIZE], ..., keyword CHECK_OVERLAP)`
//!
//! # Description
//! Defines NAME as the SIZE bytes at OFFSET of a packet's annotations, for the arguments of other elements. Built-in
//! names such as PAINT cannot be redefined.
//!
//! # Arguments
//! - `NAME OFFSET [SIZE]`: a name, the offset of its first byte, and its size in bytes. Any number of them.
//! - CHECK_OVERLAP: names of annotations that must not overlap.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! AnnotationInfo(COLOUR 20 1, CHECK_OVERLAP COLOUR PAINT);
//! Idle -> Paint(3, COLOUR) -> Discard;
//! ```
//!
//! # See also
//! Paint, AddressInfo

use millrace_core::args::{AnyAnnotation, Arg, ArgText, Kind};
use millrace_core::names::{NameTable, NumberKind};
use millrace_core::{Class, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct AnnotationInfo;

register!(AnnotationInfo, "annotation_info.rs");

impl Element for AnnotationInfo {
    const CLASS: Class =
        Class::new("AnnotationInfo", "0/0", "a/a").phase(Class::PHASE_INFO).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let raw = |text: &ArgText, _: &_| Ok::<_, String>(text.clone());
        let checked = setup.args.with("CHECK_OVERLAP", Kind::Keyword, "names", raw);
        let scope = *setup.args.scope();
        let mut names = NameTable::new();
        for argument in setup.args.rest() {
            let words = argument.words();
            let [name, offset, size @ ..] = words.as_slice() else {
                setup.args.error(&argument, "expected ‘NAME OFFSET [SIZE]’");
                continue;
            };
            let place = AnyAnnotation::parse(offset, &scope).ok();
            let size = match size {
                [] => Some(place.and_then(|place| place.size).unwrap_or(0)),
                [size] => usize::parse(size, &scope).ok(),
                _ => None,
            };
            let (Some(place), Some(size)) = (place, size) else {
                setup.args.error(&argument, "expected ‘NAME OFFSET [SIZE]’");
                continue;
            };
            let number = u32::try_from(size << 16 | place.offset).unwrap_or(u32::MAX);
            if scope.number_named(NumberKind::Annotation, name.as_str()).is_some() {
                setup.args.error(name, format!("annotation ‘{name}’ already defined"));
                continue;
            }
            names.define_number(NumberKind::Annotation, scope.prefix(), name.as_str(), number);
        }
        if let Some(checked) = checked {
            check(setup, &checked, &names);
        }
        setup.args.complete()?;
        setup.define(names);
        Ok(Self)
    }
}

/// Refuses annotations that share bytes.
fn check(setup: &mut Setup<'_>, checked: &ArgText, names: &NameTable) {
    let scope = *setup.args.scope();
    let mut seen: Vec<(String, usize, usize)> = Vec::new();
    for word in checked.words() {
        let name = word.as_str();
        let own = names.number(NumberKind::Annotation, scope.prefix(), name);
        let number = own.or_else(|| scope.number_named(NumberKind::Annotation, name));
        let Some(number) = number else {
            setup.args.error(&word, format!("expected annotation name, not ‘{name}’"));
            continue;
        };
        let start = (number & 0xffff) as usize;
        let end = start + ((number >> 16) as usize).max(1);
        for (other, from, to) in &seen {
            if start < *to && *from < end {
                let message = format!("annotations ‘{other}’ and ‘{name}’ overlap");
                setup.args.error(&word, message);
            }
        }
        seen.push((name.to_owned(), start, end));
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn annotations_have_names() {
        assert!(Rig::new("AnnotationInfo(A 20 4, B 24 2)", 0, 0).is_ok());
        assert!(Rig::new("AnnotationInfo(A 20 4, B 24, CHECK_OVERLAP A B PAINT)", 0, 0).is_ok());
        assert!(Rig::new("AnnotationInfo(A 20 4, B 23, CHECK_OVERLAP A B)", 0, 0).is_err());
        for wrong in ["A", "A x", "A 48 1", "PAINT 3 1", "A 1 2 3"] {
            assert!(Rig::new(&format!("AnnotationInfo({wrong})"), 0, 0).is_err(), "{wrong}");
        }
    }
}
