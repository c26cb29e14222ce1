//! Rule files: lines as ClassBench writes them, with an action behind.
//!
//! ```text
//! @192.168.0.0/16 10.1.2.0/24 0 : 65535 1521 : 1521 0x06/0xff 3
//! @0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00 eth_type=0x0806 drop   # ARP
//! ```
//!
//! `@`, source and destination prefix (or address and mask, `10.0.0.1/255.0.0.255`), first and last source port,
//! first and last destination port, protocol and mask, and last an output number or `drop`. Between the protocol and
//! the action there may be ClassBench's TCP flags and their mask, which must be 0, for flags are none of the seven
//! fields; and any of `eth_src=ADDRESS`, `eth_dst=ADDRESS` and `eth_type=TYPE`, each with `/MASK` or without.
//! `#` begins a comment; empty lines are skipped.

use std::str::FromStr;

use millrace_lang::nearest;

use super::cursor::{Cursor, Read, RuleError, Word, Wrong, shown};
use super::key::LOWEST_TYPE;
use super::rule::{Action, ETHER_BITS, Masked, Ports, Rule, RuleSet};

impl RuleSet {
    /// The maximum number of errors that are reported for one text; the rest of the text is not read.
    pub const MOST_ERRORS: usize = 20;

    /// Reads rules, one per line.
    ///
    /// # Errors
    /// The first error of each wrong line, up to [`MOST_ERRORS`](Self::MOST_ERRORS).
    pub fn parse(text: &str) -> Result<Self, Vec<RuleError>> {
        Self::parse_for(MOST_OUTPUTS, text)
    }

    /// Reads rules for an element with this number of outputs.
    ///
    /// # Errors
    /// As [`parse`](Self::parse); and an action that names another output.
    pub fn parse_for(outputs: usize, text: &str) -> Result<Self, Vec<RuleError>> {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        // Some editors begin every file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (number, line) in (1..).zip(text.lines()) {
            let mut cursor = Cursor::new(line);
            if cursor.is_at_end() {
                continue;
            }
            match rule(&mut cursor, outputs) {
                Ok(_) if rules.len() == Self::MOST => {
                    let message = format!("more than {} rules", Self::MOST);
                    errors.push(RuleError { line: number, column: 1, message });
                    break;
                }
                Ok(rule) => rules.push(rule),
                Err(wrong) => errors.push(wrong.on_line(line, number)),
            }
            if errors.len() == Self::MOST_ERRORS {
                break;
            }
        }
        if errors.is_empty() { Ok(Self { rules }) } else { Err(errors) }
    }
}

/// Reads one rule.
impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(line: &str) -> Result<Self, RuleError> {
        Self::parse_for(MOST_OUTPUTS, line)
    }
}

impl Rule {
    /// Reads one rule for an element with this number of outputs.
    ///
    /// # Errors
    /// The error, on line 1.
    pub fn parse_for(outputs: usize, line: &str) -> Result<Self, RuleError> {
        // Otherwise a second rule after a comment would be taken for a part of the comment.
        if let Some((comment, behind)) = line.split_once('#')
            && let Some((_, more)) = behind.split_once('\n')
            && !more.trim().is_empty()
        {
            let message = "one rule is expected, and nothing after its comment".to_owned();
            let line = 2 + comment.matches('\n').count();
            return Err(RuleError { line, column: 1, message });
        }
        rule(&mut Cursor::new(line), outputs).map_err(|wrong| wrong.on_line(line, 1))
    }
}

fn rule(line: &mut Cursor<'_>, outputs: usize) -> Read<Rule> {
    line.skip_space();
    if !line.eat(b'@') {
        return Err(line.wrong_word("expected ‘@’ and the source prefix"));
    }
    let mut rule = Rule::any(Action::Drop);
    rule.source = net(line, "source")?;
    rule.destination = net(line, "destination")?;
    rule.source_ports = ports(line, "source")?;
    rule.destination_ports = ports(line, "destination")?;
    let word = line.word("the protocol and its mask, such as 0x06/0xff,")?;
    let (value, mask) = word.halves("a protocol and its mask, such as 0x06/0xff")?;
    rule.protocol = Masked::new(value.number(0xff)? as u8, mask.number(0xff)? as u8);
    rest(line, outputs, &mut rule)?;
    Ok(rule)
}

/// Reads what follows the protocol.
fn rest(line: &mut Cursor<'_>, outputs: usize, rule: &mut Rule) -> Read<()> {
    /// Words that may occur there, besides numbers.
    const NAMES: [&str; 4] = ["eth_src", "eth_dst", "eth_type", "drop"];
    let mut seen = [false; NAMES.len()];
    let mut may_be_flags = true;
    loop {
        let word = line.word("an action, an output number or ‘drop’,")?;
        let is_last = line.is_at_end();
        let (name, value) = word.named();
        let known = NAMES.iter().position(|it| *it == name);
        if let Some(known) = known
            && std::mem::replace(&mut seen[known], true)
        {
            return Err(word.wrong(format!("a second ‘{name}’")));
        }
        match (name, value) {
            ("eth_src", Some(value)) => rule.ether_source = ethernet(&value)?,
            ("eth_dst", Some(value)) => rule.ether_destination = ethernet(&value)?,
            ("eth_type", Some(value)) => rule.ether_type = ether_type(&value)?,
            ("drop", None) if is_last => return Ok(()),
            (_, None) if may_be_flags && word.text.contains('/') => flags(&word)?,
            (text, None) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                if !is_last {
                    return Err(line.wrong_word("expected nothing after the action"));
                }
                let output = word.number(MOST_OUTPUTS as u64 - 1)?;
                if output >= outputs as u64 {
                    return Err(word.wrong(format!(
                        "there is no output {output}; the number of \
                                                   outputs is {outputs}"
                    )));
                }
                rule.action = Action::Output(output as u16);
                return Ok(());
            }
            ("drop", None) => return Err(line.wrong_word("expected nothing after the action")),
            (_, None) if known.is_some() => {
                return Err(word.wrong(format!("expected ‘{name}=’ and a value")));
            }
            _ => {
                let near = nearest(name, NAMES);
                let hint = near.map_or(String::new(), |near| format!("; did you mean ‘{near}’?"));
                let expected = "expected eth_src=, eth_dst=, eth_type=, an output number or ‘drop’";
                let shown = shown(word.text);
                return Err(word.wrong(format!("unknown word ‘{shown}’, {expected}{hint}")));
            }
        }
        may_be_flags = false;
        if is_last {
            return Err(line.wrong("the action is missing: an output number or ‘drop’"));
        }
    }
}

/// The number of outputs that rules can name. Higher numbers encode drop reasons.
const MOST_OUTPUTS: usize = 0xff00;

fn flags(word: &Word<'_>) -> Read<()> {
    let (value, mask) = word.halves("TCP flags and their mask")?;
    value.number(0xffff)?;
    if mask.number(0xffff)? != 0 {
        let message = "TCP flags are not examined: the mask must be 0";
        return Err(mask.wrong(message));
    }
    Ok(())
}

/// A prefix, or an address and a mask.
fn net(line: &mut Cursor<'_>, end: &str) -> Read<Masked<u32>> {
    let word = line.word(&format!("the {end} prefix, such as 10.0.0.0/8,"))?;
    let (address, mask) = match word.split('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (word, None),
    };
    let address = address.ipv4()?;
    match mask {
        None => Ok(Masked::prefix(address, 32)),
        Some(mask) if mask.text.contains('.') => Ok(Masked::new(address, mask.ipv4()?)),
        Some(mask) => match mask.decimal(32) {
            Ok(len) => Ok(Masked::prefix(address, len as u8)),
            Err(_) => Err(mask.wrong(format!(
                "‘{}’ is neither a prefix length, 0 to 32, nor a mask",
                shown(mask.text)
            ))),
        },
    }
}

/// `first : last`, with spaces or without.
fn ports(line: &mut Cursor<'_>, end: &str) -> Read<Ports> {
    line.skip_space();
    let start = line.at;
    let first = line.port(end)?;
    line.skip_space();
    if !line.eat(b':') {
        return Err(line.wrong_word(&format!("expected ‘:’ and the last {end} port")));
    }
    let last = line.port(end)?;
    Ports::new(first, last).ok_or_else(|| Wrong {
        at: start,
        message: format!("the first {end} port, {first}, is greater than the last one, {last}"),
    })
}

fn ethernet(word: &Word<'_>) -> Read<Masked<u64>> {
    let (address, mask) = match word.split('/') {
        Some((address, mask)) => (address, Some(mask)),
        None => (*word, None),
    };
    let address = address.ethernet()?;
    let mask = mask.map_or(Ok(ETHER_BITS), |mask| mask.ethernet())?;
    Ok(Masked::new(address, mask))
}

fn ether_type(word: &Word<'_>) -> Read<Masked<u16>> {
    let Some((value, mask)) = word.split('/') else {
        let value = word.number(0xffff)?;
        if value < LOWEST_TYPE.into() {
            return Err(word.wrong("values below 0x0600 are lengths, not types"));
        }
        return Ok(Masked::new(value as u16, u16::MAX));
    };
    Ok(Masked::new(value.number(0xffff)? as u16, mask.number(0xffff)? as u16))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(line: &str) -> Rule {
        line.parse().unwrap()
    }

    #[test]
    fn lines_of_classbench_are_read() {
        let rule = one("@198.12.130.31/32\t192.168.0.0/16\t0 : 65535\t1521 : 1522\t0x06/0xFF\t\
                        0x0000/0x0000\t7\t");
        assert_eq!(rule.source, Masked::prefix(0xc60c_821f, 32));
        assert_eq!(rule.destination, Masked::prefix(0xc0a8_0000, 16));
        assert_eq!((rule.source_ports, rule.destination_ports.last()), (Ports::ANY, 1522));
        assert_eq!(rule.protocol, Masked::new(6, 0xff));
        assert_eq!(rule.action, Action::Output(7));
    }

    #[test]
    fn ethernet_fields_and_masks_are_read() {
        let rule = one(" @ 10.0.0.1/255.0.0.255 1.2.3.4 5:6 7 :8 17/0xf0 \
                        eth_type=0x8847 eth_dst=2:0:0:0:0:a \
                        eth_src=aa-bb-cc-00-00-00/ff:ff:ff:0:0:0 drop # and more");
        assert_eq!(rule.source, Masked::new(0x0a00_0001, 0xff00_00ff));
        assert_eq!(rule.destination, Masked::prefix(0x0102_0304, 32));
        assert_eq!(
            (rule.source_ports, rule.destination_ports.first()),
            (Ports::new(5, 6).unwrap(), 7)
        );
        assert_eq!(rule.protocol, Masked::new(0x10, 0xf0));
        assert_eq!(rule.ether_type, Masked::new(0x8847, 0xffff));
        assert_eq!(rule.ether_destination, Masked::new(0x0200_0000_000a, ETHER_BITS));
        assert_eq!(rule.ether_source, Masked::new(0xaabb_cc00_0000, 0xffff_ff00_0000));
        assert_eq!(rule.action, Action::Drop);
    }

    #[test]
    fn comments_and_empty_lines_are_skipped() {
        let line = "@0.0.0.0/0 0.0.0.0/0 0:65535 0:65535 0/0 0";
        let text = format!("# rules\r\n\n   \n{line} # first\r\n\t# none\n{line}");
        assert_eq!(RuleSet::parse(&text).unwrap().rules, [Rule::any(Action::Output(0)); 2]);
        assert_eq!(RuleSet::parse("").unwrap(), RuleSet::default());
        assert_eq!(one(&format!("{line} # one\n \n")), Rule::any(Action::Output(0)));
        let two = format!("{line} # one\n{line}").parse::<Rule>().unwrap_err();
        assert_eq!((two.line, two.column), (2, 1));
        let marked = format!("\u{feff}{line}");
        assert_eq!(RuleSet::parse(&marked).unwrap().rules.len(), 1);
    }

    #[test]
    fn messages_shorten_long_words() {
        let long = "é".repeat(1 << 16);
        let rest = "1.2.3.4/8 0:1 0:1 6/0xff";
        for line in [
            long.clone(),
            format!("@{long} {rest} 1"),
            format!("@1.2.3.4/{long} {rest} 1"),
            format!("@1.2.3.4/8 {rest} {long}"),
            format!("@1.2.3.4/8 {rest} eth_src={long} 1"),
        ] {
            let message = line.parse::<Rule>().unwrap_err().message;
            assert!(message.contains(&format!("‘{}…’", "é".repeat(40))), "{message}");
            assert!(message.len() < 300, "{message}");
        }
    }

    /// Each line, its error, and the text at the error's position.
    #[test]
    fn errors_have_a_position() {
        let words = "expected eth_src=, eth_dst=, eth_type=, an output number or ‘drop’";
        let cases: &[(&str, &str, &str)] = &[
            ("1.2.3.4/5", "1.2.3.4/5", "expected ‘@’ and the source prefix, not ‘1.2.3.4/5’"),
            ("@", "", "expected the source prefix, such as 10.0.0.0/8, not the end of the line"),
            ("@1.2.3/8", "1.2.3/8", "‘1.2.3’ is not an IPv4 address"),
            ("@1.2.3.4.5/8", "1.2.3.4.5", "‘1.2.3.4.5’ is not an IPv4 address"),
            ("@1.2.3.256/8", "1.2.3.256", "‘1.2.3.256’ is not an IPv4 address"),
            ("@1.2.3.+4/8", "1.2.3.+4", "‘1.2.3.+4’ is not an IPv4 address"),
            ("@1.2.3.4/33", "33", "‘33’ is neither a prefix length, 0 to 32, nor a mask"),
            ("@1.2.3.4/", "", "‘’ is neither a prefix length, 0 to 32, nor a mask"),
            ("@1.2.3.4/255.0.0", "255.0.0", "‘255.0.0’ is not an IPv4 address"),
            ("@1.2.3.4/8 x", "x", "‘x’ is not an IPv4 address"),
            ("@1.2.3.4/8 1.2.3.4/8", "", "expected a source port, not the end of the line"),
            ("@1.2.3.4/8 1.2.3.4/8 www", "www", "expected a source port, not ‘www’"),
            ("@1.2.3.4/8 1.2.3.4/8 1 2", "2", "expected ‘:’ and the last source port, not ‘2’"),
            ("@1.2.3.4/8 1.2.3.4/8 1 : ", "", "expected a source port, not the end of the line"),
            ("@1.2.3.4/8 1.2.3.4/8 1:65536", "65536", "‘65536’ is more than 65535"),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 9:8",
                "9:8",
                "the first destination port, 9, is greater than the last one, 8",
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1",
                "",
                "expected the protocol and its mask, such as 0x06/0xff, not the end of the line",
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 tcp 1",
                "tcp 1",
                "expected a protocol and its mask, such as 0x06/0xff, not ‘tcp’",
            ),
            ("@1.2.3.4/8 1.2.3.4/8 0:1 0:1 0x100/1", "0x100", "‘0x100’ is more than 0xff"),
            ("@1.2.3.4/8 1.2.3.4/8 0:1 0:1 1/0xfg", "0xfg", "‘0xfg’ is not a number"),
            ("@1.2.3.4/8 1.2.3.4/8 0:1 0:1 1/-1", "-1", "‘-1’ is not a number"),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff",
                "",
                "expected an action, an output number or ‘drop’, not the end of the line",
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff 0x0/0x200 1",
                "0x200",
                "TCP flags are not examined: the mask must be 0",
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff 0/0",
                "",
                "the action is missing: an output number or ‘drop’",
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff 0/0 0/0 1",
                "0/0 1",
                &format!("unknown word ‘0/0’, {words}"),
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff dorp",
                "dorp",
                &format!("unknown word ‘dorp’, {words}; did you mean ‘drop’?"),
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff eth_scr=1:2:3:4:5:6 1",
                "eth_scr",
                &format!("unknown word ‘eth_scr=1:2:3:4:5:6’, {words}; did you mean ‘eth_src’?"),
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff eth_src=1:2:3:4:5 1",
                "1:2:3:4:5 1",
                "‘1:2:3:4:5’ is not an Ethernet address",
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff eth_dst=1:2:3:4:5:6/7 1",
                "7 1",
                "‘7’ is not an Ethernet address",
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff eth_dst=1:2:3:4:5:6:7 1",
                "1:2:3:4:5:6:7 1",
                "‘1:2:3:4:5:6:7’ is not an Ethernet address",
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff eth_type=0x5ff 1",
                "0x5ff",
                "values below 0x0600 are lengths, not types",
            ),
            ("@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff eth_type=ip 1", "ip 1", "‘ip’ is not a number"),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff eth_type 1",
                "eth_type",
                "expected ‘eth_type=’ and a value",
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff eth_type=2048 eth_type=2048 1",
                "eth_type=2048 1",
                "a second ‘eth_type’",
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff 1 2",
                "2",
                "expected nothing after the action, not ‘2’",
            ),
            (
                "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff drop x",
                "x",
                "expected nothing after the action, not ‘x’",
            ),
            ("@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff 65280", "65280", "‘65280’ is more than 65279"),
        ];
        for (line, place, message) in cases {
            let error = RuleSet::parse(&format!("\n  {line}")).unwrap_err();
            let column = if place.is_empty() {
                line.trim_end().len() + 3
            } else {
                line.rfind(place).unwrap() + 3
            };
            let expected = RuleError { line: 2, column, message: (*message).to_owned() };
            assert_eq!(error, [expected], "{line}");
        }
    }

    #[test]
    fn the_output_of_an_action_must_exist() {
        let line = "@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff 2";
        assert_eq!(Rule::parse_for(3, line).unwrap(), one(line));
        let error = Rule::parse_for(2, line).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1, column 37: there is no output 2; the number of \
                                       outputs is 2"
        );
        assert_eq!(RuleSet::parse_for(2, line).unwrap_err(), [error]);
    }

    #[test]
    fn every_wrong_line_is_reported_up_to_a_limit() {
        let errors = RuleSet::parse("x\n\n# y\n@\nz").unwrap_err();
        assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [1, 4, 5]);
        assert_eq!(RuleSet::parse(&"x\n".repeat(100)).unwrap_err().len(), RuleSet::MOST_ERRORS);
        let column = RuleSet::parse("@1.2.3.4 ä").unwrap_err();
        assert_eq!(column[0].to_string(), "line 1, column 10: ‘ä’ is not an IPv4 address");
    }

    /// A random rule.
    pub(in crate::rules) fn any_rule() -> impl Strategy<Value = Rule> {
        let mask = prop_oneof![
            Just(0),
            Just(u32::MAX),
            (0..=32_u8).prop_map(|len| { Masked::prefix(0, len).mask() }),
            any::<u32>()
        ];
        let ether = || (any::<u64>(), prop_oneof![Just(0), Just(u64::MAX), any::<u64>()]);
        let net = || (any::<u32>(), mask.clone());
        let ports = || (any::<u16>(), any::<u16>());
        let action = prop_oneof![Just(Action::Drop), (0..=0xfeff_u16).prop_map(Action::Output)];
        let ether_type = (any::<u16>(), any::<u16>());
        (ether(), ether(), ether_type, net(), net(), any::<(u8, u8)>(), ports(), ports(), action)
            .prop_map(|(s, d, ether_type, source, destination, protocol, from, to, action)| Rule {
                ether_source: Masked::new(s.0 & ETHER_BITS, s.1 & ETHER_BITS),
                ether_destination: Masked::new(d.0 & ETHER_BITS, d.1 & ETHER_BITS),
                ether_type: Masked::new(ether_type.0, ether_type.1),
                source: Masked::new(source.0, source.1),
                destination: Masked::new(destination.0, destination.1),
                protocol: Masked::new(protocol.0, protocol.1),
                source_ports: Ports::new(from.0.min(from.1), from.0.max(from.1)).unwrap(),
                destination_ports: Ports::new(to.0.min(to.1), to.0.max(to.1)).unwrap(),
                action,
            })
    }

    proptest! {
        #[test]
        fn printed_rules_can_be_parsed(rules in proptest::collection::vec(any_rule(), 0..20)) {
            let rules = RuleSet { rules };
            prop_assert_eq!(RuleSet::parse(&rules.to_string()).unwrap(), rules);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[@0-9a-fx./: =\t\n#_éä-]{0,80}") {
            let _ = RuleSet::parse(&text);
            let _ = RuleSet::parse(&format!("@1.2.3.4/8 1.2.3.4/8 0:1 0:1 6/0xff {text}"));
        }
    }
}
