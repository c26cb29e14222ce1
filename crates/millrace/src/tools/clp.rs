//! The command lines of the tools: short options in clusters, and long options by any unambiguous prefix. `--no-` and
//! `+` negate options that can be negated.

/// An option.
pub(super) struct Choice<I: 'static> {
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    pub(super) value: bool,
    pub(super) negatable: bool,
    pub(super) id: I,
}

/// An option without a value.
pub(super) const fn flag<I>(long: &'static str, short: Option<char>, id: I) -> Choice<I> {
    Choice { long, short, value: false, negatable: false, id }
}

/// An option without a value that can be negated.
pub(super) const fn switch<I>(long: &'static str, short: Option<char>, id: I) -> Choice<I> {
    Choice { long, short, value: false, negatable: true, id }
}

/// An option with a value.
pub(super) const fn valued<I>(long: &'static str, short: Option<char>, id: I) -> Choice<I> {
    Choice { long, short, value: true, negatable: false, id }
}

/// A word of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word<I> {
    Option { id: I, value: String, negated: bool },
    Plain(String),
}

/// Splits a command line into options and other words.
///
/// # Errors
/// An option is unknown or lacks its value; the message says so.
pub(super) fn parse<I: Copy + PartialEq>(
    choices: &[Choice<I>],
    args: &[String],
) -> Result<Vec<Word<I>>, String> {
    let mut words = Vec::new();
    let mut rest = args.iter();
    let mut only_plain = false;
    while let Some(arg) = rest.next() {
        let negated = arg.starts_with('+');
        if !only_plain && arg == "--" {
            only_plain = true;
        } else if let Some(long) = arg.strip_prefix("--").filter(|_| !only_plain) {
            words.push(parse_long(choices, long, &mut rest)?);
        } else if !only_plain && arg.len() > 1 && (arg.starts_with('-') || negated) {
            let mut letters = arg.chars();
            let sign = letters.next().unwrap_or('-');
            while let Some(letter) = letters.next() {
                let unknown = || format!("unrecognized option ‘{sign}{letter}’");
                let choice = choices.iter().find(|choice| choice.short == Some(letter));
                let choice = choice.filter(|c| !negated || c.negatable).ok_or_else(unknown)?;
                let value = match (choice.value, letters.as_str()) {
                    (false, _) => String::new(),
                    (true, "") => next(&mut rest, &format!("{sign}{letter}"))?,
                    (true, attached) => attached.to_owned(),
                };
                words.push(Word::Option { id: choice.id, value, negated });
                if choice.value {
                    break;
                }
            }
        } else {
            words.push(Word::Plain(arg.clone()));
        }
    }
    Ok(words)
}

fn parse_long<'a, I: Copy + PartialEq>(
    choices: &[Choice<I>],
    text: &str,
    rest: &mut impl Iterator<Item = &'a String>,
) -> Result<Word<I>, String> {
    let (name, attached) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let positive = name.strip_prefix("no-");
    let fits = |choice: &Choice<I>, whole: bool| {
        let one =
            |name: &str| if whole { choice.long == name } else { choice.long.starts_with(name) };
        let negated = choice.negatable && positive.is_some_and(one);
        (one(name) || negated).then_some((choice.id, choice.value, negated))
    };
    let find = |whole: bool| -> Vec<(I, bool, bool)> {
        let mut found: Vec<_> = choices.iter().filter_map(|choice| fits(choice, whole)).collect();
        found.dedup_by_key(|found| found.0);
        found
    };
    let mut found = find(true);
    if found.is_empty() {
        found = find(false);
    }
    let (id, value, negated) = match found[..] {
        [one] => one,
        [] => return Err(format!("unrecognized option ‘--{name}’")),
        _ => return Err(format!("option ‘--{name}’ is ambiguous")),
    };
    let value = match (value, attached) {
        (false, Some(_)) => return Err(format!("‘--{name}’ can’t take an argument")),
        (false, None) => String::new(),
        (true, Some(value)) => value.to_owned(),
        (true, None) => next(rest, &format!("--{name}"))?,
    };
    Ok(Word::Option { id, value, negated })
}

fn next<'a>(rest: &mut impl Iterator<Item = &'a String>, shown: &str) -> Result<String, String> {
    rest.next().cloned().ok_or_else(|| format!("‘{shown}’ requires an argument"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHOICES: &[Choice<u8>] = &[
        valued("output", Some('o'), 1),
        switch("verbose", Some('V'), 2),
        flag("version", Some('v'), 3),
        flag("decls", Some('d'), 4),
        flag("declarations", Some('d'), 4),
    ];

    #[track_caller]
    fn check(line: &str, expected: &[(u8, &str, bool)]) {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let words: Vec<Word<u8>> = expected
            .iter()
            .map(|&(id, value, negated)| match id {
                0 => Word::Plain(value.to_owned()),
                id => Word::Option { id, value: value.to_owned(), negated },
            })
            .collect();
        assert_eq!(parse(CHOICES, &args), Ok(words), "{line}");
    }

    #[test]
    fn options_and_words() {
        check("-o x --out=y file", &[(1, "x", false), (1, "y", false), (0, "file", false)]);
        check("-Vofile", &[(2, "", false), (1, "file", false)]);
        check("+V --no-verb --decl", &[(2, "", true), (2, "", true), (4, "", false)]);
        check("- -- -o", &[(0, "-", false), (0, "-o", false)]);
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |word: &str| parse(CHOICES, &[word.to_owned()]).unwrap_err();
        assert_eq!(refused("-Vx"), "unrecognized option ‘-x’");
        assert_eq!(refused("+o"), "unrecognized option ‘+o’");
        assert_eq!(refused("--ver"), "option ‘--ver’ is ambiguous");
        assert_eq!(refused("--output"), "‘--output’ requires an argument");
        assert_eq!(refused("--version=2"), "‘--version’ can’t take an argument");
    }
}
