//! From a text to the flat graph: parses it, resolves names, expands compound elements, follows tunnels.
//!
//! ```
//! use millrace_lang::{SourceMap, compile, Options};
//!
//! let mut map = SourceMap::default();
//! let source = map.add("router.click", r"
//!     elementclass Shaped { $rate, LIMIT $n |
//!         input -> Queue($n) -> Shaper($rate) -> output;
//!     }
//!     FromDevice(eth0) -> s :: Shaped(1000, LIMIT 50) -> ToDevice(eth1);
//! ");
//! let (graph, diagnostics) = compile(&mut map, source, &Options::default());
//! assert!(diagnostics.is_empty());
//!
//! let queue = &graph.elements[2];
//! assert_eq!((queue.name.as_str(), queue.config.text.as_str()), ("s/Queue@1", "50"));
//! assert_eq!(graph.connections.len(), 3);
//! ```

mod arguments;
mod connect;
mod expand;
mod library;
mod options;
mod program;
mod resolve;
mod scope;
mod tunnels;

pub use expand::MAX_EXPANSION_DEPTH;
use library::Libraries;
pub use library::{FindLibrary, find_in_click_path, find_in_path};
pub use options::{Options, WhyAbsent};
use program::Limits;

use crate::diagnostic::{Diagnostic, Findings};
use crate::graph::{Assembly, Graph};
use crate::source::{SourceId, SourceMap};

/// Compiles a text of the map to the flat graph.
///
/// It finds all errors that are independent of each other. If there are errors among the diagnostics
/// ([`Diagnostic::is_error`]), the graph contains what could be understood.
///
/// Time and memory stay in proportion to the text. A few lines of nested compound elements can describe a
/// graph of any size, so there is a limit on the number of elements, of connections and of bytes, linear in
/// the length of the text. Exceeding it is an error.
pub fn compile(
    map: &mut SourceMap,
    source: SourceId,
    options: &Options<'_>,
) -> (Graph, Vec<Diagnostic>) {
    let mut findings = Findings::default();
    let libraries = Libraries::load(map, source, options.library, &mut findings);
    let limits = Limits::for_input(map.total_len());
    let syntax_errors = findings.has_errors();
    let resolved = resolve::resolve(map, &libraries, options, limits, &mut findings);
    let resolve::Resolved { program, requirements, provisions, .. } = resolved;
    // The trees are done with; expansion needs the room.
    drop(libraries);
    let mut graph = Graph { requirements, provisions, ..Graph::default() };
    let mut expansion = Findings::default();
    expand::expand(map, program, options.params, limits, &mut graph, &mut expansion);
    // What is missing because it could not be read is no mistake of its own.
    if !syntax_errors {
        findings.append(expansion);
    }
    (graph, findings.into_sorted())
}

/// What [`assemble`] does with the variables of the file and of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variables {
    /// Keeps them: `$x` does not change, and the assembly has the definitions.
    Keep,
    /// Replaces them with their values.
    Replace,
}

/// Compiles a text of the map to the form that Click's tools use, in their order.
pub fn assemble(
    map: &mut SourceMap,
    source: SourceId,
    options: &Options<'_>,
    variables: Variables,
) -> (Assembly, Vec<Diagnostic>) {
    assemble_to(map, source, options, variables, false)
}

/// Reads a text of the map like [`assemble`], but does not expand compound elements: they are elements of
/// their class, whose name is empty if it has none.
pub fn outline(
    map: &mut SourceMap,
    source: SourceId,
    options: &Options<'_>,
) -> (Assembly, Vec<Diagnostic>) {
    assemble_to(map, source, options, Variables::Keep, true)
}

fn assemble_to(
    map: &mut SourceMap,
    source: SourceId,
    options: &Options<'_>,
    variables: Variables,
    shallow: bool,
) -> (Assembly, Vec<Diagnostic>) {
    let mut findings = Findings::default();
    let libraries = Libraries::load(map, source, options.library, &mut findings);
    let limits = Limits::for_input(map.total_len());
    let syntax_errors = findings.has_errors();
    let resolved = resolve::resolve(map, &libraries, options, limits, &mut findings);
    let mut defined = resolved.program.file_variables();
    for (name, value) in options.params {
        match defined.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => old.clone_from(value),
            None => defined.push((name.clone(), value.clone())),
        }
    }
    let kept: Vec<(String, String)> =
        defined.iter().map(|(name, _)| (name.clone(), format!("${name}"))).collect();
    let params = if variables == Variables::Keep { &kept } else { options.params };
    let mut expansion = Findings::default();
    let of = |root: usize, findings: &mut Findings| {
        expand::expand_for_tools(map, &resolved.program, root, shallow, params, limits, findings)
    };
    let mut assembly = of(0, &mut expansion);
    // What is wrong inside a class is reported where it is used.
    let mut unused = Findings::default();
    assembly.classes = resolved
        .file_classes
        .iter()
        .map(|&(name, root)| (name.to_owned(), of(root, &mut unused)))
        .collect();
    assembly.requirements = resolved.requirements;
    if variables == Variables::Keep {
        assembly.variables = defined;
    }
    if !syntax_errors {
        findings.append(expansion);
    }
    (assembly, findings.into_sorted())
}
