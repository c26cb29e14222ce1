//! Archives in the format ar(1): a configuration together with other files, as Click's tools write and read them.

/// The first bytes of an archive.
const MAGIC: &str = "!<arch>\n";

/// A file in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) data: Vec<u8>,
}

/// True if a text is an archive and not a configuration.
pub(crate) fn is_archive(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b'!')
}

/// Splits an archive into its files.
///
/// # Errors
/// The text is not an archive, or it is broken; the message says where.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Member>, String> {
    let mut rest = bytes.strip_prefix(MAGIC.as_bytes()).ok_or("not an archive")?;
    let mut members = Vec::new();
    let mut long_names: &[u8] = &[];
    while !rest.is_empty() {
        let bad = || format!("bad header in archive at byte {}", bytes.len() - rest.len());
        let (header, after) = rest.split_at_checked(60).ok_or_else(bad)?;
        let field = |from: usize, to: usize| {
            let text = header.get(from..to).map(String::from_utf8_lossy).unwrap_or_default();
            text.trim_end().to_owned()
        };
        if !header.ends_with(b"`\n") {
            return Err(bad());
        }
        let size: usize = field(48, 58).parse().map_err(|_| bad())?;
        let (mut data, after) =
            after.split_at_checked(size).ok_or("truncated archive, last member too short")?;
        let name = field(0, 16);
        rest = after.strip_prefix(b"\n").filter(|_| size % 2 == 1).unwrap_or(after);
        let name = if name == "//" {
            long_names = data;
            continue;
        } else if let Some(length) = name.strip_prefix("#1/") {
            let length: usize = length.parse().map_err(|_| bad())?;
            let (name, contents) = data.split_at_checked(length).ok_or_else(bad)?;
            data = contents;
            String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()
        } else if let Some(at) = name.strip_prefix('/').and_then(|at| at.parse::<usize>().ok()) {
            let name = long_names.get(at..).ok_or_else(bad)?;
            let end = name.iter().position(|&b| b == b'/' || b == b'\n').unwrap_or(name.len());
            String::from_utf8_lossy(name.get(..end).unwrap_or(name)).into_owned()
        } else {
            name.strip_suffix('/').unwrap_or(&name).to_owned()
        };
        members.push(Member { name, data: data.to_vec() });
    }
    Ok(members)
}

/// Makes an archive.
pub(crate) fn build(members: &[Member]) -> Vec<u8> {
    let date = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut out = MAGIC.as_bytes().to_vec();
    for Member { name, data } in members {
        let short = name.len() <= 16 && !name.contains([' ', '/']);
        let (shown, inside) = match short {
            true => (name.clone(), ""),
            false => (format!("#1/{}", name.len()), &**name),
        };
        let size = data.len() + inside.len();
        let (user, group) = (user % 1_000_000, group % 1_000_000);
        let header = format!("{shown:<16}{date:<12}{user:<6}{group:<6}{:<8}{size:<10}`\n", "644");
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(inside.as_bytes());
        out.extend_from_slice(data);
        if size % 2 == 1 {
            out.push(b'\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, data: &str) -> Member {
        Member { name: name.to_owned(), data: data.as_bytes().to_vec() }
    }

    #[test]
    fn built_archives_can_be_parsed() {
        let members = [
            member("config", "Idle;\n"),
            member("odd", "x"),
            member("a name that is long", "yy"),
            member("empty", ""),
        ];
        assert_eq!(parse(&build(&members)), Ok(members.to_vec()));
    }

    #[test]
    fn archives_made_by_ar_can_be_read() {
        let header = |name: &str, size: usize| {
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644)
        };
        let parts = [header("//", 20), header("/0", 2), header("x/", 1)];
        let [names, long, short] = &parts;
        let text = format!("{MAGIC}{names}a rather long name/\n{long}ab{short}c");
        let expected = [member("a rather long name", "ab"), member("x", "c")];
        assert_eq!(parse(text.as_bytes()), Ok(expected.to_vec()));
    }

    #[test]
    fn broken_archives_are_refused() {
        assert!(parse(b"!Idle;").is_err());
        assert!(parse(b"!<arch>\nshort").is_err());
        let mut cut = build(&[member("config", "Idle;\n")]);
        cut.truncate(66);
        assert!(parse(&cut).is_err());
    }
}
