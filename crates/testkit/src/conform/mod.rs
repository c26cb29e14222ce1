//! Configuration tests: what a program prints for a configuration, in text files that a user can
//! read and write.
//!
//! The format is that of Click's `testie`, so that tests written for Click run here, with
//! `%test` to have several cases in a file:
//!
//! ```text
//! %info
//! Counter counts packets and bytes.
//!
//! %test counts what passes
//! %script
//! click --simtime CONFIG
//! %file CONFIG
//! InfiniteSource(LIMIT 3, LENGTH 100) -> c :: Counter -> Discard;
//! DriverManager(wait, print c.count, print c.byte_count, stop);
//! %expect stdout
//! 3
//! 300
//! ```
//!
//! | section | |
//! |---|---|
//! | `%info`, `%desc` | words for the reader |
//! | `%test NAME` | begins a case; what stands before the first holds for the whole file |
//! | `%require` | a shell script; if it fails, the case is left out |
//! | `%script` | run by bash in an empty directory, with the programs under test first in `PATH` |
//! | `%file NAME...` | files of that directory; `stdin` is the script's input |
//! | `%expect NAME...` | what a file, `stdout` or `stderr` must hold; `{{...}}` is a regular expression, `{{?...}}` a comment; a second section of the same name is an alternative; `-w` leaves white space out of account, `-i` case |
//! | `%expectx NAME...` | the same, every line a regular expression |
//! | `%expectv NAME...` | the same, byte for byte |
//! | `%ignorex NAME...` | lines that match one of these regular expressions are left out first |
//! | `%ignore NAME...` | the same, of lines with `{{...}}`; without lines: the file may hold anything; without a name: of every file |
//! | `%status N` | the status that the script ends with: 0 unless said |
//! | `%stdin`, `%stdout`, `%stderr` | `%file stdin`, `%expect stdout`, `%expect stderr` |
//! | `%eof` | what follows is not read |
//! | `%#` | a comment |
//!
//! A file of `%expect` ends at the next section; empty lines at its end do not count. A case that
//! says nothing of `stderr` expects it to be empty.

mod case;
mod compare;
mod run;

pub use case::{Case, Invalid, parse};
pub use run::{Outcome, Programs};
