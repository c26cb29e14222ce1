//! The arguments of a compound element: assigns them to parameters.

use std::collections::HashMap;

use crate::config::{ArgText, keyword};

/// The parameter for all remaining arguments.
pub(super) const REST: &str = "__REST__";

/// The parameters' values, or `None` when the arguments do not fit.
///
/// `keywords` has a keyword for each parameter, empty for positional ones, which come first. Every positional
/// parameter gets the argument at its position, whatever that contains; the arguments after those must be
/// keywords, each exactly once, unless the last parameter is [`REST`].
pub(super) fn assign(keywords: &[&str], args: &[ArgText<'_>]) -> Option<Vec<String>> {
    let rest = keywords.last() == Some(&REST);
    let named = keywords.len() - usize::from(rest);
    let positional = keywords.iter().take(named).take_while(|keyword| keyword.is_empty()).count();
    let (first, others) = args.split_at_checked(positional)?;
    if !rest && others.len() != named - positional {
        return None;
    }
    let slots: HashMap<&str, usize> =
        keywords.iter().copied().zip(0..).take(named).skip(positional).collect();
    let mut values: Vec<Option<String>> =
        first.iter().map(|arg| Some(arg.text.clone().into_owned())).collect();
    values.resize(named, None);
    let mut left_over: Vec<&str> = Vec::new();
    for arg in others {
        let found = keyword(&arg.text)
            .and_then(|(word, value)| Some((values.get_mut(*slots.get(word)?)?, value)));
        match found {
            Some((slot, value)) if slot.is_none() => *slot = Some(value.to_owned()),
            _ if rest => left_over.push(&arg.text),
            _ => return None,
        }
    }
    let mut values: Vec<String> = values.into_iter().collect::<Option<_>>()?;
    if rest {
        values.push(left_over.join(", "));
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::split_args;

    #[track_caller]
    fn check(keywords: &[&str], args: &str, expected: Option<&[&str]>) {
        let values = assign(keywords, &split_args(args));
        let values = values.as_ref().map(|values| values.iter().map(String::as_str).collect());
        assert_eq!(values, expected.map(<[&str]>::to_vec), "{keywords:?} ({args})");
    }

    #[test]
    fn arguments_go_to_their_parameters() {
        check(&[], "", Some(&[]));
        check(&[], "1", None);
        check(&["", ""], "1, 2", Some(&["1", "2"]));
        check(&["", ""], "1", None);
        check(&["", ""], "1, 2, 3", None);
        check(&["", ""], "A 1, B 2", Some(&["A 1", "B 2"]));
        check(&["COUNT"], "COUNT 3", Some(&["3"]));
        check(&["COUNT"], "COUNT", Some(&[""]));
        check(&["COUNT"], "1", None);
        check(&["COUNT"], "", None);
        check(&["A", "B"], "B 2, A 1 1", Some(&["1 1", "2"]));
        check(&["A", "B"], "A 2, A 1", None);
        check(&["", "COUNT", REST], "1, 2, COUNT 3, FOO 4", Some(&["1", "3", "2, FOO 4"]));
        check(&["", REST], "1", Some(&["1", ""]));
        check(&[REST], "a, b", Some(&["a, b"]));
        check(&["", REST], "", None);
    }
}
