//! Click's companion tools. Each is this program under another name (`click-flatten`), and a sub-command (`millrace
//! click-flatten`).

mod align;
mod buildtool;
mod check;
mod clp;
mod combine;
mod flatten;
mod links;
mod pretty;
mod processing;
mod router;
mod same;
mod session;
mod tool;
mod traits;
mod uncombine;
mod undead;
mod xform;

pub(crate) use links::install_links;
use tool::Tool;

/// Every tool.
pub(crate) const TOOLS: &[Tool] = &[
    align::TOOL,
    buildtool::TOOL,
    check::TOOL,
    combine::TOOL,
    flatten::TOOL,
    same::DEVIRTUALIZE,
    same::FASTCLASSIFIER,
    same::INSTALL,
    same::UNINSTALL,
    same::MKMINDRIVER,
    pretty::TOOL,
    uncombine::TOOL,
    undead::TOOL,
    xform::TOOL,
];

/// The tool with this name.
pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_links_every_tool() {
        let mut names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        names.sort_unstable();
        assert_eq!(include_str!("names.txt").lines().collect::<Vec<_>>(), names);
    }
}
