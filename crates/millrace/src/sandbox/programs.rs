//! Programs that may be started: the files that the kernel opens to run them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where programs are looked for when PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Programs that may be scripts, and what these start.
const STARTED_BY: [(&str, &str); 1] = [("zcat", "gzip")];

/// The longest first line of a script that counts (execve(2)).
const LINE: usize = 256;

/// So often a script may be interpreted by a script.
const DEEPEST: usize = 4;

/// The files that are executed: programs, the interpreters of scripts, and the dynamic linkers. Libraries are only read.
pub(super) fn files(programs: &BTreeSet<String>) -> BTreeSet<PathBuf> {
    let started = STARTED_BY.iter().filter(|(program, _)| programs.contains(*program));
    let names = programs.iter().map(String::as_str).chain(started.map(|(_, started)| *started));
    let mut files = BTreeSet::new();
    for name in names {
        let mut next = find(name);
        for _ in 0..=DEEPEST {
            let Some(file) = next else { break };
            next = interpreter(&file);
            files.insert(file);
        }
    }
    files
}

/// The file of a program, looked for as the shell does.
fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    let folders = std::env::var("PATH").unwrap_or_else(|_| DEFAULT_PATH.to_owned());
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// What interprets a program: the program that a script's first line names, or the dynamic linker.
fn interpreter(program: &Path) -> Option<PathBuf> {
    // Opening a pipe would wait.
    let file = File::open(Some(program).filter(|program| program.is_file())?).ok()?;
    let mut start = Vec::with_capacity(LINE);
    (&file).take(LINE as u64).read_to_end(&mut start).ok()?;
    let path = match start.strip_prefix(b"#!") {
        Some(rest) => {
            let line = rest.split(|&byte| byte == b'\n').next()?.trim_ascii();
            line.split(u8::is_ascii_whitespace).next()?.to_owned()
        }
        None => dynamic_linker(&file, &start)?,
    };
    (!path.is_empty()).then(|| String::from_utf8_lossy(&path).into_owned().into())
}

/// The dynamic linker that an ELF file of this machine's kind names (elf(5)).
fn dynamic_linker(file: &File, header: &[u8]) -> Option<Vec<u8>> {
    const MAGIC: &[u8] = b"\x7fELF";
    const CLASS: usize = 4;
    const CLASS_64: u8 = 2;
    const PROGRAM_HEADERS: usize = 32;
    const HEADER_SIZE: usize = 54;
    const HEADER_COUNT: usize = 56;
    /// In a program header.
    const OFFSET: usize = 8;
    const LENGTH: usize = 32;
    const INTERPRETER: u32 = 3;
    const LONGEST: u64 = 4096;

    if !header.starts_with(MAGIC) || header.get(CLASS) != Some(&CLASS_64) {
        return None;
    }
    let size = usize::from(u16::from_ne_bytes(field(header, HEADER_SIZE)?));
    let count = u16::from_ne_bytes(field(header, HEADER_COUNT)?);
    let first = u64::from_ne_bytes(field(header, PROGRAM_HEADERS)?);
    let mut entry = vec![0; size];
    for at in 0..u64::from(count) {
        file.read_exact_at(&mut entry, first.checked_add(at * size as u64)?).ok()?;
        if u32::from_ne_bytes(field(&entry, 0)?) != INTERPRETER {
            continue;
        }
        let length = u64::from_ne_bytes(field(&entry, LENGTH)?).min(LONGEST);
        let mut path = vec![0; length as usize];
        file.read_exact_at(&mut path, u64::from_ne_bytes(field(&entry, OFFSET)?)).ok()?;
        return path.split(|&byte| byte == 0).next().map(<[u8]>::to_vec);
    }
    None
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_path() {
        assert_eq!(find("/bin/true"), Some("/bin/true".into()));
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("no-such-program-of-millrace"), None);
    }

    #[test]
    fn a_program_comes_with_its_interpreters_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        std::fs::write(&script, "#! /bin/sh -e\ntrue\n").unwrap();
        let found = files(&[script.display().to_string()].into());
        let shell = Path::new("/bin/sh");
        assert!(found.contains(&script) && found.contains(shell), "{found:?}");
        // The shell's own dynamic linker.
        let others: Vec<_> =
            found.iter().filter(|path| ![&*script, shell].contains(&&***path)).collect();
        assert_eq!(others.len(), 1, "{found:?}");
        assert!(others[0].to_string_lossy().contains("ld-"), "{found:?}");
    }

    #[test]
    fn hostile_headers_name_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut header = [0xff_u8; 64];
        header[..5].copy_from_slice(b"\x7fELF\x02");
        for (name, bytes) in
            [("elf", &header[..]), ("short", b"\x7fELF\x02"), ("empty", b""), ("line", b"#!")]
        {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(interpreter(&path), None, "{name}");
        }
        assert_eq!(interpreter(folder.path()), None);
    }
}
