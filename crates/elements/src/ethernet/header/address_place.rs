//! The position of an Ethernet address in a packet: the argument OFFSET of elements that copy
//! addresses between packets and annotations.

use millrace_core::Arg;
use millrace_core::args::{ArgError, ArgText, Scope};

/// Where an address starts, in bytes; `src` and `dst` are its places in an Ethernet header at the
/// start of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(pub(crate) usize);

/// Length of an address in bytes.
pub(crate) const LEN: usize = 6;

impl Arg for Place {
    const EXPECTS: &'static str = "an offset, ‘src’ or ‘dst’";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        match text.as_str().to_ascii_lowercase().as_str() {
            "src" => return Ok(Self(LEN)),
            "dst" => return Ok(Self(0)),
            _ => {}
        }
        let offset = u32::parse(text, scope).ok().filter(|offset| *offset <= u32::MAX - LEN as u32);
        let offset = offset.ok_or_else(|| ArgError::new("type mismatch: bad OFFSET"))?;
        Ok(Self(offset as usize))
    }

    fn placeholder() -> Self {
        Self(0)
    }
}
