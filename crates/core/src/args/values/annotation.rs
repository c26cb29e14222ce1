//! Positions in a packet's annotation area.

use crate::args::{Arg, ArgError, ArgText, Scope};
use crate::memory::ANNOTATION_LEN;
use crate::names::NumberKind;

/// An annotation of `SIZE` bytes, by name or by the offset of its first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Annotation<const SIZE: usize>(pub usize);

impl<const SIZE: usize> Arg for Annotation<SIZE> {
    const EXPECTS: &'static str = "an annotation by name or offset";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let AnyAnnotation { offset, size } = AnyAnnotation::parse(text, scope)?;
        if let Some(size) = size.filter(|&size| size != SIZE) {
            let help = format!("‘{text}’ has a size of {size}, not {SIZE}");
            return Err(ArgError::default().help(help));
        }
        if offset + SIZE > ANNOTATION_LEN {
            return Err(ArgError::new(format!("out of range, bound {}", ANNOTATION_LEN - SIZE)));
        }
        Ok(Self(offset))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// An annotation by name or by the offset of its first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AnyAnnotation {
    /// The first byte, less than [`ANNOTATION_LEN`].
    pub offset: usize,
    /// Its length in bytes, when it was given by a name that determines it.
    pub size: Option<usize>,
}

impl Arg for AnyAnnotation {
    const EXPECTS: &'static str = "an annotation by name or offset";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let (offset, size) = match scope.number_named(NumberKind::Annotation, text.as_str()) {
            Some(place) => ((place & 0xffff) as usize, (place >> 16) as usize),
            None => (usize::parse(text, scope)?, 0),
        };
        if offset >= ANNOTATION_LEN {
            return Err(ArgError::new(format!("out of range, bound {}", ANNOTATION_LEN - 1)));
        }
        Ok(Self { offset, size: Some(size).filter(|&size| size > 0) })
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::tests::{accepts, rejects};
    use crate::memory::ANNOTATIONS;
    use crate::names::NameTable;

    #[test]
    fn annotations_have_names_and_offsets() {
        for known in ANNOTATIONS {
            let size = Some(known.size);
            accepts(known.name, AnyAnnotation { offset: known.offset, size });
        }
        accepts("PAINT", Annotation::<1>(16));
        accepts("7", Annotation::<4>(7));
        accepts("44", Annotation::<4>(44));
        accepts("47", AnyAnnotation { offset: 47, size: None });
        rejects::<Annotation<4>>("45", "out of range, bound 44");
        rejects::<AnyAnnotation>("48", "out of range, bound 47");
        rejects::<AnyAnnotation>("0x10000", "out of range, bound 47");
        rejects::<Annotation<4>>("PAINT", "parse error");
        rejects::<Annotation<4>>("paint", "parse error");
    }

    #[test]
    fn a_configuration_may_name_annotations() {
        let mut names = NameTable::new();
        names.define_number(NumberKind::Annotation, "", "MINE", 4 << 16 | 12);
        names.define_number(NumberKind::Annotation, "", "FAR", 4 << 16 | 46);
        let read = |text: &str| Annotation::<4>::parse(&text.into(), &Scope::bare(&names));
        assert_eq!(read("MINE"), Ok(Annotation(12)));
        assert_eq!(read("FAR"), Err(ArgError::new("out of range, bound 44")));
    }
}
