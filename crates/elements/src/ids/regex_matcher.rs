//! RegexMatcher - finds packets whose contents match regular expressions
//!
//! # Synopsis
//! `RegexMatcher(PATTERN, ... [, keywords PAYLOAD_ONLY, MATCH_ALL])`
//!
//! # Description
//! Sends packets that match a pattern to output 0, and the others to output 1, or drops them if it is not connected.
//!
//! Patterns have the syntax of Rust's `regex` crate, nearly that of RE2: <https://docs.rs/regex/#syntax>. They match
//! bytes, not characters; a match may begin anywhere in the packet. Quote patterns with spaces, commas or parentheses:
//! `"user.*(root|admin)"`. The time to search a packet is linear in its length, whatever the pattern.
//!
//! RegexMatcherMP is an alias. A pattern that spans two packets is not found. For many fixed patterns, IDSMatcher is
//! faster.
//!
//! # Arguments
//! - PATTERN: a regular expression. Positional, mandatory, may be repeated.
//! - PAYLOAD_ONLY: whether to search only after the TCP or UDP header, in packets whose network header position is
//!   set; if it is not, all of the packet is searched. Keyword, default false.
//! - MATCH_ALL: whether a packet must match all patterns instead of any. Keyword, default false.
//!
//! # Ports
//! One push input, one push output for packets that match, an optional second one for others.
//!
//! # Handlers
//! - `pattern0`, `pattern1`, ... (read, write): a pattern.
//!
//! # Drops
//! - filtered: the packet does not match, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource("GET /etc/passwd HTTP/1.1", LIMIT 1)
//!     -> m :: RegexMatcher("etc/(passwd|shadow)", "cmd\\.exe")
//!     -> Print(attack)
//!     -> Discard;
//! m [1] -> Discard;
//! ```
//!
//! # See also
//! IDSMatcher, WordMatcher, Search, Classifier

use millrace_core::element::ANY_HANDLER;
use millrace_core::{
    Class, Element, Failed, HandlerError, Handlers, Moment, PerPacket, Published, Reason, Setup,
    View, Way, register,
};
use regex::bytes::{RegexSet, RegexSetBuilder};

use crate::flows::words::payload;

/// The element; its manual is at the top of the file.
pub struct RegexMatcher {
    patterns: Published<RegexSet>,
    payload_only: bool,
    match_all: bool,
}

register!(RegexMatcher, "regex_matcher.rs");

impl Element for RegexMatcher {
    const CLASS: Class = Class::new("RegexMatcher", "1/1-2", "h/h").aliases(&["RegexMatcherMP"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let payload_only = args.keyword("PAYLOAD_ONLY", false);
        let match_all = args.keyword("MATCH_ALL", false);
        let texts = args.rest_positional();
        if texts.is_empty() {
            args.error((), "expected at least one PATTERN");
        }
        let mut patterns = Vec::new();
        for text in &texts {
            let pattern = escape(&text.unquote());
            if let Err(why) = compile(std::slice::from_ref(&pattern)) {
                args.error(text, why);
            }
            patterns.push(pattern);
        }
        args.complete()?;
        match compile(&patterns) {
            Ok(set) => Ok(Self { patterns: Published::new(set), payload_only, match_all }),
            Err(why) => {
                args.error((), why);
                Err(Failed)
            }
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.try_read(ANY_HANDLER, |matcher, call| {
            let set = matcher.patterns.load();
            let pattern = set.patterns().get(number(call.handler())?);
            pattern.cloned().ok_or_else(|| HandlerError::NoHandler(call.handler().to_owned()))
        });
        handlers.write(ANY_HANDLER, |matcher, call| {
            let mut patterns = matcher.patterns.load().patterns().to_vec();
            let place = patterns.get_mut(number(call.handler())?);
            let place = place.ok_or_else(|| HandlerError::NoHandler(call.handler().to_owned()))?;
            *place = escape(call.bytes().trim_ascii());
            matcher.patterns.store(compile(&patterns).map_err(HandlerError::Refused)?);
            Ok(())
        });
    }
}

impl PerPacket for RegexMatcher {
    const ROUTES: bool = true;

    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let from = if self.payload_only { payload(packet) } else { 0 };
        let bytes = packet.data().get(from..).unwrap_or_default();
        let patterns = self.patterns.get(at);
        let matches = match self.match_all {
            true => patterns.matches(bytes).matched_all(),
            false => patterns.is_match(bytes),
        };
        match matches {
            true => Way::ON,
            false => Way::output_or_drop(1, Reason::Filtered),
        }
    }
}

/// The number of the pattern that a handler is for.
fn number(handler: &str) -> Result<usize, HandlerError> {
    let number = handler.strip_prefix("pattern").and_then(|number| number.parse().ok());
    number.ok_or_else(|| HandlerError::NoHandler(handler.to_owned()))
}

/// A pattern as text: bytes that are no ASCII characters stand for themselves.
fn escape(pattern: &[u8]) -> String {
    let text = |byte: &u8| match byte.is_ascii() {
        true => char::from(*byte).to_string(),
        false => format!("\\x{byte:02x}"),
    };
    pattern.iter().map(text).collect()
}

/// The patterns as one automaton, or what is wrong with them.
fn compile(patterns: &[String]) -> Result<RegexSet, String> {
    let set = RegexSetBuilder::new(patterns).unicode(false).build();
    set.map_err(|error| match error {
        regex::Error::CompiledTooBig(bytes) => {
            format!("the patterns need more than {bytes} bytes; use simpler ones, or IDSMatcher")
        }
        // The last line says what is wrong; those before it draw the place.
        error => {
            let text = error.to_string();
            let why = text.lines().last().unwrap_or_default();
            format!("invalid pattern: {}", why.strip_prefix("error: ").unwrap_or(why))
        }
    })
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip::{Datagram, withstands};

    #[test]
    fn packets_that_match_leave_by_output_0() {
        let mut rig = Rig::new(r#"RegexMatcher(xnet, "he.*o")"#, 1, 2).unwrap();
        let out = rig.push(0, &["an xnet", "say hello", "nothing", "hex"]);
        assert_eq!(
            out,
            [
                vec![b"an xnet".to_vec(), b"say hello".to_vec()],
                vec![b"nothing".to_vec(), b"hex".to_vec()]
            ]
        );
    }

    #[test]
    fn all_patterns_can_be_required() {
        let mut rig = Rig::new("RegexMatcherMP(a, b, MATCH_ALL true)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "ab", "b"])[0], [b"ab"]);
        assert_eq!(rig.stats().drops, [(Reason::Filtered, 2)]);
    }

    #[test]
    fn the_payload_begins_after_the_transport_header() {
        // The source port of the datagram is 0x6161, too, but that is not payload.
        let mut datagram = Datagram::udp(b"data");
        datagram.payload[..2].copy_from_slice(b"aa");
        let whole =
            Rig::new("RegexMatcher(aa)", 1, 2).unwrap().push_packets(0, vec![datagram.packet()]);
        let mut rig = Rig::new("RegexMatcher(aa, PAYLOAD_ONLY true)", 1, 2).unwrap();
        let payload = rig.push_packets(0, vec![datagram.packet()]);
        assert_eq!((whole[0].len(), payload[0].len(), payload[1].len()), (1, 0, 1));
    }

    #[test]
    fn bytes_that_are_no_characters_match() {
        let mut rig = Rig::new(r#"RegexMatcher("\xff.\x00")"#, 1, 1).unwrap();
        assert_eq!(rig.push(0, &[&b"_\xff\xfe\x00"[..]])[0].len(), 1);
    }

    #[test]
    fn patterns_can_be_changed() {
        let mut rig = Rig::new("RegexMatcher(a, b)", 1, 1).unwrap();
        assert_eq!(rig.read("pattern1").unwrap(), "b");
        rig.write("pattern1", "c+").unwrap();
        assert_eq!(rig.push(0, &["b", "cc"])[0], [b"cc"]);
        let wrong = rig.write("pattern1", "(").unwrap_err();
        assert!(wrong.to_string().contains("unclosed group"), "{wrong}");
        assert!(rig.write("pattern2", "d").is_err());
        assert!(rig.read("pattern").is_err());
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for bad in ["RegexMatcher", "RegexMatcher(\"(\")", "RegexMatcher(a, MATCH_ALL 2)"] {
            assert!(Rig::new(bad, 1, 1).is_err(), "{bad}");
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("RegexMatcher(\"a.*b\", PAYLOAD_ONLY true)", 2);
    }
}
