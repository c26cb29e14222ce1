// Replaces a word in web pages: a transparent box between two networks.
//
//     clients -- LEFT [ replacer ] RIGHT -- servers
//
// Everything passes from one side to the other. HTTP connections (port 80) are followed: the word is replaced in the
// content of responses, also where it is divided among segments or chunks, and the text may be longer or shorter.
// Connections that were open before pass as they are, and so do fragments, IPv6 packets with extension headers, and
// frames with VLAN tags.
//
// On the machine's own interfaces:  sudo millrace run examples/word-replacer.click LEFT=eth1 RIGHT=eth2 WORD=blue NEW=green

define($LEFT eth0, $RIGHT eth1, $WORD secret, $NEW "a longer word");

left :: Queue(4096) -> ToDevice($LEFT);
right :: Queue(4096) -> ToDevice($RIGHT);

// Requests: servers are asked not to compress.
FromDevice($LEFT, PROMISC true)
    -> requests :: CTXManager
    -> fromleft :: CTXDispatcher(12/0800 14/45 20/0000/1fff 23/06 36/0050 0, 12/86dd 20/06 56/0050 1, - 2);
fromleft [0]
    -> MarkIPHeader(14)
    -> up :: TCPIn(down, UNTRACKED PASS)
    -> HTTPIn(NOENC true)
    -> HTTPOut
    -> TCPOut
    -> right;
fromleft [1] -> MarkIP6Header(14) -> up;
fromleft [2] -> right;

// Responses.
FromDevice($RIGHT, PROMISC true)
    -> responses :: CTXManager
    -> fromright :: CTXDispatcher(12/0800 14/45 20/0000/1fff 23/06 34/0050 0, 12/86dd 20/06 54/0050 1, - 2);
fromright [0]
    -> MarkIPHeader(14)
    -> down :: TCPIn(up, UNTRACKED PASS)
    -> HTTPIn
    -> words :: WordMatcher(WORD $WORD, MODE FULL, MSG $NEW, ALL true)
    -> HTTPOut
    -> TCPOut
    -> left;
fromright [1] -> MarkIP6Header(14) -> down;
fromright [2] -> left;
