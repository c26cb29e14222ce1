//! Handlers that a script names and that do not exist, for `millrace check`.

use millrace_core::element::Inspection;
use millrace_core::router::or_rather;
use millrace_lang::config::unquote;
use millrace_lang::nearest;

use super::program::{Program, Step, split};

/// A handler that an instruction names outright.
struct Named<'p> {
    name: &'p str,
    writes: bool,
}

/// Advises on every handler that the script names and that does not exist, with the name that was probably meant. What
/// a name is that contains a variable is known only when the script runs.
pub(super) fn advise(program: &Program, inspection: &mut Inspection<'_>) {
    let mut told: Vec<String> = Vec::new();
    for named in program.steps.iter().flat_map(named_by) {
        let name = String::from_utf8_lossy(&unquote(named.name)).into_owned();
        let is_plain = !name.is_empty() && !name.contains(['$', '\\']);
        // Both exist only with options of the command line.
        let is_of_program = name == "hotconfig" || name.starts_with("click_driver@@");
        if !is_plain || is_of_program || told.contains(&name) {
            continue;
        }
        if let Some(advice) = missing(&name, named.writes, inspection) {
            inspection.advise(advice);
            told.push(name);
        }
    }
}

/// The handlers that an instruction names.
fn named_by(step: &Step) -> Vec<Named<'_>> {
    let mut named = Vec::new();
    let begins_name = |c: char| c.is_ascii_alphabetic() || matches!(c, '@' | '_');
    match step {
        Step::Print { text, .. } if text.starts_with(begins_name) => {
            named.push(Named { name: split(text).0, writes: false });
        }
        Step::Read { text, .. } => named.push(Named { name: split(text).0, writes: false }),
        Step::Write { text, .. } => named.push(Named { name: split(text).0, writes: true }),
        _ => {}
    }
    for text in step.texts() {
        let calls = text.split("$(").skip(1);
        named.extend(calls.map(|call| {
            let end = call.find(|c: char| c.is_whitespace() || c == ')').unwrap_or(call.len());
            Named { name: call.get(..end).unwrap_or_default(), writes: false }
        }));
    }
    named
}

/// What is wrong with the name of a handler, as the script's element would look it up; `None` if nothing is.
fn missing(name: &str, writes: bool, inspection: &Inspection<'_>) -> Option<String> {
    let own = inspection.id();
    let exists = |element, handler: &str| allows(element, handler, writes, inspection);
    if exists(Some(own), name) || exists(None, name.trim_start_matches('.')) {
        return None;
    }
    let what = if writes { "write" } else { "read" };
    let Some((element, handler)) = name.split_once('.').filter(|(element, _)| !element.is_empty())
    else {
        let near = near(name, writes, [Some(own), None], inspection);
        return Some(format!("there is no {what} handler ‘{name}’{near}"));
    };
    let Some(id) = inspection.resolve(own, element) else {
        let all: Vec<&str> = (0..inspection.len()).map(|id| inspection.name_of(id)).collect();
        let near = or_rather(nearest(element, all));
        return Some(format!("‘{name}’: there is no element ‘{element}’{near}"));
    };
    if exists(Some(id), handler) || inspection.answers_any(id) {
        return None;
    }
    let near = near(handler, writes, [Some(id)], inspection);
    Some(format!("‘{}’ has no {what} handler ‘{handler}’{near}", inspection.described(id)))
}

/// Whether the element, or the router, has a handler of this name for reading or for writing.
fn allows(
    element: Option<usize>,
    handler: &str,
    writes: bool,
    inspection: &Inspection<'_>,
) -> bool {
    let access = inspection.handler_access(element, handler);
    access.is_some_and(|(read, write)| if writes { write } else { read })
}

/// The handler that was probably meant.
fn near(
    handler: &str,
    writes: bool,
    of: impl IntoIterator<Item = Option<usize>>,
    inspection: &Inspection<'_>,
) -> String {
    let of_element = |id| {
        let known = inspection.handlers_of(id).into_iter();
        known.filter(move |known| allows(id, known, writes, inspection))
    };
    let known: Vec<String> = of.into_iter().flat_map(of_element).collect();
    let near = nearest(handler, known.iter().map(String::as_str));
    or_rather(near)
}
