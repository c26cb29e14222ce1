//! The program, running in a namespace.

use millrace_testkit::{Namespace, Program};
use serde_json::Value;

/// A router that runs. When this is dropped without [`stop`](Self::stop), it is killed.
pub(crate) struct Millrace {
    program: Program,
    namespace: Namespace,
    _folder: tempfile::TempDir,
}

impl Millrace {
    /// Runs an example, whose variables may follow it, until it has opened its devices.
    pub(crate) fn start(namespace: Namespace, example: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = namespace.command(env!("CARGO_BIN_EXE_millrace"));
        command
            .args(["run", "--json", "--unix-socket"])
            .arg(folder.path().join("control"))
            .args(example)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
        let program = Program::start(&mut command).unwrap();
        // It serves its control socket once all else is ready.
        if let Err(why) = program.wait_for_line("control socket: ") {
            panic!("{why}");
        }
        Self { program, namespace, _folder: folder }
    }

    /// Where it runs.
    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Stops it as the system does. It must end well, with every packet accounted for.
    pub(crate) fn stop(self) -> Summary {
        let ended = self.program.stop().unwrap();
        assert!(ended.status.success(), "{}: {}", ended.status, ended.stderr.join("\n"));
        let summary = Summary(serde_json::from_str(&ended.stdout).unwrap());
        let unbalanced = millrace_testkit::soak::unbalanced(&summary.0);
        assert!(unbalanced.is_empty(), "{unbalanced:#?}");
        summary
    }

    /// Kills it, so that it cannot clean up.
    pub(crate) fn kill(&mut self) {
        self.program.kill().unwrap();
    }
}

/// What it counted.
pub(crate) struct Summary(Value);

impl Summary {
    /// Packets that came to an element.
    pub(crate) fn received(&self, element: &str) -> u64 {
        self.element(element, "received")
    }

    /// Packets that left an element by its outputs.
    pub(crate) fn sent(&self, element: &str) -> u64 {
        self.element(element, "sent")
    }

    fn element(&self, name: &str, field: &str) -> u64 {
        let elements = self.0["elements"].as_array().unwrap();
        let found = elements.iter().find(|element| element["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}"))[field].as_u64().unwrap()
    }
}
