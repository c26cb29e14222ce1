//! IPRewriterPatterns - defines named patterns for rewriters and mappers
//!
//! # Synopsis
//! `IPRewriterPatterns(NAME PATTERN, ...)`
//!
//! # Description
//! Lets the arguments of rewriters and mappers use NAME for a pattern: `pattern NAME FOUTPUT ROUTPUT`. All users of a
//! name share the pattern, including its position in a range whose ports are assigned in turn. A name is visible in the
//! compound element that contains this element, and in compound elements inside it.
//!
//! # Arguments
//! - NAME PATTERN: a name, and `SADDR SPORT DADDR DPORT`, `SADDR DADDR` or `SADDR DADDR SPORT` as in IPRewriter. Any
//!   number of them.
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
//! IPRewriterPatterns(out 1.0.0.1 1024-65535 - -);
//! rw :: IPRewriter(pattern out 0 0);
//! InfiniteSource(LENGTH 64, LIMIT 10) -> UDPIPEncap(10.0.0.2, 1234, 2.0.0.2, 53)
//!     -> rw -> Discard;
//! ```
//!
//! # See also
//! IPRewriter

use std::sync::Arc;

use millrace_core::{Class, Element, Failed, Setup, register};

use super::rewriter::input::Named;
use super::rewriter::pattern::Pattern;

/// The element; its manual is at the top of the file.
pub struct IpRewriterPatterns;

register!(IpRewriterPatterns, "ip_rewriter_patterns.rs");

impl Element for IpRewriterPatterns {
    const CLASS: Class =
        Class::new("IPRewriterPatterns", "0/0", "a/a").phase(Class::PHASE_INFO).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let named: Arc<Named> = setup.shared();
        for text in setup.args.rest().into_iter().filter(|text| !text.is_empty()) {
            let (name, rest) = text.split_first_word();
            let scope = setup.args.scope();
            if named.pattern(name.as_str(), scope).is_some() {
                setup.args.error(&name, format!("pattern ‘{name}’ already defined"));
                continue;
            }
            let words = rest.words();
            let pattern = match words.as_slice() {
                [other] => {
                    let known = named.pattern(other.as_str(), scope);
                    known.ok_or_else(|| format!("no such pattern ‘{other}’"))
                }
                words => Pattern::parse(words, scope).map(Arc::new).map_err(str::to_owned),
            };
            match pattern {
                Ok(pattern) => named.add_pattern(name.as_str(), pattern, scope),
                Err(message) => setup.args.error(&text, message),
            }
        }
        setup.args.complete()?;
        Ok(Self)
    }
}
