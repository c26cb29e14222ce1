//! `require(library FILE)`: configuration files that other files include.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::ast::{DirectiveKind, File, Item};
use crate::config::{split_args, split_words, unquote};
use crate::diagnostic::Findings;
use crate::parser::parse_findings;
use crate::source::{SourceId, SourceMap};

/// Finds the text of a library: gets its name and the name of the file that requires it, and returns the name
/// for messages and the text, or an error message.
///
/// [`find_in_click_path`] is the one that Click users expect.
pub type FindLibrary<'o> = &'o dyn Fn(&str, &str) -> Result<(String, String), String>;

/// More libraries are an error: a program may be writing them as fast as they are read.
const MAX_LIBRARIES: usize = 100;

/// The trees of a configuration: its own, and those of all libraries that it requires.
#[derive(Debug)]
pub(super) struct Libraries {
    root: File,
    /// By index in the order of loading.
    files: Vec<File>,
    /// The meaning of a name in a file: the library's index, or why there is none.
    found: HashMap<(SourceId, String), Result<usize, String>>,
}

impl Libraries {
    /// Parses a text and, one after the other, the libraries that it requires.
    pub(super) fn load(
        map: &mut SourceMap,
        root: SourceId,
        find: Option<FindLibrary<'_>>,
        findings: &mut Findings,
    ) -> Self {
        let mut by_name: HashMap<String, usize> = HashMap::new();
        let mut libraries =
            Self { root: parse(map, root, findings), files: Vec::new(), found: HashMap::new() };
        let mut wanted = names(map, &libraries.root);
        let mut from = root;
        let mut next = 0;
        loop {
            for name in wanted {
                let Entry::Vacant(entry) = libraries.found.entry((from, name)) else { continue };
                let name = entry.key().1.as_str();
                let from_file = map.get(from).map_or("", |source| source.name.as_str());
                let found = match find {
                    None => Err(format!("library ‘{name}’ cannot be read here")),
                    Some(_) if libraries.files.len() >= MAX_LIBRARIES => {
                        Err(format!("more than {MAX_LIBRARIES} libraries"))
                    }
                    Some(find) => find(name, from_file),
                };
                let found = found.map(|(file, text)| {
                    *by_name.entry(file).or_insert_with_key(|file| {
                        let source = map.add(file.as_str(), text);
                        libraries.files.push(parse(map, source, findings));
                        libraries.files.len() - 1
                    })
                });
                entry.insert(found);
            }
            let Some(file) = libraries.files.get(next) else { return libraries };
            next += 1;
            (wanted, from) = (names(map, file), file.source);
        }
    }

    /// The configuration itself.
    pub(super) fn root(&self) -> &File {
        &self.root
    }

    /// The index of the library that `name` means in a file.
    pub(super) fn find(&self, from: SourceId, name: &str) -> Result<usize, String> {
        let missing = || Err(format!("library ‘{name}’ not found in CLICKPATH/conf"));
        self.found.get(&(from, name.to_owned())).cloned().unwrap_or_else(missing)
    }

    /// The library with an index.
    pub(super) fn get(&self, index: usize) -> Option<&File> {
        self.files.get(index)
    }
}

fn parse(map: &mut SourceMap, source: SourceId, findings: &mut Findings) -> File {
    let text = map.get(source).map_or("", |source| source.text.as_str());
    let (file, marks, found) = parse_findings(source, text);
    findings.append(found);
    map.set_marks(source, marks);
    file
}

/// The libraries that a file requires at file scope, in order.
fn names(map: &SourceMap, file: &File) -> Vec<String> {
    let text = map.get(file.source).map_or("", |source| source.text.as_str());
    let directives = file.items.iter().filter_map(|item| match item {
        Item::Directive(directive) if directive.kind == DirectiveKind::Require => Some(directive),
        _ => None,
    });
    let args = directives.flat_map(|directive| split_args(directive.config.of(text)));
    let name = |arg: crate::config::ArgText<'_>| match split_words(&arg.text)[..] {
        [kind, name] if kind.text == "library" => {
            Some(String::from_utf8_lossy(&unquote(name.text)).into_owned())
        }
        _ => None,
    };
    args.filter_map(name).collect()
}

/// Looks for a library as Click does: like [`find_in_path`], in the directories of the environment variable
/// `CLICKPATH`.
///
/// # Errors
/// See [`find_in_path`].
pub fn find_in_click_path(name: &str, from: &str) -> Result<(String, String), String> {
    find_in_path(&std::env::var("CLICKPATH").unwrap_or_default(), name, from)
}

/// Looks for a library: uses an absolute name unchanged; otherwise looks in each directory of `path`
/// (separated by colons), under `conf/` and directly, and last in the directory of the file that requires it.
///
/// # Errors
/// There is no such file, or it cannot be read; the text is Click's message.
pub fn find_in_path(path: &str, name: &str, from: &str) -> Result<(String, String), String> {
    let directories = path.split(':').filter(|dir| !dir.is_empty()).map(Path::new);
    let mut places: Vec<PathBuf> =
        directories.flat_map(|dir| [dir.join("conf").join(name), dir.join(name)]).collect();
    let beside = Path::new(from).parent().filter(|dir| !dir.as_os_str().is_empty());
    places.push(beside.unwrap_or(Path::new(".")).join(name));
    let Some(place) = places.into_iter().find(|place| place.exists()) else {
        return Err(format!("library ‘{name}’ not found in CLICKPATH/conf"));
    };
    let bytes = read(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok((place.display().to_string(), text.to_owned()))
}

/// The maximum number of bytes of a library.
const LONGEST: u64 = 64 << 20;

/// Reads a file that may have no end.
fn read(place: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(place)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LONGEST {
        true => Err(std::io::Error::other("longer than 64 MiB")),
        false => Ok(bytes),
    }
}
