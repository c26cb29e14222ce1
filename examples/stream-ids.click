// Watches TCP streams, and closes connections in which a word appears: a transparent box between two networks.
//
//     clients -- LEFT [ ids ] RIGHT -- servers
//
// Each direction of a connection is one stream of bytes: a word is found wherever segments begin and end, and in
// whatever order they arrive. Both sides get a reset before the receiver has all of the word.
//
// TCP over IPv4 and IPv6 is followed. What cannot be followed is dropped: connections that were open before, and TCP in
// fragments. Other protocols pass, and so do frames with VLAN tags, which the patterns below do not look into.
//
// On the machine's own interfaces:  sudo millrace run examples/stream-ids.click LEFT=eth1 RIGHT=eth2 WORD=ATTACK

define($LEFT eth0, $RIGHT eth1, $WORD ATTACK);

left :: Queue(4096) -> ToDevice($LEFT);
right :: Queue(4096) -> ToDevice($RIGHT);

FromDevice($LEFT, PROMISC true)
    -> CTXManager
    -> fromleft :: CTXDispatcher(12/0800 23/06 0, 12/86dd 1, - 2);
fromleft [0]
    -> MarkIPHeader(14)
    -> up :: TCPIn(down)
    -> upwords :: WordMatcher(WORD $WORD, MODE CLOSE)
    -> TCPOut
    -> right;
fromleft [1] -> MarkIP6Header(14) -> up;
fromleft [2] -> right;

FromDevice($RIGHT, PROMISC true)
    -> CTXManager
    -> fromright :: CTXDispatcher(12/0800 23/06 0, 12/86dd 1, - 2);
fromright [0]
    -> MarkIPHeader(14)
    -> down :: TCPIn(up)
    -> downwords :: WordMatcher(WORD $WORD, MODE CLOSE)
    -> TCPOut
    -> left;
fromright [1] -> MarkIP6Header(14) -> down;
fromright [2] -> left;
