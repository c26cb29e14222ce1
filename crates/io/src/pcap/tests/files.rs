//! Files, pipes and compressed files.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::{Access, Error, Options, Reader, Writer};
use super::build::small_files;
use super::{drain, read_all};

#[test]
fn missing_and_empty_files() {
    let error = Reader::open("/nonexistent/x.pcap").unwrap_err();
    assert_eq!(
        error.to_string(),
        "/nonexistent/x.pcap: open: No such file or directory (os error 2)"
    );
    let empty = tempfile::NamedTempFile::new().unwrap();
    for access in [Access::Read, Access::Map] {
        let error = Reader::open_with(empty.path(), access).unwrap_err();
        assert_eq!(error.to_string(), format!("{}: empty file", empty.path().display()));
    }
    let directory = tempfile::tempdir().unwrap();
    let error = Reader::open(directory.path()).unwrap_err().to_string();
    assert!(error.ends_with("read: Is a directory (os error 21)"), "{error}");
}

#[test]
fn mapped_files_read_the_same() {
    for file in small_files() {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), &file).unwrap();
        let mut reader = Reader::open_with(path.path(), Access::Map).unwrap();
        assert_eq!(reader.mapping(), Some(&file[..]));
        let (packets, error) = drain(&mut reader);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(packets, read_all(&file).0);
        reader.rewind().unwrap();
        assert_eq!(drain(&mut reader).0, packets);

        std::fs::write(path.path(), &file[..file.len() - 1]).unwrap();
        let (fewer, error) = drain(&mut Reader::open_with(path.path(), Access::Map).unwrap());
        assert_eq!((fewer.len(), error.is_some()), (packets.len() - 1, true));
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_cut_short_and_no_more() {
    let path = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::create(path.path(), Options::default()).unwrap();
    for _ in 0..3000 {
        writer.write(0, 1000, &[0; 1000]).unwrap();
    }
    writer.finish().unwrap();
    let mut reader = Reader::open(path.path()).unwrap();
    reader.next().unwrap().unwrap();
    File::options().write(true).open(path.path()).unwrap().set_len(2_000_000).unwrap();
    let (packets, error) = drain(&mut reader);
    assert_eq!(packets.len() + 1, (2_000_000 - 24) / 1016);
    assert!(error.is_some_and(|error| error.to_string().contains("the file ends within a packet")));
}

/// A name for a reader that stands for the end of a pipe.
fn pipe() -> (std::io::PipeWriter, std::path::PathBuf, OwnedFd) {
    use std::os::fd::AsRawFd;

    let (reader, writer) = std::io::pipe().unwrap();
    let descriptor = OwnedFd::from(reader);
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    (writer, path.into(), descriptor)
}

#[test]
fn pipes_are_read_as_they_fill() {
    for file in small_files() {
        let (mut writer, path, _descriptor) = pipe();
        let expected = read_all(&file).0;
        let thread = std::thread::spawn(move || {
            for piece in file.chunks(5) {
                writer.write_all(piece).unwrap();
            }
        });
        let mut reader = Reader::open_with(&path, Access::Map).unwrap();
        assert_eq!(reader.file_len(), None);
        assert_eq!(drain(&mut reader).0, expected);
        thread.join().unwrap();
    }
}

#[test]
fn a_pipe_that_does_not_block_is_waited_for() {
    let file = &small_files()[0];
    let (mut writer, path, descriptor) = pipe();
    let flags = rustix::fs::fcntl_getfl(&descriptor).unwrap();
    rustix::fs::fcntl_setfl(&descriptor, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    // What `/proc/self/fd` opens anew blocks; a copy of the descriptor does not.
    let mut input = File::from(descriptor);
    let mut buffer = [0; 8];
    assert!(std::io::Read::read(&mut input, &mut buffer).is_err(), "would block");
    let start = file[..3].to_vec();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        writer.write_all(&start).unwrap();
    });
    assert_eq!(super::super::input::read_file(&mut input, &mut buffer).unwrap(), 3);
    thread.join().unwrap();
    drop(path);
}

fn run(program: &str, path: &Path) -> bool {
    Command::new(program)
        .arg(path)
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Whether a program is installed; reports when it is not.
fn have(program: &str) -> bool {
    let have = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !have {
        eprintln!("skipped: no {program} here");
    }
    have
}

#[test]
fn compressed_files_are_unpacked_and_packed() {
    let directory = tempfile::tempdir().unwrap();
    for (pack, unpack, suffix) in [
        ("gzip", "zcat", "gz"),
        ("bzip2", "bzcat", "bz2"),
        ("xz", "xzcat", "xz"),
        ("zstd", "zstdcat", "zst"),
    ] {
        if !have(pack) || !have(unpack) {
            continue;
        }
        let plain = directory.path().join("trace");
        let packed = directory.path().join(format!("trace.{suffix}"));
        for file in small_files() {
            std::fs::write(&plain, &file).unwrap();
            assert!(run(pack, &plain));
            let (packets, error) = drain(&mut Reader::open(&packed).unwrap());
            assert!(error.is_none(), "{error:?}");
            assert_eq!(packets, read_all(&file).0);
            std::fs::remove_file(&packed).unwrap();
            let _ = std::fs::remove_file(&plain);
        }
        let mut writer = Writer::create(&packed, Options::default()).unwrap();
        for _ in 0..100_000 {
            writer.write(0, 100, &[0; 100]).unwrap();
        }
        writer.finish().unwrap();
        assert!(std::fs::metadata(&packed).unwrap().len() < 1_000_000, "{pack} packs");
        assert_eq!(drain(&mut Reader::open(&packed).unwrap()).0.len(), 100_000);
        std::fs::remove_file(&packed).unwrap();
    }
}

#[test]
fn a_compressed_file_cut_short_says_so_after_its_packets() {
    if !have("gzip") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.gz");
    let mut writer = Writer::create(&path, Options::default()).unwrap();
    for number in 0..10_000u32 {
        writer.write(0, 100, &number.wrapping_mul(2_654_435_761).to_be_bytes().repeat(25)).unwrap();
    }
    writer.finish().unwrap();
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let (packets, error) = drain(&mut Reader::open(&path).unwrap());
    assert!(!packets.is_empty() && packets.len() < 10_000);
    let message = error.map(|error: Error| error.to_string()).unwrap_or_default();
    assert!(message.contains("zcat: ") && message.contains("unexpected end of file"), "{message}");
}

#[test]
fn a_reader_may_leave_a_compressed_file_unread() {
    if !have("gzip") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trace.gz");
    let mut writer = Writer::create(&path, Options::default()).unwrap();
    for _ in 0..200_000 {
        writer.write(0, 100, &[0; 100]).unwrap();
    }
    writer.finish().unwrap();
    let mut reader = Reader::open(&path).unwrap();
    reader.next().unwrap().unwrap();
    // `zcat` is still writing: dropping the reader must end it, and not wait for ever.
    drop(reader);
}

#[test]
fn compressed_data_in_a_stream_is_refused_with_advice() {
    let bytes = std::io::Cursor::new(vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
    let error = Reader::from_reader("pipe", bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pipe: is compressed; unpack it with 'zcat' before it comes here"
    );
}
