//! What holds, in a line and as JSON.

use serde_json::{Value, json};

use super::files::{self, Held};
use super::policy::Policy;

/// What holds.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// In words, one mechanism after the other.
    parts: Vec<String>,
    /// Whether everything holds that was wanted.
    pub(crate) holds: bool,
    /// Whether there is a sandbox at all.
    wanted: bool,
    /// The capabilities that are kept; none if it is not known.
    capabilities: Option<Vec<&'static str>>,
    /// The version of landlock that confines files.
    landlock: Option<i32>,
    /// Whether there is a list of the calls that may be made.
    seccomp: bool,
}

impl Summary {
    /// Nothing is restricted, for the user does not want it.
    pub(super) fn none() -> Self {
        Self { parts: vec!["none (--no-sandbox)".to_owned()], holds: true, ..Self::default() }
    }

    /// Nothing holds yet.
    pub(super) fn wanted() -> Self {
        Self { holds: true, wanted: true, ..Self::default() }
    }

    /// The line for the user.
    pub(crate) fn line(&self) -> String {
        format!("sandbox: {}", self.parts.join(", "))
    }

    /// The same for programs. `holds` tells whether files and calls are confined to what the configuration needs.
    pub(crate) fn json(&self) -> Value {
        json!({
            "line": self.line(),
            "holds": self.holds && self.wanted,
            "capabilities": self.capabilities,
            "landlock": self.landlock,
            "seccomp": self.seccomp,
        })
    }

    /// This holds, too.
    pub(super) fn part(&mut self, what: impl Into<String>) {
        self.parts.push(what.into());
    }

    /// This does not hold, for this reason.
    pub(super) fn fails(&mut self, what: &str, why: &str) {
        self.holds = false;
        self.part(format!("{what} ({why})"));
    }

    /// All capabilities are dropped but for these.
    pub(super) fn keeps(&mut self, capabilities: Vec<&'static str>) {
        self.part(match capabilities.is_empty() {
            true => "capabilities dropped".to_owned(),
            false => format!("capabilities dropped except {}", capabilities.join(", ")),
        });
        self.capabilities = Some(capabilities);
    }

    /// Files are confined.
    pub(super) fn confines(&mut self, files: &Held) {
        self.landlock = Some(files.abi);
        self.part(files.said.clone());
    }

    /// Calls are those of a list.
    pub(super) fn filters(&mut self) {
        self.seccomp = true;
        self.part("seccomp");
    }

    /// What stays open beside files that are named: folders, programs and sockets.
    pub(super) fn opens(&mut self, policy: &Policy) {
        if self.landlock.is_some() {
            self.parts.extend(files::open_folders(policy));
        }
        if !policy.programs.is_empty() {
            let programs: Vec<&str> = policy.programs.iter().map(String::as_str).collect();
            self.part(format!("starts {}", programs.join(", ")));
        }
        for ports in &policy.tcp_ports {
            self.part(match ports.start() == ports.end() {
                true => format!("listens at TCP port {}", ports.start()),
                false => format!("listens at TCP ports {} to {}", ports.start(), ports.end()),
            });
        }
        let sockets = [
            (policy.inet_sockets, "opens TCP and UDP sockets"),
            (policy.reaches_unix_sockets(), "connects to any Unix socket"),
            (policy.unix_listeners && !policy.connects(), "listens at Unix sockets"),
        ];
        let open = sockets.into_iter().filter_map(|(open, what)| open.then_some(what));
        self.parts.extend(open.map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Need;

    use super::*;

    #[test]
    fn the_line_tells_what_stays_open() {
        let mut policy = Policy::default();
        policy.add(Need::Create { folder: "/var/flows".into(), nests: false, removes: true });
        policy.add(Need::UnixSocket("/run/millrace/socket".into()));
        policy.add(Need::Run("gzip".to_owned()));
        policy.add(Need::TcpPorts(7000..=7000));
        policy.add(Need::InetSockets);
        let mut held = Summary::wanted();
        held.keeps(vec!["NET_RAW"]);
        held.confines(&Held { abi: 7, said: "landlock ABI 7".to_owned() });
        held.opens(&policy);
        held.filters();
        assert_eq!(
            held.line(),
            "sandbox: capabilities dropped except NET_RAW, landlock ABI 7, files can be made and removed in /var/flows, \
             files can be removed in /run/millrace, starts gzip, listens at TCP port 7000, opens TCP and UDP sockets, \
             seccomp"
        );
        assert_eq!(held.json()["holds"], true);
        assert_eq!(held.json()["capabilities"], json!(["NET_RAW"]));
    }

    #[test]
    fn who_may_open_a_unix_socket_and_connect_another_one_reaches_all() {
        let said = |needs: &[Need]| {
            let (mut held, mut policy) = (Summary::wanted(), Policy::default());
            needs.iter().for_each(|need| policy.add(need.clone()));
            held.opens(&policy);
            held.line()
        };
        assert!(said(&[Need::UnixListeners]).ends_with(" listens at Unix sockets"));
        let both = said(&[Need::UnixListeners, Need::InetSockets]);
        assert!(both.ends_with(" connects to any Unix socket"), "{both}");
        assert!(!said(&[Need::InetSockets]).contains("Unix"));
    }

    #[test]
    fn what_does_not_hold_is_not_said_to() {
        let mut held = Summary::wanted();
        held.keeps(Vec::new());
        held.fails("files not restricted", "the kernel has no landlock");
        held.filters();
        let json = held.json();
        assert_eq!((&json["holds"], &json["landlock"]), (&json!(false), &Value::Null));
        assert!(held.line().contains("files not restricted (the kernel has no landlock)"));
        let none = Summary::none();
        assert!(
            none.holds && none.json()["holds"] == false,
            "it is as wished, but nothing is held"
        );
    }
}
