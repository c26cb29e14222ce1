//! The other threads of this process, which the sandbox would not hold.

use std::io;
use std::path::Path;
use std::time::Duration;

/// The names of other threads; or why nobody knows them.
pub(super) type Others = io::Result<Vec<String>>;

/// Where the kernel lists the threads of this process.
const TASKS: &str = "/proc/self/task";

/// The other threads of this process that are left after a while.
pub(super) fn others_after(patience: Duration) -> Others {
    const STEP: Duration = Duration::from_millis(1);
    let mut waited = Duration::ZERO;
    loop {
        let others = others_in(Path::new(TASKS))?;
        if others.is_empty() || waited >= patience {
            return Ok(others);
        }
        std::thread::sleep(STEP);
        waited += STEP;
    }
}

fn others_in(tasks: &Path) -> Others {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut others = Vec::new();
    let mut has_own = false;
    for task in std::fs::read_dir(tasks)? {
        let task = task?;
        if task.file_name() == *own {
            has_own = true;
            continue;
        }
        match std::fs::read_to_string(task.path().join("comm")) {
            Ok(name) => others.push(name.trim_end().to_owned()),
            // It has ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(_) => others.push(format!("thread {}", task.file_name().display())),
        }
    }
    match has_own {
        true => Ok(others),
        false => Err(io::Error::other("the kernel does not list this thread")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn a_list_that_cannot_be_read_is_not_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert!(others_in(&folder.path().join("none")).is_err());
        // As where another file system covers /proc.
        assert!(others_in(folder.path()).is_err());
    }

    #[test]
    fn other_threads_are_named() {
        let meeting = Barrier::new(2);
        std::thread::scope(|scope| {
            let other = std::thread::Builder::new().name("another".to_owned());
            other
                .spawn_scoped(scope, || {
                    meeting.wait();
                    meeting.wait();
                })
                .unwrap();
            meeting.wait();
            let others = others_in(Path::new(TASKS));
            meeting.wait();
            assert!(others.unwrap().iter().any(|name| name == "another"));
        });
    }
}
