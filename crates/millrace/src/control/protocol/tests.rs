//! Requests of clients, and the answers that they get.

use std::sync::Mutex;

use millrace_core::router::warn_listener;

use super::*;

/// A router of two elements: `c` counts, and `q` stores what is written.
#[derive(Default)]
struct Toy {
    written: Mutex<Vec<(String, Vec<u8>)>>,
}

impl Target for Toy {
    fn read(&self, path: &str, parameter: &[u8]) -> Result<Vec<u8>, HandlerError> {
        match path {
            "version" => Ok(b"9\n".to_vec()),
            "c.echo" => Ok(parameter.to_vec()),
            "c.bad" => Err("first\nsecond".into()),
            "q.set" => Err(HandlerError::WriteOnly("set".into())),
            _ if path.starts_with("c.") => Err(HandlerError::NoHandler(path.into())),
            _ => Err(HandlerError::NoElement(path.split('.').next().unwrap().into())),
        }
    }

    fn write(&self, path: &str, text: &[u8]) -> Result<(), HandlerError> {
        match path {
            "q.set" if text == b"evil" => Err("bad\x1b[value".into()),
            "q.set" => {
                self.written.lock().unwrap().push((path.into(), text.to_vec()));
                Ok(())
            }
            "q.warn" => {
                assert!(warn_listener("one") && warn_listener("two"));
                Ok(())
            }
            _ => Err(HandlerError::ReadOnly(path.into())),
        }
    }

    fn access(&self, path: &str) -> Result<(bool, bool), HandlerError> {
        match path {
            "q.set" => Ok((false, true)),
            "c.echo" => Ok((true, false)),
            _ => Err(HandlerError::NoHandler(path.into())),
        }
    }
}

fn converse(input: &[u8]) -> String {
    let (mut session, mut out, toy) = (Session::default(), Vec::new(), Toy::default());
    session.receive(input, &toy, &mut out);
    session.finish(&toy, &mut out);
    String::from_utf8(out).unwrap()
}

const CASES: &[(&str, &str)] = &[
    ("WRITE q.warn x\n", "220-Write handler 'q.warn' OK with warnings:\r\n220-one\r\n220 two\r\n"),
    ("READ version\n", "200 Read handler 'version' OK\r\nDATA 2\r\n9\n"),
    ("read .version\r", "200 Read handler '.version' OK\r\nDATA 2\r\n9\n"),
    ("GET 0.version", "200 Read handler '0.version' OK\r\nDATA 2\r\n9\n"),
    (" READ\tc.echo  a  b \r\n", "200 Read handler 'c.echo' OK\r\nDATA 4\r\na  b"),
    (
        "READDATA c.echo 3\r\na\r\nREAD x",
        "200 Read handler 'c.echo' OK\r\nDATA 3\r\na\r\n510 No element named 'x'\r\n",
    ),
    ("READDATA c.echo 0\r\n", "200 Read handler 'c.echo' OK\r\nDATA 0\r\n"),
    ("READDATA c.echo 9\r\nabc", "500 Not enough data\r\n"),
    ("READDATA c.echo -1\r\n", "500 Syntax error in 'READDATA'\r\n"),
    ("READUNTIL c.echo E N\na\n\nb\nE N  \n", "200 Read handler 'c.echo' OK\r\nDATA 5\r\na\n\nb\n"),
    ("READUNTIL c.echo\r\na\r\n  \r\n", "200 Read handler 'c.echo' OK\r\nDATA 3\r\na\r\n"),
    ("READUNTIL c.echo E\na\n", "500 Connection closed\r\n"),
    ("READ c.bad\n", "590-Read handler 'c.bad' error:\r\n590-first\r\n590 second\r\n"),
    ("READ c.none\n", "511 No handler named 'c.none'\r\n"),
    ("READ q.set\n", "530 Handler 'q.set' write-only\r\n"),
    ("READ\n", "500 Wrong number of arguments\r\n"),
    ("WRITE c.echo 1\n", "530 Handler 'c.echo' read-only\r\n"),
    ("WRITE q.set 1\n", "200 Write handler 'q.set' OK\r\n"),
    ("WRITEDATA q.set 4\nevil", "520-Write handler 'q.set' error:\r\n520 bad^[[value\r\n"),
    ("CHECKREAD c.echo\n", "200 Read handler 'c.echo' OK\r\n"),
    ("CHECKWRITE c.echo\n", "511 Handler 'c.echo' not writable\r\n"),
    ("CHECKWRITE q.set\n", "200 Write handler 'q.set' OK\r\n"),
    ("CHECKREAD q.no\n", "511 No handler named 'q.no'\r\n"),
    ("LLRPC c#1\n", "511 No handler named 'c.name'\r\n"),
    ("QUIT\nREAD version\n", "200 Goodbye!\r\n"),
    ("QUIT now\n", "500 Bad command syntax\r\n200 Goodbye!\r\n"),
    ("FLY x\n", "501 Command 'FLY' unimplemented\r\n"),
    ("\r\n \n", ""),
];

#[test]
fn commands_get_the_answers_of_the_manual() {
    for (input, expected) in CASES {
        assert_eq!(converse(input.as_bytes()), *expected, "{input:?}");
    }
}

#[test]
fn answers_do_not_depend_on_how_the_input_is_cut() {
    for (input, expected) in CASES {
        let (mut session, mut out, toy) = (Session::default(), Vec::new(), Toy::default());
        for byte in input.as_bytes() {
            session.receive(&[*byte], &toy, &mut out);
        }
        session.finish(&toy, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), *expected, "{input:?}");
    }
}

#[test]
fn written_text_arrives_whole() {
    let (mut session, mut out, toy) = (Session::default(), Vec::new(), Toy::default());
    session.receive(
        b"WRITE q.set a b\nWRITEDATA q.set 2\n\r\nWRITEUNTIL q.set\nx\n\n",
        &toy,
        &mut out,
    );
    let texts: Vec<_> = toy.written.lock().unwrap().iter().map(|w| w.1.clone()).collect();
    assert_eq!(texts, [&b"a b"[..], b"\r\n", b"x\n"]);
}

#[test]
fn a_read_only_session_writes_nothing() {
    let access = Access { read_only: true, token: None };
    let (mut session, mut out, toy) = (Session::new(access), Vec::new(), Toy::default());
    session.receive(b"WRITE q.set 1\nCHECKWRITE q.set\nWRITE c.echo 1\n", &toy, &mut out);
    let denied = "530 Permission denied for 'q.set'\r\n";
    let read_only = "530 Handler 'c.echo' read-only\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), format!("{denied}{denied}{read_only}"));
    assert!(toy.written.lock().unwrap().is_empty());
}

#[test]
fn too_much_data_is_rejected() {
    assert_eq!(converse(b"WRITEDATA q.set 99999999999\n"), "521 Data too large\r\n");
    let line = vec![b'x'; LONGEST_LINE + 1];
    assert_eq!(converse(&line), "521 Command too long\r\n");
}

#[test]
fn commands_wait_until_answers_are_sent() {
    let (mut session, toy) = (Session::default(), Toy::default());
    let text = [b'y'; 1000];
    let mut command = b"READ c.echo ".to_vec();
    command.extend_from_slice(&text);
    command.push(b'\n');
    let (mut out, mut bytes) = (Vec::new(), command.repeat(1000));
    let mut answered = 0;
    loop {
        session.receive(&std::mem::take(&mut bytes), &toy, &mut out);
        assert!(out.len() < ENOUGH_ANSWERS + 2000);
        answered += out.windows(4).filter(|four| four == b"200 ").count();
        out.clear();
        if !session.is_unfinished() {
            break;
        }
    }
    assert_eq!(answered, 1000);
}

#[test]
fn a_session_with_a_token_asks_for_it() {
    let ask = |input: &[u8]| {
        let access = Access { read_only: false, token: Some("secret word".into()) };
        let (mut session, mut out) = (Session::new(access), Vec::new());
        session.receive(input, &Toy::default(), &mut out);
        String::from_utf8(out).unwrap()
    };
    let answer = ask(b"AUTH secret word\nREAD version\n");
    assert_eq!(answer, "200 Welcome\r\n200 Read handler 'version' OK\r\nDATA 2\r\n9\n");
    for wrong in ["AUTH secret", "AUTH secret words", "AUTH", "READ version", "HELP"] {
        let answer = ask(format!("{wrong}\nREAD version\n").as_bytes());
        assert!(answer.starts_with("530 Permission denied"), "{wrong}: {answer}");
        assert!(!answer.contains("200"), "{wrong}: {answer}");
    }
}
