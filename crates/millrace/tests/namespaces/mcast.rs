//! Groups on the loopback interface, where a host hears all that it sends.

use millrace_testkit::{Namespace, privileged};

#[test]
fn without_loop_a_group_hears_the_others_only() {
    let Some(_alone) = privileged!("ip") else { return };
    let machine = Namespace::new("machine");
    machine.ip("link set lo up");
    machine.ip("route add 224.0.0.0/4 dev lo");
    let config = "InfiniteSource(LIMIT 3) -> a :: McastSocket(239.255.77.1, 7701, LOOP false)
            -> own :: Counter -> Discard;
        McastSocket(239.255.77.1, 7701, LOOP false) -> others :: Counter -> Discard;
        DriverManager(wait 0.5s, print $(own.count) $(others.count), stop)";
    let mut command = machine.command(env!("CARGO_BIN_EXE_click"));
    let output = command.args(["-e", config]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 3\n", "{said}");
}
