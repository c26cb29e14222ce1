//! No circle of more than two files that import each other, and none between folders: a file is understood once those that
//! it imports are.
//!
//! An import leads to the file that defines the name, not to one that hands it on. Tests are left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::imports::{self, Imports};
use super::text::Text;

/// Circles that may stay: a folder and the reason on each line.
pub(super) const ALLOWED: &str = "xtask/circles.txt";

/// The circles of all crates; `allowed` are folders in which they may be.
pub(super) fn findings(files: &[Text], allowed: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for manifest in files.iter().filter_map(|file| file.path.strip_suffix("Cargo.toml")) {
        let source = format!("{manifest}src/");
        let graph = Crate::read(files, &source).graph();
        for circle in graph.circles() {
            let folder = common_folder(circle.rooms.iter().map(String::as_str));
            match allowed.iter().find(|allowed| folder.starts_with(allowed.as_str())) {
                Some(allowed) => drop(used.insert(allowed)),
                None => findings.push(circle.text(&folder)),
            }
        }
    }
    let stale = allowed.iter().filter(|allowed| !used.contains(allowed));
    findings.extend(stale.map(|path| {
        format!(
            "{ALLOWED}: {path} has no circle; remove it from \
                                              the list"
        )
    }));
    findings
}

/// The files of a crate by their modules.
struct Crate<'t> {
    files: BTreeMap<Vec<String>, (&'t str, Imports)>,
}

/// Imports between rooms, which are files, or files and folders: from, to, and the names.
#[derive(Default)]
struct Graph(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

/// Rooms that import each other.
struct Circle {
    what: &'static str,
    rooms: Vec<String>,
    /// From, to, and the names.
    ties: Vec<(String, String, String)>,
}

impl<'t> Crate<'t> {
    fn read(files: &'t [Text], source: &str) -> Self {
        let mut all: BTreeMap<_, _> = files
            .iter()
            .filter_map(|file| {
                let inside = file.path.strip_prefix(source)?.strip_suffix(".rs")?;
                let mut module: Vec<String> = inside.split('/').map(str::to_owned).collect();
                if module.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main"))
                {
                    module.pop();
                }
                Some((module, (file.path.as_str(), imports::read(&file.content))))
            })
            .collect();
        let tests: Vec<Vec<String>> = all
            .iter()
            .flat_map(|(module, (_, imports))| {
                imports
                    .tests
                    .iter()
                    .map(|test| [module.as_slice(), std::slice::from_ref(test)].concat())
            })
            .collect();
        all.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        Self { files: all }
    }

    fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        for (module, (from, imports)) in &self.files {
            let own = imports.uses.iter().filter(|one| !one.is_public).map(|one| &one.path);
            for path in own.chain(&imports.paths) {
                let Some((to, _)) = self.target(module, path, 0) else { continue };
                if to != *from
                    && let Some(name) = path.last()
                {
                    graph.add(from, to, name);
                }
            }
        }
        graph
    }

    /// The file that a path leads to from a module; none when that is in another crate or in no file.
    fn target(
        &self,
        module: &[String],
        path: &[String],
        depth: usize,
    ) -> Option<(&'t str, &[String])> {
        /// Names that are handed on more often are not followed.
        const MOST_HANDS: usize = 8;
        let (mut base, mut rest) = match path.first()?.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (module.to_vec(), &path[1..]),
            "super" => {
                let up = path.iter().take_while(|name| *name == "super").count();
                (module.get(..module.len().checked_sub(up)?)?.to_vec(), &path[up..])
            }
            first => {
                let child = [module, &[first.to_owned()]].concat();
                self.files.contains_key(&child).then_some((child, &path[1..]))?
            }
        };
        while let Some((next, behind)) = rest.split_first() {
            base.push(next.clone());
            if !self.files.contains_key(&base) {
                base.pop();
                break;
            }
            rest = behind;
        }
        let (found, (file, imports)) = self.files.get_key_value(&base)?;
        let handed = rest.first().filter(|_| depth < MOST_HANDS).and_then(|name| {
            let one = imports.uses.iter().find(|one| one.name == *name && one.path != path)?;
            self.target(found, &one.path, depth + 1)
        });
        Some(handed.unwrap_or((file, found)))
    }
}

impl Graph {
    fn add(&mut self, from: &str, to: &str, name: &str) {
        let ties = self.0.entry(from.to_owned()).or_default();
        ties.entry(to.to_owned()).or_default().insert(name.to_owned());
        self.0.entry(to.to_owned()).or_default();
    }

    /// Circles of more than two files, then those between the folders of a folder.
    fn circles(&self) -> Vec<Circle> {
        let mut circles = self.rings("files", |rooms| rooms.len() > 2);
        let folders: BTreeSet<&str> = self.0.keys().flat_map(|file| ancestors(file)).collect();
        for folder in &folders {
            let room = |file: &str| {
                let inside = file.strip_prefix(folder)?.strip_prefix('/')?;
                let name = inside.split('/').next()?;
                let name = name.strip_suffix(".rs").unwrap_or(name);
                Some(format!("{folder}/{name}"))
            };
            let mut within = Graph::default();
            for (from, ties) in &self.0 {
                for (to, names) in ties {
                    if let (Some(a), Some(b)) = (room(from), room(to))
                        && a != b
                    {
                        let file = to.strip_prefix(folder).unwrap_or(to).trim_start_matches('/');
                        let names: Vec<&str> = names.iter().map(String::as_str).collect();
                        within.add(&a, &b, &format!("{file}: {}", names.join(", ")));
                    }
                }
            }
            let is_folder = |room: &&String| folders.contains(room.as_str());
            circles.extend(
                within.rings("folders", |rooms| rooms.iter().filter(is_folder).count() > 1),
            );
        }
        circles
    }

    /// Rooms that import each other, by the way of others too.
    fn rings(&self, what: &'static str, counts: impl Fn(&[String]) -> bool) -> Vec<Circle> {
        let reach: HashMap<&String, BTreeSet<&String>> =
            self.0.keys().map(|room| (room, self.reach(room))).collect();
        let mut seen = BTreeSet::new();
        let mut circles = Vec::new();
        for room in self.0.keys() {
            let together =
                |other: &&String| reach[room].contains(*other) && reach[*other].contains(room);
            let rooms: Vec<String> = self.0.keys().filter(together).cloned().collect();
            if rooms.len() < 2 || !seen.insert(rooms.clone()) || !counts(&rooms) {
                continue;
            }
            let ties = rooms.iter().flat_map(|from| {
                let ties = self.0[from].iter().filter(|(to, _)| rooms.contains(*to));
                ties.map(|(to, names)| {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    (from.clone(), to.clone(), names.join(", "))
                })
            });
            circles.push(Circle { what, ties: ties.collect(), rooms });
        }
        circles
    }

    /// All rooms that imports lead to from one.
    fn reach<'g>(&'g self, room: &'g String) -> BTreeSet<&'g String> {
        let mut reached = BTreeSet::new();
        let mut open = vec![room];
        while let Some(room) = open.pop() {
            for next in self.0.get(room).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(next) {
                    open.push(next);
                }
            }
        }
        reached
    }
}

impl Circle {
    fn text(&self, folder: &str) -> String {
        let short = |room: &str| {
            room.strip_prefix(folder).unwrap_or(room).trim_start_matches('/').to_owned()
        };
        let ties = self
            .ties
            .iter()
            .map(|(from, to, names)| format!("\n    {} -> {}: {names}", short(from), short(to)));
        format!(
            "{folder}: {} {} that import each other in a circle{}",
            self.rooms.len(),
            self.what,
            ties.collect::<String>()
        )
    }
}

/// The folders that a file is in.
fn ancestors(file: &str) -> impl Iterator<Item = &str> {
    file.match_indices('/').map(|(at, _)| &file[..at])
}

/// The folder that all of these are in.
fn common_folder<'r>(rooms: impl IntoIterator<Item = &'r str>) -> String {
    let mut rooms = rooms.into_iter();
    let first = rooms.next().unwrap_or_default();
    let folders: Vec<&str> = ancestors(first).collect();
    let others: Vec<&str> = rooms.collect();
    let holds = |folder: &&&str| {
        others
            .iter()
            .all(|room| room.strip_prefix(**folder).is_some_and(|rest| rest.starts_with('/')))
    };
    folders.iter().rev().find(holds).map_or_else(String::new, |folder| (*folder).to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::text::text;
    use super::*;

    /// The findings in a crate of these files, which are relative to `c/src`.
    fn found(files: &[(&str, &str)], allowed: &[&str]) -> Vec<String> {
        let mut texts = vec![text("c/Cargo.toml", "[package]")];
        texts.extend(files.iter().map(|(path, content)| text(&format!("c/src/{path}"), content)));
        let allowed: Vec<String> = allowed.iter().map(|path| (*path).to_owned()).collect();
        findings(&texts, &allowed)
    }

    #[test]
    fn two_files_may_be_partners_and_three_may_not() {
        let pair = [
            ("lib.rs", "mod a;\nmod b;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use super::a::A;"),
        ];
        assert_eq!(found(&pair, &[]), [] as [&str; 0]);
        let three = [
            ("lib.rs", ""),
            ("a.rs", "use crate::b::{B, C};"),
            ("b.rs", "fn f() -> crate::c::C {}"),
            ("c.rs", "use super::a;\nfn f() { a::g() }"),
        ];
        let expected = "c/src: 3 files that import each other in a circle\n    a.rs -> b.rs: B, C\n    b.rs -> c.rs: C\n    \
                        c.rs -> a.rs: a";
        assert_eq!(found(&three, &[]), [expected]);
        assert_eq!(found(&three, &["c/src"]), [] as [&str; 0]);
    }

    #[test]
    fn names_lead_to_the_file_that_defines_them() {
        // Through `mod.rs` to each other: no circle with `mod.rs` in it.
        let files = [
            ("x/mod.rs", "mod a;\nmod b;\npub use a::A;\nuse b::B;"),
            ("x/a.rs", "pub struct A;"),
            ("x/b.rs", "use super::A;\npub struct B;"),
            ("x/c.rs", "use super::B;"),
        ];
        assert_eq!(found(&files, &[]), [] as [&str; 0]);
        // The parent calls its children, who take a type from it.
        let files = [
            ("x/mod.rs", "mod a;\nmod b;\npub struct S;\nfn f() { a::g(); b::g() }"),
            ("x/a.rs", "use super::S;"),
            ("x/b.rs", "use super::S;"),
        ];
        assert_eq!(found(&files, &[]).len(), 1);
    }

    #[test]
    fn folders_may_not_import_each_other() {
        let files = [
            ("a/mod.rs", ""),
            ("b/mod.rs", ""),
            ("a/x.rs", "use crate::b::z::Z;"),
            ("a/y.rs", ""),
            ("b/z.rs", ""),
            ("b/w.rs", "use crate::a::y::Y;"),
        ];
        let expected = "c/src: 2 folders that import each other in a circle\n    a -> b: b/z.rs: Z\n    b -> a: a/y.rs: Y";
        assert_eq!(found(&files, &[]), [expected]);
        // A folder and the files beside it are one thing.
        let files = [
            ("a/x.rs", "use crate::b;"),
            ("b.rs", "use crate::a::y::Y;"),
            ("a/y.rs", ""),
            ("a/mod.rs", ""),
        ];
        assert_eq!(found(&files, &[]), [] as [&str; 0]);
    }

    #[test]
    fn imports_of_tests_do_not_count() {
        let files = [
            ("lib.rs", "#[cfg(test)]\nmod rig;"),
            ("a.rs", "use crate::b::B;\n#[cfg(test)]\nmod tests { use crate::c::C; }"),
            ("b.rs", "use crate::rig::R;"),
            ("c.rs", "use crate::a::A;"),
            ("rig.rs", "use crate::a::A;\nuse crate::c::C;"),
        ];
        assert_eq!(found(&files, &[]), [] as [&str; 0]);
    }

    #[test]
    fn an_exception_without_a_circle_is_stale() {
        assert_eq!(
            found(&[("a.rs", "")], &["c/src"]),
            ["xtask/circles.txt: c/src has no circle; remove it from the list"]
        );
    }
}
