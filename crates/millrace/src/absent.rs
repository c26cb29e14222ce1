//! Why a class of Click or FastClick is not here: the book's table, so that the diagnostic and the book cannot differ.

/// The chapter with the tables of classes. Each row has one or more classes, and `here` or what is said of them.
const CHAPTER: &str = include_str!("../../../docs/src/classes.md");

/// Says why a class that Click or FastClick has is not here, and what to use instead. `None` for any other name.
pub(crate) fn why(class: &str) -> Option<String> {
    let mut project = "";
    for line in CHAPTER.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            project = heading;
        }
        let Some((classes, says)) = row(line) else { continue };
        if says != "here" && classes.split(", ").any(|listed| listed == class) {
            return Some(format!("‘{class}’, a class of {project}, is not here: {says}"));
        }
    }
    None
}

/// The two cells of a row of a table.
fn row(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_classes_of_others_that_are_not_here_are_explained() {
        let said = why("PollDevice").unwrap();
        assert!(
            said.starts_with("‘PollDevice’, a class of Click's kernel module, is not"),
            "{said}"
        );
        assert!(said.contains("FromDevice"), "{said}");
        assert!(why("XDPLoader").unwrap().starts_with("‘XDPLoader’, a class of FastClick, is not"));
        assert!(why("ETTMetric").unwrap().contains("mesh routing is not supported"));
        for known in ["Queue", "class", "Qeueu", ""] {
            assert_eq!(why(known), None, "{known}");
        }
    }
}
