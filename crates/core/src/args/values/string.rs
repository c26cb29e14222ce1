//! Strings, bytes, words and file names.

use millrace_lang::config::is_word;

use crate::args::{Arg, ArgError, ArgText, Scope};

/// One word or quoted string, without its quotes.
impl Arg for String {
    const EXPECTS: &'static str = "a string (quote it when it has spaces)";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let bytes = string_bytes(text)?;
        Self::from_utf8(bytes).map_err(|_| ArgError::new("not UTF-8 text"))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// Like a string, but its escapes may produce any bytes: `\<00 ff>`.
impl Arg for Vec<u8> {
    const EXPECTS: &'static str = "a string (quote it when it has spaces)";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        string_bytes(text)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

fn string_bytes(text: &ArgText) -> Result<Vec<u8>, ArgError> {
    if text.is_one_word() { Ok(text.unquote()) } else { Err(ArgError::default()) }
}

/// The argument as written, including spaces and quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raw(pub String);

impl Arg for Raw {
    const EXPECTS: &'static str = "anything";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        Ok(Self(text.as_str().to_owned()))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A word: printable ASCII characters without spaces, quotes, backslashes and commas. Quotes around it are
/// removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Word(pub String);

impl Word {
    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Arg for Word {
    const EXPECTS: &'static str = "a word";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let word = String::parse(text, scope).map_err(|_| ArgError::default())?;
        if is_word(&word) { Ok(Self(word)) } else { Err(ArgError::default()) }
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// The name of a file. `~` and `~user` at its start stand for home directories; repeated slashes become one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileName(pub String);

impl FileName {
    /// The name as a path.
    pub fn as_path(&self) -> &std::path::Path {
        self.0.as_ref()
    }
}

impl AsRef<std::path::Path> for FileName {
    fn as_ref(&self) -> &std::path::Path {
        self.as_path()
    }
}

impl Arg for FileName {
    const EXPECTS: &'static str = "a file name";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let name = String::parse(text, scope)?;
        if name.is_empty() {
            return Err(ArgError::default());
        }
        let mut path = expand_home(name);
        let mut after_slash = false;
        path.retain(|c| !std::mem::replace(&mut after_slash, c == '/') || c != '/');
        Ok(Self(path))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// The name with a known home directory instead of `~` or `~user`.
fn expand_home(name: String) -> String {
    let Some(rest) = name.strip_prefix('~') else { return name };
    let (user, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let home = match user {
        "" => std::env::var("HOME").ok(),
        user => home_of(user),
    };
    match home {
        Some(home) => home + rest,
        None => name,
    }
}

/// The home directory of a user of this machine, from its password file (passwd(5)).
fn home_of(user: &str) -> Option<String> {
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(user)).then(|| fields.nth(4).map(str::to_owned))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::tests::{accepts, rejects};

    #[test]
    fn strings_lose_their_quotes() {
        for (text, value) in [
            ("abc", "abc"),
            ("\"a b\"", "a b"),
            ("'a b'", "a b"),
            ("a\"b c\"d", "ab cd"),
            ("\"\\t\\x41\\101\\\"\"", "\tAA\""),
            ("'\\t'", "\\t"),
            ("\\<48 65 /* l */ 6C>", "Hel"),
            ("\"\"", ""),
            ("ünï", "ünï"),
        ] {
            accepts(text, value.to_owned());
            accepts(text, value.as_bytes().to_owned());
            accepts(text, Raw(text.to_owned()));
        }
        rejects::<String>("a b", "parse error");
        rejects::<String>("\\<ff>", "not UTF-8 text");
        accepts("\\<ff00>", vec![0xff, 0]);
        accepts("a b", Raw("a b".into()));
    }

    #[test]
    fn words_are_plain() {
        accepts("eth0", Word("eth0".into()));
        accepts("\"a-b\"", Word("a-b".into()));
        for wrong in ["a b", "\"a b\"", "\"\"", "'a,b'", "é", "'\\'"] {
            rejects::<Word>(wrong, "parse error");
        }
    }

    #[test]
    fn file_names_know_home() {
        let home = std::env::var("HOME").unwrap_or("~".into());
        accepts("\"/a//b///c\"", FileName("/a/b/c".into()));
        accepts("\"my file\"", FileName("my file".into()));
        accepts("~", FileName(home.clone()));
        accepts("~/x", FileName(format!("{home}/x").replace("//", "/")));
        accepts("~root/x", FileName("/root/x".into()));
        accepts("~no-such-user/x", FileName("~no-such-user/x".into()));
        accepts("-", FileName("-".into()));
        rejects::<FileName>("a b", "parse error");
        rejects::<FileName>("\"\"", "parse error");
    }
}
