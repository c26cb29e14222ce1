// A wire between two interfaces: what arrives on one leaves on the other, unchanged, and is counted.
//
// In the lab, without privileges:   millrace run examples/bridge.click --lab
// On the machine's own interfaces:  sudo millrace run examples/bridge.click LEFT=eth2 RIGHT=eth3

define($LEFT eth0, $RIGHT eth1);

FromDevice($LEFT, PROMISC true) -> rightward :: Counter -> Queue -> ToDevice($RIGHT);
FromDevice($RIGHT, PROMISC true) -> leftward :: Counter -> Queue -> ToDevice($LEFT);
