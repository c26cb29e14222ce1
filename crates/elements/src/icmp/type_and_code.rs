//! ICMP types and codes as arguments: numbers, or names such as `unreachable` and `needfrag`.

use millrace_core::args::{Arg, ArgError, ArgText, Args, Kind, Scope};
use millrace_core::names::NumberKind;

/// Reads the argument TYPE; none when it is wrong, which is recorded.
pub(super) fn read_type(args: &mut Args<'_>) -> Option<u8> {
    args.with("TYPE", Kind::Mandatory, "an ICMP type by number or name", |text, scope| {
        number(NumberKind::IcmpType, text, scope)
    })
}

/// Reads the argument CODE, whose names depend on the type; 0 when there is none.
pub(super) fn read_code(args: &mut Args<'_>, icmp_type: u8) -> u8 {
    let expects = "an ICMP code by number, or a name that goes with the type";
    let code = args.with("CODE", Kind::Positional, expects, |text, scope| {
        number(NumberKind::IcmpCode(icmp_type), text, scope)
    });
    code.unwrap_or(0)
}

fn number(kind: NumberKind, text: &ArgText, scope: &Scope<'_>) -> Result<u8, ArgError> {
    match scope.number_named(kind, text.as_str()) {
        Some(number) => u8::try_from(number).map_err(|_| "out of range, bound 255".into()),
        None => u8::parse(text, scope),
    }
}
