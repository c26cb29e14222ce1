//! Arguments of the elements that use AF_XDP.

use millrace_core::Args;
use millrace_core::args::{Kind, Word};
use millrace_io::{Rule, XdpHook, XdpOptions};

/// Reads MODE, ZEROCOPY, BUSY_POLL, and FastClick's PROG and TRACE.
pub(crate) fn configure(args: &mut Args<'_>) -> XdpOptions {
    let hook = hook(args);
    let busy_poll: Option<u32> = args.in_range("BUSY_POLL", Kind::Keyword, 0..=1_000_000);
    let options = XdpOptions {
        hook,
        zero_copy: args.optional_keyword("ZEROCOPY"),
        busy_poll: busy_poll.filter(|micros| *micros > 0),
        ..XdpOptions::default()
    };
    refuse_others(args);
    options
}

/// Reads a list of rules.
pub(crate) fn rules(args: &mut Args<'_>, keyword: &str) -> Vec<Rule> {
    let text: String = args.keyword(keyword, String::new());
    Rule::list(&text).unwrap_or_else(|error| {
        args.error(keyword, error.to_string());
        Vec::new()
    })
}

fn hook(args: &mut Args<'_>) -> XdpHook {
    let word: Option<Word> = args.optional_keyword("MODE");
    let Some(word) = word else { return XdpHook::Best };
    match word.as_str().to_ascii_uppercase().as_str() {
        "AUTO" => XdpHook::Best,
        "NATIVE" | "DRV" => XdpHook::Driver,
        "GENERIC" | "SKB" => XdpHook::Generic,
        _ => {
            let problem = format!("bad MODE ‘{}’, expected AUTO, NATIVE or GENERIC", word.as_str());
            args.error("MODE", problem);
            XdpHook::Best
        }
    }
}

/// FastClick's PROG names a program. Only one is supported, the one that receives all packets.
fn refuse_others(args: &mut Args<'_>) {
    let program: Option<Word> = args.optional_keyword("PROG");
    if program.is_some_and(|program| program.as_str() != "xdpallrx") {
        let problem = "no other program than xdpallrx is loaded; say which packets to take by ONLY \
                       and EXCEPT";
        args.error("PROG", problem);
    }
    if args.keyword("TRACE", false) {
        args.error("TRACE", "packets are not traced here: put a Print behind the element");
    }
}
