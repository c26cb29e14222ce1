//! ICMP types and codes as arguments: numbers, or names such as `unreachable` and `needfrag`.

use millrace_core::args::{Arg, ArgError, ArgText, Args, Kind, Raw, Scope};
use millrace_core::headers::icmp_type;
use millrace_core::names::NumberKind;

/// Reads the argument TYPE; `None` if it is wrong, which is recorded as an error.
pub(super) fn read_type(args: &mut Args<'_>) -> Option<u8> {
    args.with("TYPE", Kind::Mandatory, "an ICMP type by number or name", |text, scope| {
        number(NumberKind::IcmpType, text, scope)
    })
}

/// Reads the argument CODE, whose names depend on the type; 0 if there is none. `wrong` is Click's message for a wrong
/// code.
pub(super) fn read_code(args: &mut Args<'_>, icmp_type: u8, wrong: &str) -> u8 {
    let Raw(text) = args.optional("CODE").unwrap_or_else(|| Raw("0".into()));
    let kind = NumberKind::IcmpCode(icmp_type);
    let code = number(kind, &ArgText::from(text.as_str()), args.scope());
    code.unwrap_or_else(|_| {
        args.error("CODE", wrong);
        0
    })
}

fn number(kind: NumberKind, text: &ArgText, scope: &Scope<'_>) -> Result<u8, ArgError> {
    match scope.number_named(kind, text.as_str()) {
        Some(number) => u8::try_from(number).map_err(|_| "out of range, bound 255".into()),
        None => u8::parse(text, scope),
    }
}

/// Whether messages of this type report errors, and quote a packet.
pub(crate) fn is_error(icmp_type: u8) -> bool {
    matches!(
        icmp_type,
        icmp_type::UNREACHABLE
            | icmp_type::SOURCE_QUENCH
            | icmp_type::REDIRECT
            | icmp_type::TIME_EXCEEDED
            | icmp_type::PARAMETER_PROBLEM
    )
}

/// Whether messages of this type have an identifier and a sequence number.
pub(super) fn is_numbered(icmp_type: u8) -> bool {
    matches!(
        icmp_type,
        icmp_type::ECHO_REQUEST
            | icmp_type::ECHO_REPLY
            | icmp_type::TIMESTAMP_REQUEST
            | icmp_type::TIMESTAMP_REPLY
            | icmp_type::INFORMATION_REQUEST
            | icmp_type::INFORMATION_REPLY
    )
}
