//! Options in the form that IPv4 and TCP share: kind, length, value; two kinds are only one byte long.

/// The options after a fixed header.
///
/// Iterating yields each option up to the end mark. An option that does not fit in the area ends the
/// iteration, with its offset as an error.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    area: &'a [u8],
    next: usize,
}

/// One option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderOption<'a> {
    /// Which one (see [`ipv4_option`](super::ipv4_option) and [`tcp_option`](super::tcp_option)).
    pub kind: u8,
    /// Its offset in the option area.
    pub offset: usize,
    /// All of its bytes, including kind and length.
    pub bytes: &'a [u8],
}

/// The kind that ends the list.
const END: u8 = 0;
/// The kind for padding, one byte long like the end mark.
const NO_OPERATION: u8 = 1;

impl<'a> Options<'a> {
    /// The options in `area`, the bytes from the end of the fixed header to the end of the header.
    pub fn new(area: &'a [u8]) -> Options<'a> {
        Options { area, next: 0 }
    }

    /// The bytes of the whole area.
    pub fn area(&self) -> &'a [u8] {
        self.area
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<HeaderOption<'a>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.next;
        let rest = self.area.get(offset..)?;
        let kind = *rest.first()?;
        let len = match (kind, rest.get(1)) {
            (END, _) => {
                self.next = self.area.len();
                return None;
            }
            (NO_OPERATION, _) => Some(1),
            (_, Some(&len)) if len >= 2 => Some(usize::from(len)),
            _ => None,
        };
        match len.and_then(|len| rest.get(..len)) {
            Some(bytes) => {
                self.next = offset + bytes.len();
                Some(Ok(HeaderOption { kind, offset, bytes }))
            }
            None => {
                self.next = self.area.len();
                Some(Err(offset))
            }
        }
    }
}

impl std::iter::FusedIterator for Options<'_> {}
