//! A router does not take an interface that the machine itself depends on, unless its user consents.

use std::net::{TcpListener, TcpStream};

use millrace_testkit::{Namespace, privileged};

const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");
const CLICK: &str = env!("CARGO_BIN_EXE_click");

/// Runs a configuration for a moment; what it said if it was refused.
fn refused(machine: &Namespace, program: &[&str], config: &str) -> Option<String> {
    let config = format!("{config}; DriverManager(wait 0.1s, stop)");
    let (program, arguments) = program.split_first().unwrap();
    let output = machine.command(program).args(arguments).args(["-e", &config]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then_some(text)
}

#[test]
fn an_interface_that_the_machine_needs_is_taken_by_consent_only() {
    let Some(_alone) = privileged!("ip", "sysctl") else { return };
    let (machine, other) = (Namespace::new("machine"), Namespace::new("other"));
    for (n, name) in ["up0", "ssh0", "free0"].into_iter().enumerate() {
        machine.connect(name, &other, &format!("lan{n}"));
        machine.ip(&format!("address add 10.0.{n}.1/24 dev {name}"));
        other.ip(&format!("address add 10.0.{n}.2/24 dev lan{n}"));
    }
    machine.ip("route add default via 10.0.0.2");
    let listener = other.enter(|| TcpListener::bind("10.0.1.2:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let _connection = machine.enter(|| TcpStream::connect(address)).unwrap();

    let run: &[&str] = &[MILLRACE, "run"];
    let consenting: &[&str] = &[MILLRACE, "run", "--take-interface"];
    let transmits = |device: &str| format!("Idle -> Queue -> ToDevice({device})");
    let receives = |device: &str, how: &str| format!("FromDevice({device}, {how}) -> Discard");
    for config in [transmits("free0"), receives("up0", ""), receives("free0", "SNIFFER false")] {
        assert_eq!(refused(&machine, run, &config), None, "{config}");
    }
    for (device, why) in [("up0", "the default route"), ("ssh0", "uses its address 10.0.1.1")] {
        for config in
            [transmits(device), receives(device, "SNIFFER false"), receives(device, "METHOD XDP")]
        {
            for program in [run, &[CLICK]] {
                let said = refused(&machine, program, &config).expect(&config);
                assert!(said.contains(why) && said.contains("--take-interface"), "{said}");
            }
            assert_eq!(refused(&machine, consenting, &config), None, "{config}");
            let meant = format!("require(take_interface); {config}");
            assert_eq!(refused(&machine, run, &meant), None, "{meant}");
        }
    }
    assert_eq!(refused(&machine, &[CLICK, "--take-interface"], &transmits("up0")), None);

    // A port of a bridge that the machine uses.
    machine.connect("port0", &other, "lan3");
    machine.ip("link add br0 type bridge");
    machine.ip("link set port0 master br0");
    machine.ip("link set br0 up");
    machine.ip("address add 10.0.3.1/24 dev br0");
    machine.ip("route add default via 10.0.3.2 dev br0 metric 7");
    let said = refused(&machine, run, &transmits("port0")).unwrap();
    assert!(said.contains("it carries br0: it has the default route"), "{said}");
}
