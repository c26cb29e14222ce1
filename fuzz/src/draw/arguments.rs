//! Arguments of elements: as manuals show them, made of the kinds of values that a class asks for, changed, or of any
//! bytes.

use arbitrary::Unstructured;
use millrace_core::args::{Asked, Kind};

use super::{Known, below, known, one_of, rarely};
use crate::guard;

/// Words of what an argument expects, and values that are such, nearly such, or at their limits. The first row that fits
/// counts.
const VALUES: &[(&str, &[&str])] = &[
    ("true or false", &["true", "false"]),
    ("IPv6 prefix", &["::/0", "2001:db8::/32", "2001:db8::1/128", "::/129"]),
    ("IPv6", &["2001:db8::1", "::", "ff02::1", "::ffff:10.0.0.1", "2001:db8::1/64"]),
    ("IP prefix", &["10.0.0.0/8", "0.0.0.0/0", "10.0.0.1/32", "10.0.0.1/255.255.0.255"]),
    ("IP address", &["10.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.9", "10.0.0.2/24"]),
    ("Ethernet", &["2:0:0:0:0:1", "ff:ff:ff:ff:ff:ff", "0:0:0:0:0:0", "1:80:c2:0:0:0"]),
    ("bandwidth", &["1MBps", "0", "1bps", "100Gbps", "4294967295GBps"]),
    ("milliseconds", &["1", "0", "50us", "1h", "4294967296"]),
    ("time", &["0.01", "0", "1ms", "-1", "1e-9", "4294967296", "9223372036854775807"]),
    ("real number", &["0.5", "0", "1", "-1", "1e300", "1e-300"]),
    ("annotation", &["0", "PAINT", "DST_IP", "12", "44", "47", "48", "AGGREGATE"]),
    ("port", &["80", "0", "65535", "dns", "65536"]),
    ("protocol", &["udp", "tcp", "icmp", "0", "255", "41"]),
    ("ICMP type", &["echo", "timeexceeded", "unreachable", "redirect", "255"]),
    ("element", &["e1", "e2", "e3", "e0", "e4", "e5", "e6", "nobody"]),
    ("a field", &["ip src/8", "ip[8:2]", "ip ttl & 0xf", "ip dst", "ip[0:4]", "ip tos"]),
    ("output", &["0", "1", "2", "drop", "-1"]),
];

/// Numbers at which code changes its mind.
const NUMBERS: &[&str] = &[
    "1",
    "0",
    "2",
    "3",
    "7",
    "14",
    "20",
    "34",
    "60",
    "64",
    "100",
    "255",
    "256",
    "1500",
    "2048",
    "65535",
    "65536",
    "-1",
    "2147483648",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "0x800",
    "1k",
];

/// Words that some class or other knows.
const WORDS: &[&str] = &[
    "x",
    "src",
    "dst",
    "HEX",
    "-",
    "0/08",
    "12/0800",
    "ip",
    "tcp",
    "udp port 53",
    "allow all",
    "deny all",
    "src net 10.0.0.0/8",
    "10.0.0.0/8 0",
    "10.0.0.0/8 10.0.0.1 1",
    "0.0.0.0/0 0",
    "pattern 10.0.0.1 1024-65535 - - 0 1",
    "pass 0",
    "drop",
    "keep 0 1",
    "e1.count",
    "e2.reset 1",
    "\\<00ff>",
    "\"\"",
    "'",
    "$x",
    "a b",
    "print $x",
    "set x 1",
    "goto l",
    "label l",
    "wait 1ms",
    "write e1.reset",
    "read e1.count",
    "return 1",
    "ts_ip_src",
    "ip_src",
    "sport payload",
];

/// How right the arguments of a configuration are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    /// As manuals show them, or only those that a class cannot do without: most of such routers run.
    Right,
    /// Anything.
    Any,
}

/// Arguments for an element of a class.
pub(crate) fn arguments(input: &mut Unstructured<'_>, class: &Known, care: Care) -> String {
    let is_shown = !class.shown.is_empty();
    match (care, below(input, 12)) {
        (Care::Right, 0..11) | (Care::Any, 0..5) if is_shown => {
            one_of(input, &class.shown).cloned().unwrap_or_default()
        }
        (_, 5..8) if is_shown => {
            let shown = one_of(input, &class.shown).cloned().unwrap_or_default();
            changed(input, class, &shown)
        }
        (Care::Any, 11) => hostile_text(input),
        (care, _) => asked(input, class, care),
    }
}

/// Arguments such as the class asks for.
fn asked(input: &mut Unstructured<'_>, class: &Known, care: Care) -> String {
    let mut arguments: Vec<String> = Vec::new();
    for asked in &class.asked {
        let is_needed = matches!(asked.kind, Kind::Mandatory | Kind::MandatoryKeyword);
        if !is_needed && (care == Care::Right || !rarely(input, 4)) {
            continue;
        }
        let value = value(input, asked, care);
        arguments.push(match asked.kind {
            Kind::Mandatory => value,
            _ => format!("{} {value}", asked.name),
        });
    }
    if care == Care::Any && rarely(input, 8) {
        arguments.push(one_of(input, WORDS).map_or_else(String::new, |&word| word.to_owned()));
    }
    arguments.join(", ")
}

/// Arguments with one of them changed, left out, put twice or added.
fn changed(input: &mut Unstructured<'_>, class: &Known, text: &str) -> String {
    let mut arguments: Vec<String> = text.split(',').map(|part| part.trim().to_owned()).collect();
    let at = below(input, arguments.len());
    match below(input, 6) {
        0 => _ = arguments.remove(at),
        1 => arguments.insert(at, arguments[at].clone()),
        2 if !class.asked.is_empty() => {
            if let Some(asked) = one_of(input, &class.asked) {
                let value = value(input, asked, Care::Any);
                arguments.push(format!("{} {value}", asked.name));
            }
        }
        3 => arguments[at] = one_of(input, WORDS).map_or_else(String::new, |&word| word.to_owned()),
        _ => {
            // A word of it is another number.
            let mut words: Vec<&str> = arguments[at].split(' ').collect();
            let word = below(input, words.len());
            words[word] = one_of(input, NUMBERS).copied().unwrap_or_default();
            arguments[at] = words.join(" ");
        }
    }
    arguments.join(", ")
}

/// A value for an argument.
fn value(input: &mut Unstructured<'_>, asked: &Asked, care: Care) -> String {
    if asked.expects.contains("file name") {
        return file(input);
    }
    if asked.expects.contains("handler") {
        let handler = one_of(input, &known().handlers).cloned().unwrap_or_default();
        return format!("e{}.{handler} {}", below(input, 8), below(input, 3));
    }
    let row = VALUES.iter().find(|(word, _)| asked.expects.contains(word));
    let values = match row {
        Some((_, values)) => values,
        None if asked.expects.contains("string") || asked.expects.contains("word") => WORDS,
        // An enumeration names its values.
        None if asked.expects.contains(" or ") => {
            let words: Vec<&str> = asked.expects.split([' ', ',', '‘', '’']).collect();
            return one_of(input, &words).map_or_else(String::new, |&word| word.to_owned());
        }
        None => NUMBERS,
    };
    let values = if care == Care::Any && rarely(input, 8) { NUMBERS } else { values };
    one_of(input, values).map_or_else(String::new, |&value| value.to_owned())
}

/// The name of a file: one that may be written, and exists or not.
fn file(input: &mut Unstructured<'_>) -> String {
    let Ok(folder) = guard::folder() else { return String::new() };
    let folder = folder.display();
    match below(input, 6) {
        0 => "/dev/null".to_owned(),
        1 => "-".to_owned(),
        2 => folder.to_string(),
        3 => format!("{folder}/none/x"),
        n => format!("{folder}/{n}"),
    }
}

/// Some bytes of the input, as text.
pub(crate) fn hostile_text(input: &mut Unstructured<'_>) -> String {
    let length = below(input, 64).min(input.len());
    String::from_utf8_lossy(input.bytes(length).unwrap_or_default()).into_owned()
}
