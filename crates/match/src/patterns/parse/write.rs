//! Writes rules in the format that the [parser](super::snort) reads.

use std::fmt;

use crate::patterns::{Content, Kind, Kinds, PatternSet, Rule};

/// One rule per line, in the format [`Format::Snort`](crate::patterns::Format::Snort).
impl fmt::Display for PatternSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rules().iter().try_for_each(|rule| writeln!(f, "{rule}"))
    }
}

/// A line of a file of [rules](crate::patterns::Format::Snort).
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let only = [(Kind::Tcp, "tcp"), (Kind::Udp, "udp"), (Kind::Icmp, "icmp")];
        let protocol = only.iter().find(|(kind, _)| self.kinds == Kinds::only(*kind));
        let protocol = protocol.map_or("ip", |(_, name)| name);
        write!(f, "alert {protocol} any any -> any any (")?;
        if let Some(msg) = &self.msg {
            f.write_str("msg:\"")?;
            for c in msg.chars().map(|c| if c == '\n' { ' ' } else { c }) {
                let escape = if matches!(c, '"' | '\\' | ';') { "\\" } else { "" };
                write!(f, "{escape}{c}")?;
            }
            f.write_str("\"; ")?;
        }
        for (index, content) in self.contents.iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            write!(f, "{space}{content}")?;
        }
        if let Some(sid) = self.sid {
            write!(f, " sid:{sid};")?;
        }
        f.write_str(")")
    }
}

/// Options of a rule: text unchanged; other bytes, and those with a special meaning, in hexadecimal.
impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_text = |byte: u8| matches!(byte, b' '..=b'~') && !b"\"|;:\\".contains(&byte);
        f.write_str("content:\"")?;
        for run in self.bytes.chunk_by(|one, next| is_text(*one) == is_text(*next)) {
            if run.iter().all(|&byte| is_text(byte)) {
                write!(f, "{}", run.escape_ascii())?;
            } else {
                f.write_str("|")?;
                for (index, byte) in run.iter().enumerate() {
                    let space = if index > 0 { " " } else { "" };
                    write!(f, "{space}{byte:02x}")?;
                }
                f.write_str("|")?;
            }
        }
        f.write_str("\";")?;
        if self.nocase {
            f.write_str(" nocase;")?;
        }
        if self.offset > 0 {
            write!(f, " offset:{};", self.offset)?;
        }
        if let Some(depth) = self.depth {
            write!(f, " depth:{depth};")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::patterns::testing::sets;
    use crate::patterns::{Format, PlainOptions};

    proptest! {
        #[test]
        fn written_rules_can_be_read(set in sets(), msg in prop::option::of("[ -~é]{0,12}"), sid: Option<u32>) {
            let mut written = PatternSet::new();
            for rule in set.rules() {
                // Snort has no word for other protocols.
                let kinds = if rule.kinds == Kinds::only(Kind::Other) { Kinds::ALL } else { rule.kinds };
                written.push(Rule { msg: msg.clone(), sid, kinds, ..rule.clone() }).unwrap();
            }
            let read = PatternSet::parse(written.to_string().as_bytes(), Format::Snort, PlainOptions::default());
            prop_assert_eq!(read, Ok(written));
        }
    }
}
