//! The web console: a page that shows the router in a browser. Its files are part of the program, and it asks for what the
//! API has, and for where the boxes and lines of the graph lie.
//!
//! The files hold nothing that is this router's, so everybody gets them: the page itself must be there to ask for a token.

use std::collections::HashSet;

use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY};
use hyper::{Method, Uri};

use super::answer::{Answer, Refusal, whole};

/// The path, the kind and the text of each file.
const FILES: &[(&str, &str, &str)] = &[
    ("/", "text/html; charset=utf-8", include_str!("console/index.html")),
    ("/console/console.css", "text/css; charset=utf-8", include_str!("console/console.css")),
    ("/console/icon.svg", "image/svg+xml", include_str!("console/icon.svg")),
    ("/console/main.js", SCRIPT, include_str!("console/main.js")),
    ("/console/charts.js", SCRIPT, include_str!("console/charts.js")),
    ("/console/dom.js", SCRIPT, include_str!("console/dom.js")),
    ("/console/feed.js", SCRIPT, include_str!("console/feed.js")),
    ("/console/graph.js", SCRIPT, include_str!("console/graph.js")),
    ("/console/model.js", SCRIPT, include_str!("console/model.js")),
    ("/console/page.js", SCRIPT, include_str!("console/page.js")),
    ("/console/table.js", SCRIPT, include_str!("console/table.js")),
    ("/console/text.js", SCRIPT, include_str!("console/text.js")),
];

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What a browser lets the page do: load its own files, ask this server, and nothing else. No text becomes a part of the
/// page by way of HTML: names and configurations are those of somebody else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// Where the page asks for the layout of the graph.
pub(super) const LAYOUT: &str = "/console/layout";

/// The answer to a request for a file of the console; none if it asks for something else.
pub(super) fn file(method: &Method, uri: &Uri) -> Option<Result<Answer, Refusal>> {
    let (_, kind, text) = FILES.iter().find(|(path, ..)| *path == uri.path())?;
    if *method != Method::GET && *method != Method::HEAD {
        return Some(Err(Refusal::method("GET, HEAD")));
    }
    let mut answer = whole(kind, *text);
    for (name, value) in [(CONTENT_SECURITY_POLICY, POLICY), (REFERRER_POLICY, "no-referrer")] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Some(Ok(answer))
}

/// Which compounds are folded: those of `folded=NAME`, or with `all` each but those of `open=NAME`.
#[derive(Debug, Default)]
pub(super) struct Folds {
    all: bool,
    named: HashSet<String>,
}

impl Folds {
    /// Reads them from a query.
    pub(super) fn of(query: Option<&str>) -> Self {
        let pairs = || form_urlencoded::parse(query.unwrap_or("").as_bytes());
        let all = pairs().any(|(key, _)| key == "all");
        let wanted = if all { "open" } else { "folded" };
        let named = pairs().filter(|(key, _)| key == wanted).map(|(_, name)| name.into_owned());
        Self { all, named: named.collect() }
    }

    /// Whether a compound is folded.
    pub(super) fn fold(&self, compound: &str) -> bool {
        self.named.contains(compound) != self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_each_file_that_there_is_and_no_other() {
        let text = |wanted: &str| FILES.iter().find(|(path, ..)| *path == wanted).unwrap().2;
        let mut named = vec!["/console/console.css".to_owned(), "/console/icon.svg".to_owned()];
        for file in ["console/console.css", "console/icon.svg", "console/main.js"] {
            assert!(text("/").contains(&format!("\"{file}\"")), "{file}");
        }
        let mut open = vec!["/console/main.js".to_owned()];
        while let Some(path) = open.pop() {
            let imports = text(&path).lines().filter(|line| line.starts_with("import "));
            for line in imports {
                let file = line.split("'./").nth(1).unwrap().trim_end_matches("';");
                let imported = format!("/console/{file}");
                if !named.contains(&imported) && !open.contains(&imported) {
                    open.push(imported);
                }
            }
            named.push(path);
        }
        named.push("/".to_owned());
        named.sort();
        let mut served: Vec<_> = FILES.iter().map(|(path, ..)| (*path).to_owned()).collect();
        served.sort();
        assert_eq!(named, served);
    }

    #[test]
    fn compounds_are_folded_by_name_or_all_but_some() {
        let fold = |query, compound| Folds::of(query).fold(compound);
        assert!(!fold(None, "a"));
        assert!(fold(Some("folded=a&folded=b%2Fc"), "b/c"));
        assert!(!fold(Some("folded=a&open=b"), "b"));
        assert!(fold(Some("all=&open=b"), "a"));
        assert!(!fold(Some("all=&open=b"), "b"));
    }
}
