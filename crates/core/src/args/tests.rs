use super::*;
use millrace_lang::SourceMap;

/// What reading gave: the value, and the messages of the diagnostics.
fn read<T>(config: &str, read: impl FnOnce(&mut Args) -> T) -> (T, Vec<String>) {
    let mut sources = SourceMap::default();
    let source = sources.add("config", config);
    let span = Span { source, start: 0, end: config.len() as u32 };
    let config = ConfigText { text: config.to_owned(), span, verbatim: true };
    let mut args = Args::new(&config, Scope::builtin());
    let value = read(&mut args);
    let completed = args.complete();
    assert_eq!(completed.is_err(), args.has_errors());
    (value, args.into_diagnostics().into_iter().map(|d| d.message).collect())
}

#[test]
fn arguments_are_found_in_place_and_by_keyword() {
    let queue =
        |args: &mut Args| (args.positional("CAPACITY", 1000u32), args.keyword("ACTIVE", true));
    for (config, value, messages) in [
        ("", (1000, true), vec![]),
        ("5", (5, true), vec![]),
        ("CAPACITY 5, ACTIVE no", (5, false), vec![]),
        ("ACTIVE no, CAPACITY 0x10", (16, false), vec![]),
        ("5, CAPACITY 6", (6, true), vec![]),
        ("5, 6", (5, true), vec!["too many arguments"]),
        ("CAPACTY 6", (1000, true), vec!["CAPACTY: unknown argument"]),
        ("-1", (1000, true), vec!["CAPACITY: parse error"]),
        ("4294967296", (1000, true), vec!["CAPACITY: out of range, bound 4294967295"]),
    ] {
        assert_eq!(read(config, queue), (value, messages.into_iter().map(str::to_owned).collect()));
    }
}
