//! Parsing of routes and of routing table commands in configurations and handlers.

use std::net::Ipv4Addr;

use millrace_core::args::{Arg, ArgText, Scope};

use super::address::Address;
use super::error::Error;
use super::route::{Hop, MAX_PORT, Prefix, Route};

/// What to do to a routing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<A: Address = Ipv4Addr> {
    /// Adds a route for a network that has none.
    Add(Route<A>),
    /// Adds a route, or replaces the one that the network has.
    Set(Route<A>),
    /// Removes the route of a network, if it is to this hop.
    Remove(Prefix<A>, Option<Hop<A>>),
}

/// The three commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// [`Command::Add`].
    Add,
    /// [`Command::Set`].
    Set,
    /// [`Command::Remove`].
    Remove,
}

/// How routes are parsed: names are resolved in the element's scope, and outputs must exist.
#[derive(Clone, Copy, Debug)]
pub struct Syntax<'a> {
    /// Where names of addresses and networks are looked up.
    pub scope: Scope<'a>,
    /// The number of outputs.
    pub outputs: usize,
}

impl Syntax<'_> {
    /// Reads a route: `ADDR/MASK [GATEWAY] OUTPUT`. The gateway may be `-`.
    ///
    /// # Errors
    /// The text is not a route, or the output does not exist.
    pub fn route<A: Address>(&self, text: &ArgText) -> Result<Route<A>, Error<A>> {
        let syntax = Error::Syntax { remove: false };
        let (prefix, words) = self.prefix(text, &syntax)?;
        let hop = self.hop(&words, &syntax)?.ok_or(syntax)?;
        Ok(Route { prefix, hop })
    }

    /// Parses the text written to one of the handlers `add`, `set` and `remove`: a route; for `remove`, the network is
    /// enough.
    ///
    /// # Errors
    /// As [`Syntax::route`].
    pub fn command<A: Address>(&self, verb: Verb, text: &ArgText) -> Result<Command<A>, Error<A>> {
        match verb {
            Verb::Add => self.route(text).map(Command::Add),
            Verb::Set => self.route(text).map(Command::Set),
            Verb::Remove => {
                let syntax = Error::Syntax { remove: true };
                let (prefix, words) = self.prefix(text, &syntax)?;
                Ok(Command::Remove(prefix, self.hop(&words, &syntax)?))
            }
        }
    }

    /// Parses the text written to the handler `ctrl`: one command per line. Empty lines and comments are ignored.
    ///
    /// # Errors
    /// As [`Syntax::route`], or a line does not start with `add`, `set` or `remove`.
    pub fn commands<A: Address>(&self, text: &str) -> Result<Vec<Command<A>>, Error<A>> {
        let mut commands = Vec::new();
        for line in text.lines() {
            let line = ArgText::from(line.trim_ascii());
            let words = line.words();
            let Some(verb) = words.first() else { continue };
            let verb = match verb.as_str() {
                "add" => Verb::Add,
                "set" => Verb::Set,
                "remove" => Verb::Remove,
                other => return Err(Error::Command(other.to_owned())),
            };
            commands.push(self.command(verb, &line.split_first_word().1)?);
        }
        Ok(commands)
    }

    /// The network at the start of a text, and the words after it.
    fn prefix<A: Address>(
        &self,
        text: &ArgText,
        syntax: &Error<A>,
    ) -> Result<(Prefix<A>, Vec<ArgText>), Error<A>> {
        let mut words = text.words();
        if words.is_empty() {
            return Err(syntax.clone());
        }
        let network = words.remove(0);
        let network = A::network(&network, &self.scope).ok_or_else(|| syntax.clone())??;
        Ok((network, words))
    }

    /// An optional gateway and an optional output. A gateway without an output gives no hop.
    fn hop<A: Address>(
        &self,
        words: &[ArgText],
        syntax: &Error<A>,
    ) -> Result<Option<Hop<A>>, Error<A>> {
        let (gateway, output) = match words {
            [] => return Ok(None),
            [first, rest @ ..] => match self.gateway(first) {
                Some(gateway) => (gateway, rest),
                None => (A::UNSPECIFIED, words),
            },
        };
        match output {
            [] => Ok(None),
            [output] => {
                let port = i32::parse(output, &self.scope).map_err(|_| syntax.clone())?;
                let port = u32::try_from(port).map_err(|_| Error::Output)?;
                if port as usize >= self.outputs || port > MAX_PORT {
                    return Err(Error::Output);
                }
                Ok(Some(Hop { gateway, port }))
            }
            _ => Err(syntax.clone()),
        }
    }

    fn gateway<A: Address>(&self, word: &ArgText) -> Option<A> {
        match word.as_str() {
            "-" => Some(A::UNSPECIFIED),
            _ => A::parse(word, &self.scope).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;

    const SYNTAX: fn() -> Syntax<'static> = || Syntax { scope: Scope::builtin(), outputs: 3 };

    fn route(text: &str) -> Result<String, String> {
        let route = SYNTAX().route::<Ipv4Addr>(&text.into());
        route.map(|route| route.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn routes_are_parsed_in_every_spelling() {
        for (text, printed) in [
            ("10.0.0.0/8 1", "10.0.0.0/8 - 1"),
            ("10.1.2.3/8 1", "10.0.0.0/8 - 1"),
            ("10/8 - 2", "10.0.0.0/8 - 2"),
            ("18.26.0/17 3.0.0.3 2", "18.26.0.0/17 3.0.0.3 2"),
            ("10.0.0.0/255.255.0.0 192.168.0.1 0", "10.0.0.0/16 192.168.0.1 0"),
            ("18.26.4.9 0", "18.26.4.9/32 - 0"),
            ("0/0 0.0.0.0 1", "0.0.0.0/0 - 1"),
            ("  10/8   1  // a comment", "10.0.0.0/8 - 1"),
        ] {
            assert_eq!(route(text).as_deref(), Ok(printed), "{text}");
        }
    }

    #[test]
    fn malformed_routes_are_refused() {
        let syntax = "expected ‘ADDR/MASK [GATEWAY] OUTPUT’";
        for (text, message) in [
            ("", syntax),
            ("10/8", syntax),
            ("10/8 10.0.0.1", syntax),
            ("10/8 x 1", syntax),
            ("10/8 10.0.0.1 1 2", syntax),
            ("10/33 1", syntax),
            ("hello 1", syntax),
            ("10/8 3", "bad OUTPUT"),
            ("10/8 -1", "bad OUTPUT"),
            ("10.0.0.0/255.0.255.0 1", "mask 255.0.255.0 is not that of a prefix"),
        ] {
            assert_eq!(route(text), Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn remove_needs_only_the_network() {
        let remove = |text: &str| SYNTAX().command(Verb::Remove, &text.into());
        let prefix = Prefix::new(0x0a00_0000, 8);
        let hop = |gateway: [u8; 4], port| Some(Hop { gateway: gateway.into(), port });
        assert_eq!(remove("10/8"), Ok(Command::Remove(prefix, None)));
        assert_eq!(remove("10/8 1"), Ok(Command::Remove(prefix, hop([0; 4], 1))));
        assert_eq!(remove("10/8 1.0.0.1 2"), Ok(Command::Remove(prefix, hop([1, 0, 0, 1], 2))));
        assert_eq!(remove("10/8 1.0.0.1"), Ok(Command::Remove(prefix, None)));
        assert_eq!(remove("ten").unwrap_err().to_string(), "expected ‘ADDR/MASK [GATEWAY OUTPUT]’");
    }

    #[test]
    fn ctrl_reads_one_command_per_line() {
        let text = "add 10/8 1\n\n  // nothing\nset 10/8 - 2 // why not\n remove 10/8";
        let prefix = Prefix::new(0x0a00_0000, 8);
        let route = |port| {
            let hop = Hop { gateway: Ipv4Addr::UNSPECIFIED, port };
            Route { prefix, hop }
        };
        let commands =
            [Command::Add(route(1)), Command::Set(route(2)), Command::Remove(prefix, None)];
        assert_eq!(SYNTAX().commands(text).unwrap(), commands);
        let error = SYNTAX().commands::<Ipv4Addr>("add 10/8 1\ndel 10/8").unwrap_err();
        assert_eq!(error.to_string(), "bad command ‘del’");
    }

    #[test]
    fn ipv6_routes_are_parsed() {
        let route = |text: &str| SYNTAX().route::<Ipv6Addr>(&text.into());
        for (text, printed) in [
            ("2001:db8::/32 1", "2001:db8::/32 - 1"),
            ("2001:db8::1/32 - 1", "2001:db8::/32 - 1"),
            ("2001:db8::/ffff:ffff:: fe80::1 2", "2001:db8::/32 fe80::1 2"),
            ("2001:db8::1 ::0 0", "2001:db8::1/128 - 0"),
            ("::0/0 fe80::1 1", "::/0 fe80::1 1"),
            ("::ffff:10.0.0.0/104 1", "::ffff:10.0.0.0/104 - 1"),
        ] {
            assert_eq!(route(text).unwrap().to_string(), printed, "{text}");
        }
        let syntax = "expected ‘ADDR/MASK [GATEWAY] OUTPUT’";
        for (text, message) in [
            ("2001:db8::/129 1", syntax),
            ("2001:db8::/ff0f:: 1", syntax),
            ("2001:db8::/32 10.0.0.1 1", syntax),
            ("10.0.0.0/8 1", syntax),
            ("2001:db8::/32", syntax),
            ("2001:db8::/32 3", "bad OUTPUT"),
        ] {
            assert_eq!(route(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    /// A parsed command prints as text that parses to the same command.
    fn rereads<A: Address>(text: &str) {
        for command in SYNTAX().commands::<A>(text).unwrap_or_default() {
            let (verb, line) = match command {
                Command::Add(route) => (Verb::Add, route.to_string()),
                Command::Set(route) => (Verb::Set, route.to_string()),
                Command::Remove(prefix, None) => (Verb::Remove, prefix.to_string()),
                Command::Remove(prefix, Some(hop)) => (Verb::Remove, format!("{prefix} {hop}")),
            };
            assert_eq!(SYNTAX().command(verb, &line.as_str().into()), Ok(command));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(
            text in "(add|set|remove|)[ 0-9./a-f\\-\"'\n]{0,40}|\\PC{0,60}",
            text6 in "(add|set|remove) [0-9a-f]{1,4}:(:|[0-9a-f:]{1,20})(/[0-9]{1,3})?( [0-9a-f:-]{1,20})?( [0-3])?",
        ) {
            rereads::<Ipv4Addr>(&text);
            rereads::<Ipv6Addr>(&text);
            rereads::<Ipv6Addr>(&text6);
        }
    }
}
