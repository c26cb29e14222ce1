//! The address translator of `examples/nat.click`: two hosts inside, one outside.

use std::time::Duration;

use millrace_testkit::privileged;

use crate::program::Millrace;
use crate::server::Server;
use crate::{METHODS, answered, assert_pings, four_networks, stdout};

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(120);

/// Says to whoever connects which address it comes from.
const WHO: &str = "
import socket
s = socket.create_server(('10.0.2.2', 7000))
while True:
    c, a = s.accept()
    c.sendall(a[0].encode())
    c.close()
";

/// As much of an FTP server as active transfers take (RFC 959).
const FTP: &str = r"
import socket
s = socket.create_server(('10.0.2.2', 21))
while True:
    c, _ = s.accept()
    f = c.makefile('rw', newline='')
    def say(t):
        f.write(t + '\r\n'); f.flush()
    say('220 here')
    for line in f:
        word, _, rest = line.strip().partition(' ')
        if word == 'PORT':
            n = rest.split(',')
            to = ('.'.join(n[:4]), int(n[4]) * 256 + int(n[5]))
            say('200 ok')
        elif word == 'RETR':
            say('150 coming')
            d = socket.socket()
            d.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            d.bind(('10.0.2.2', 20)); d.connect(to)
            d.sendall(('to ' + to[0] + '\n').encode() * 1000); d.close()
            say('226 done')
        elif word == 'USER': say('230 come in')
        elif word == 'PWD': say('257 \'/\'')
        elif word == 'QUIT': say('221 bye'); break
        elif word in ('TYPE', 'CWD'): say('200 ok')
        else: say('502 no')
    c.close()
";

#[test]
fn hosts_inside_share_one_address_outside() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping", "ss", "python3", "curl") else { return };
    for method in METHODS {
        eprintln!("method {method}:");
        let (hosts, between) = four_networks();
        let router = Millrace::start(between, &["--method", method, "nat.click"]);
        let outside = &hosts[2];
        for inside in &hosts[..2] {
            assert_pings(inside, "10.0.2.2");
            assert_pings(inside, "-s 1400 10.0.2.2");
        }
        let _who = Server::start(outside, "python3", &["-c", WHO], 7000, PATIENCE);
        for inside in &hosts[..2] {
            let seen = inside.run("curl -s --http0.9 -m 10 http://10.0.2.2:7000/");
            assert_eq!(stdout(&seen), "10.0.2.1", "{seen:?}");
        }
        let _ftp = Server::start(outside, "python3", &["-c", FTP], 21, PATIENCE);
        for inside in &hosts[..2] {
            let got = inside.run("curl -s -m 10 --disable-eprt -P - ftp://10.0.2.2/file");
            assert!(stdout(&got) == "to 10.0.2.1\n".repeat(1000), "{:?}", got.status);
        }
        // Nobody outside can begin.
        let output = outside.run("ping -n -c 1 -W 1 10.0.0.2");
        assert!(!answered(&output, 1), "{output:?}");
        router.stop();
    }
}

#[test]
fn streams_of_tcp_and_udp_pass_the_translator() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping", "ss", "iperf3") else { return };
    let (hosts, between) = four_networks();
    let router = Millrace::start(between, &["nat.click"]);
    let _server = Server::start(&hosts[2], "iperf3", &["-s"], 5201, PATIENCE);
    for (host, arguments) in [(0, "-n 4M"), (1, "-n 4M -R"), (1, "-u -b 4M -n 200K -l 1000")] {
        let output = hosts[host].run(&format!("iperf3 -c 10.0.2.2 {arguments}"));
        assert!(output.status.success(), "{arguments}: {output:?}");
    }
    router.stop();
}
