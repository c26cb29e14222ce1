//! What a file imports: its `use` declarations and the paths in its code, as far as they lead to modules of its crate.

use super::words::words;

/// A file of a crate, as its imports matter.
#[derive(Default)]
pub(super) struct Imports {
    /// Paths of `use` declarations, each with the name that it has here.
    pub(super) uses: Vec<Use>,
    /// Other paths.
    pub(super) paths: Vec<Vec<String>>,
    /// The modules that are there for tests alone.
    pub(super) tests: Vec<String>,
}

/// A path that is imported.
pub(super) struct Use {
    pub(super) path: Vec<String>,
    pub(super) name: String,
    /// Whether it is handed on to others: no import of this file's own.
    pub(super) is_public: bool,
}

/// Reads a file. What `#[cfg(test)]` stands before is left out.
pub(super) fn read(text: &str) -> Imports {
    let words = words(text);
    let mut imports = Imports::default();
    // The braces that are open: true of those of a module.
    let mut open: Vec<bool> = Vec::new();
    let mut is_public = false;
    let mut at = 0;
    while let Some(&word) = words.get(at) {
        let rest = &words[at..];
        match word {
            "#" if rest.starts_with(&["#", "[", "cfg", "(", "test", ")", "]"]) => {
                let item = &rest[7..];
                let length = item_length(item);
                let name =
                    item.iter().position(|word| *word == "mod").and_then(|mod_| item.get(mod_ + 1));
                if let Some(name) = name.filter(|_| item.get(length - 1) == Some(&";")) {
                    imports.tests.push((*name).to_owned());
                }
                at += 7 + length;
                continue;
            }
            "pub" => {
                is_public = true;
                at += match rest.get(1) {
                    Some(&"(") => rest.iter().position(|word| *word == ")").unwrap_or(0) + 1,
                    _ => 1,
                };
                continue;
            }
            "use" if rest.get(1).is_none_or(|next| *next != "<") => {
                let end = rest.iter().position(|word| *word == ";").unwrap_or(rest.len());
                let depth = open.iter().filter(|module| **module).count();
                tree(&rest[1..end], &[], &mut |path, name| {
                    if let Some(path) = outside(path, depth) {
                        imports.uses.push(Use { path, name, is_public });
                    }
                });
                at += end;
            }
            "mod" if rest.get(2) == Some(&"{") => {
                open.push(true);
                at += 3;
                is_public = false;
                continue;
            }
            "{" => open.push(false),
            "}" => drop(open.pop()),
            _ if rest.get(1) == Some(&"::") && is_name(word) => {
                let mut path = vec![word.to_owned()];
                while rest.get(path.len() * 2 - 1) == Some(&"::")
                    && let Some(next) = rest.get(path.len() * 2).filter(|next| is_name(next))
                {
                    path.push((*next).to_owned());
                }
                at += path.len() * 2 - 1;
                let depth = open.iter().filter(|module| **module).count();
                imports.paths.extend(outside(path, depth));
                is_public = false;
                // A path that goes on in generics has no more names.
                continue;
            }
            _ => {}
        }
        is_public = false;
        at += 1;
    }
    imports
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// How many words an item has, to its `;` or the end of its braces.
fn item_length(words: &[&str]) -> usize {
    let mut depth = 0_usize;
    for (at, word) in words.iter().enumerate() {
        match *word {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && *word == "}" {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    words.len().max(1)
}

/// Gives each path of a `use` tree, and its name here.
fn tree(words: &[&str], before: &[String], give: &mut impl FnMut(Vec<String>, String)) {
    for part in words.split_at_commas() {
        let mut path = before.to_vec();
        let mut name = None;
        for (at, word) in part.iter().enumerate() {
            match *word {
                "::" => {}
                "{" => {
                    let end = part.len().saturating_sub(1);
                    tree(part.get(at + 1..end).unwrap_or_default(), &path, give);
                    path.clear();
                    break;
                }
                "as" => {
                    name = part.get(at + 1).map(|name| (*name).to_owned());
                    break;
                }
                word => path.push(word.to_owned()),
            }
        }
        if path.len() > before.len() && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let last = path.last().cloned();
        if let Some(last) = last.filter(|_| !path.is_empty()) {
            give(path, name.unwrap_or(last));
        }
    }
}

trait SplitAtCommas {
    /// The parts between commas that stand in no braces.
    fn split_at_commas(&self) -> Vec<&Self>;
}

impl SplitAtCommas for [&str] {
    fn split_at_commas(&self) -> Vec<&Self> {
        let mut depth = 0_usize;
        let parts = self.split(|word| {
            match *word {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            *word == "," && depth == 0
        });
        parts.filter(|part| !part.is_empty()).collect()
    }
}

/// The path as the file has it, if it leads out of the modules within the file that it stands in.
fn outside(path: Vec<String>, depth: usize) -> Option<Vec<String>> {
    let up = path.iter().take_while(|name| *name == "super").count();
    match path.first().map(String::as_str) {
        Some("super") if up < depth => None,
        Some("super") if up == depth => {
            Some(std::iter::once("self".to_owned()).chain(path.into_iter().skip(up)).collect())
        }
        Some("super") => Some(path.into_iter().skip(depth).collect()),
        Some("self") if depth > 0 => None,
        _ => Some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(text: &str) -> Vec<String> {
        let show = |one: Use| {
            format!(
                "{} {}{}",
                one.path.join("::"),
                one.name,
                if one.is_public { " pub" } else { "" }
            )
        };
        read(text).uses.into_iter().map(show).collect()
    }

    #[test]
    fn trees_of_imports_are_taken_apart() {
        let text = "use super::{a::{self, B}, c as d};\npub(super) use crate::E;\nuse f::*;";
        let expected = ["super::a a", "super::a::B B", "super::c d", "crate::E E pub", "f::* *"];
        assert_eq!(uses(text), expected);
    }

    #[test]
    fn tests_import_nothing() {
        let text = "#[cfg(test)]\nmod tests { use super::a; fn f() { b::c() } }\n#[cfg(test)]\npub(crate) mod rig;\n\
                    #[cfg(test)]\nfn g() { crate::d::e() }\nuse super::f;";
        let imports = read(text);
        assert_eq!(imports.uses.len(), 1);
        assert_eq!(imports.paths, [] as [Vec<String>; 0]);
        assert_eq!(imports.tests, ["rig"]);
    }

    #[test]
    fn paths_in_code_are_imports_and_visibilities_are_not() {
        let text = "pub(in crate::a) fn f() -> super::B<c::D> { e::f::<G>(\"h::i\") }\n\
                    mod inner { const J: u32 = super::super::k::L + super::m::N; }";
        let paths: Vec<String> = read(text).paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["super::B", "c::D", "e::f", "super::k::L", "self::m::N"]);
    }
}
