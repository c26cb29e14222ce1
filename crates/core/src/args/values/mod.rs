//! The types that arguments can have.

mod address;
mod annotation;
mod number;
mod reference;
mod string;
mod unit;

pub use address::{IcmpType, IpProtocol, Ipv4Network, Ipv6Network, TcpPort, UdpPort, number, port};
pub use annotation::{Annotation, AnyAnnotation};
pub use number::{Decimal, Fixed, UDecimal, UFixed};
pub use reference::{ElementRef, HandlerRef};
pub use string::{FileName, Raw, Word};
pub use unit::{Bandwidth, Seconds, SignedTime};

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use crate::args::{Arg, ArgText, Scope};

    #[track_caller]
    pub(super) fn accepts<T: Arg + Debug + PartialEq>(text: &str, value: T) {
        assert_eq!(T::parse(&text.into(), &Scope::builtin()), Ok(value), "{text}");
    }

    #[track_caller]
    pub(super) fn rejects<T: Arg + Debug>(text: &str, message: &str) {
        let error = T::parse(&ArgText::from(text), &Scope::builtin()).expect_err(text);
        assert_eq!(error.message(), message, "{text}");
    }

    /// Reads the text that the value prints.
    #[track_caller]
    pub(super) fn rereads<T: Arg + Debug + PartialEq + ToString>(value: T) {
        let text = value.to_string();
        accepts(&text, value);
    }
}
