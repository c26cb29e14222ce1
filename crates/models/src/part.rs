//! What is tried on a part.

/// A lock-free part, and what is tried on it.
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// Its files in the repository, which are compiled here.
    pub files: &'static [&'static str],
    /// Lines with accesses that no scenario notices when they are weaker, and why they are as strong as they are.
    pub stronger: &'static [(&'static str, &'static str)],
    /// What threads do to it.
    pub scenarios: &'static [Scenario],
    /// The same with a rule of the part broken: each must fail, or the scenarios prove nothing.
    pub broken: &'static [Scenario],
}

/// What threads do at once; it panics if a part does not keep its promise.
pub struct Scenario {
    /// Its name: the promise.
    pub name: &'static str,
    /// One execution.
    pub body: fn(),
}

/// Waits for a thread; its panic is that of the model.
pub(crate) fn join<T>(thread: loom::thread::JoinHandle<T>) -> T {
    match thread.join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
