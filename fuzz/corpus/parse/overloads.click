elementclass Shaped {
    input -> Queue -> Shaper(1000) -> output;
||
    $cap | input -> Queue($cap) -> Shaper(1000) -> output;
||
    $cap, RATE $rate, __REST__ $rest |
    input -> Queue($cap, $rest) -> Shaper($rate) -> output;
}
elementclass Queue { $a, $b | -> Queue($a) -> Counter($b) -> || ... }
I -> Shaped -> Shaped(5) -> Shaped(5, RATE 7, X 1, Y 2) -> Queue(1, 2) -> Queue(3) -> D;
elementclass Alias Shaped;
I -> { $x | elementclass Inner { $y | -> P($x $y) -> } -> Inner(2) -> } (1) -> D
