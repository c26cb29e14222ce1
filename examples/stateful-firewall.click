// A firewall for IPv4 and IPv6 in the wire between two interfaces: hosts inside may open connections, others may not,
// but for ssh and pings. Answers, fragments of answers, and errors about packets of connections come back.
//
// IPv6 needs messages that belong to no connection (RFC 4890, 4.4.1): neighbours look for each other, and routers say who
// they are. They come from the wire itself, which a hop limit of 255 proves. If no router is outside, leave out
// routeradvert.
//
// On the machine's own interfaces:  sudo millrace run examples/stateful-firewall.click INSIDE=eth2 OUTSIDE=eth3

define($INSIDE eth0, $OUTSIDE eth1);

elementclass Side { $device, $side |
    FromDevice($device, PROMISC true) -> Paint($side) -> kind :: Classifier(12/0800, 12/86dd, -);
    kind [0] -> CheckIPHeader(14) -> [0] output;
    kind [1] -> CheckIP6Header(OFFSET 14) -> [0] output;
    kind [2] -> [1] output; // ARP and others
}

inside :: Side($INSIDE, 0) -> tracker :: ConnectionTracker -> side :: PaintSwitch;
outside :: Side($OUTSIDE, 1) -> tracker;
to_inside :: ToDevice($INSIDE);
to_outside :: ToDevice($OUTSIDE);

side [0] -> outward :: IPFilter(deny invalid, allow all) -> to_outside;
side [1]
    -> inward :: IPFilter(allow established or related,
                              allow new and tcp dst port ssh,
                              allow new and (icmp type echo or icmp6 type echo),
                              allow ip6 hlim 255
                                  and (icmp6 type neighborsolicit or neighboradvert or routeradvert),
                              deny all)
    -> to_inside;
inside [1] -> to_outside;
outside [1] -> to_inside;
