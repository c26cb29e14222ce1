//! The word replacer and the stream IDS of the examples, between curl and a web server, over links that lose
//! packets, and disorder them where the kernel can make them so.

use std::time::Duration;

use millrace_testkit::{Namespace, privileged};

use crate::program::Millrace;
use crate::server::Server;
use crate::{assert_pings, stdout, two_hosts};

/// A web server whose pages consist of words: by their length, in chunks, or up to the end of the connection.
const SERVER: &str = "
import http.server, sys
class Pages(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *_): pass
    def do_GET(self):
        page = b'some secret words, ' * 10000
        self.send_response(200)
        if self.path == '/length':
            self.send_header('Content-Length', str(len(page)))
            self.end_headers()
            self.wfile.write(page)
        elif self.path == '/chunks':
            self.send_header('Transfer-Encoding', 'chunked')
            self.end_headers()
            for at in range(0, len(page), 1009):
                part = page[at:at + 1009]
                self.wfile.write(b'%x\\r\\n%s\\r\\n' % (len(part), part))
            self.wfile.write(b'0\\r\\n\\r\\n')
        else:
            self.send_header('Connection', 'close')
            self.end_headers()
            self.wfile.write(page)
            self.close_connection = True
    def do_POST(self):
        got = self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200)
        self.send_header('Content-Length', str(len(got)))
        self.end_headers()
        self.wfile.write(got)
http.server.ThreadingHTTPServer(('10.9.0.2', 80), Pages).serve_forever()
";

/// Starts the web server.
fn serve(host: &Namespace) -> Server {
    Server::start(host, "python3", &["-c", SERVER], 80, Duration::from_secs(20))
}

/// Lets both hosts' links lose and disorder what they send, if the kernel can (its module sch_netem); otherwise both hosts
/// lose some of what they receive.
fn disturb(hosts: [&Namespace; 2]) {
    for host in hosts {
        let output = host.run("tc qdisc add dev lan root netem delay 2ms 1ms loss 1% reorder 5%");
        if output.status.success() {
            continue;
        }
        let rules = "add table inet lossy; \
                     add chain inet lossy in { type filter hook input priority 0; }; \
                     add rule inet lossy in numgen random mod 100 < 1 counter drop";
        let output = host.command("nft").arg(rules).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn pages_arrive_with_words_replaced() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping", "ss", "tc", "nft", "python3", "curl")
    else {
        return;
    };
    let (left, right, between) = two_hosts();
    let example = ["word-replacer.click", "WORD=secret", "NEW=\"not at all confidential\""];
    let replacer = Millrace::start(between, &example);
    assert_pings(&left, "10.9.0.2");
    let _server = serve(&right);
    disturb([&left, &right]);
    let page = "some not at all confidential words, ".repeat(10_000);
    // Several on one connection.
    let pages = ["length", "chunks", "length", "close"];
    let addresses = pages.map(|page| format!("http://10.9.0.2/{page}"));
    let got = left.run(&format!("curl -s -m 60 --compressed {}", addresses.join(" ")));
    let text = stdout(&got);
    assert!(got.status.success(), "{:?}", got.status);
    assert!(text == page.repeat(pages.len()), "{} bytes", text.len());
    // Requests with content pass; in what comes back, the word is replaced.
    let posted = left.run("curl -s -m 60 -d a=secret http://10.9.0.2/");
    assert_eq!(stdout(&posted), "a=not at all confidential");
    let summary = replacer.stop();
    // The client gets segments as long as the kernel's, and acknowledges few of them by themselves.
    let received = ["up", "down"].map(|path| summary.received(path));
    assert!(received[0] > 10 && received[1] > 100, "{received:?}");
}

#[test]
fn a_word_closes_its_connection() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping", "ss", "tc", "nft", "python3", "curl")
    else {
        return;
    };
    let (left, right, between) = two_hosts();
    let ids = Millrace::start(between, &["stream-ids.click", "WORD=ATTACK"]);
    let _server = serve(&right);
    disturb([&left, &right]);
    let got = left.run("curl -s -m 60 http://10.9.0.2/length http://10.9.0.2/chunks");
    assert!(stdout(&got) == "some secret words, ".repeat(20_000), "{:?}", got.status);
    // The word comes in two segments, so that no packet contains it.
    let halves = "
import socket, sys, time
s = socket.create_connection(('10.9.0.2', 80))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.settimeout(30)
s.sendall(b'GET /ATT')
time.sleep(0.1)
try:
    s.sendall(b'ACK HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n')
    while s.recv(4096): print('an answer')
    print('end')
except ConnectionError:
    print('reset')
";
    let output = left.command("python3").args(["-c", halves]).output().unwrap();
    assert_eq!(stdout(&output), "reset\n", "{output:?}");
    ids.stop();
}
