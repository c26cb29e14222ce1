//! The options `-h` and `-x`: handlers that are read after the router has stopped.

use millrace_core::router::or_rather;
use millrace_core::{Class, HandlerError, Router};

use super::glob;

/// Reads handlers. Each is named `ELEMENT.HANDLER`, where the element may be a pattern or a class, or `HANDLER` for
/// the router's own. Appends their values to `out`, each with a heading if there can be more than one. Returns the
/// errors.
pub(super) fn read_all(router: &Router, paths: &[String], out: &mut Vec<u8>) -> Vec<String> {
    let mut complaints = Vec::new();
    for path in paths {
        let (elements, handler, headed) = match path.split_once('.') {
            None => (vec![None], path.as_str(), paths.len() > 1),
            Some((pattern, handler)) => match expand(router, pattern, handler) {
                Ok((found, several)) => {
                    let elements = found.into_iter().map(Some).collect();
                    (elements, handler, paths.len() > 1 || several)
                }
                Err(complaint) => {
                    complaints.push(complaint);
                    continue;
                }
            },
        };
        for element in elements {
            complaints.extend(read(router, element, handler, headed, out).err());
        }
    }
    complaints
}

/// Converts the value of a handler to an exit status.
///
/// # Errors
/// The handler cannot be read, or its value is neither a number nor a truth value; the message says so.
pub(super) fn exit_status(router: &Router, path: &str) -> Result<u8, String> {
    let value = router.read(path, b"").map_err(|error| error.to_string())?;
    match String::from_utf8_lossy(&value).trim() {
        "true" => Ok(0),
        "false" => Ok(1),
        number => match number.parse::<i64>() {
            // The system keeps only the low byte of an exit status.
            Ok(status) => Ok((status & 0xff) as u8),
            Err(_) => Err("exit handler value should be integer".to_owned()),
        },
    }
}

/// The elements that `pattern` denotes, and whether it could denote several: the element of that name; otherwise the
/// elements whose names match it, if it is a pattern; otherwise the elements of that class. If there are several,
/// only those that have the handler.
fn expand(router: &Router, pattern: &str, handler: &str) -> Result<(Vec<usize>, bool), String> {
    if let Some(id) = router.find(pattern) {
        return Ok((vec![id], false));
    }
    let is_glob = pattern.contains(['?', '*', '[']);
    let fits = |name: &str, class: &Class| match is_glob {
        true => glob::fits(pattern, name),
        false => class.name == pattern || class.aliases.contains(&pattern),
    };
    let fitting: Vec<usize> = router
        .elements()
        .enumerate()
        .filter(|(_, element)| fits(element.name, element.class))
        .map(|(id, _)| id)
        .collect();
    match fitting.is_empty() {
        true if is_glob => Err(format!("no element matching ‘{pattern}’")),
        true => {
            let near = or_rather(router.near_element(pattern));
            Err(format!("no element ‘{pattern}’{near}"))
        }
        false => {
            let readable = |id: &usize| {
                router.handlers_of(*id).iter().any(|(name, read, _)| name == handler && *read)
            };
            Ok((fitting.into_iter().filter(readable).collect(), true))
        }
    }
}

fn read(
    router: &Router,
    element: Option<usize>,
    handler: &str,
    headed: bool,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let name = match element {
        Some(id) => format!("{}.{handler}", router.name_of(id)),
        None => handler.to_owned(),
    };
    let value = match element {
        Some(id) => router.read_of(id, handler, b""),
        None => router.read(handler, b""),
    };
    let value = match value {
        Ok(value) => value,
        Err(HandlerError::WriteOnly(_)) => return Err(format!("‘{name}’ is a write handler")),
        // Click reads it nevertheless, and gets an empty value.
        Err(HandlerError::Refused(_)) => Vec::new(),
        Err(_) => {
            let near = or_rather(router.near_handler(element, handler, false));
            return Err(format!("no ‘{name}’ handler{near}"));
        }
    };
    if headed {
        out.extend_from_slice(format!("{name}:\n").as_bytes());
    }
    out.extend_from_slice(&value);
    if value.last().is_some_and(|&byte| byte != b'\n') {
        out.push(b'\n');
    }
    if headed {
        out.push(b'\n');
    }
    Ok(())
}
