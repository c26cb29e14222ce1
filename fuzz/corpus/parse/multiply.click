elementclass A { X } elementclass B { A; A; A; A } elementclass C { B; B; B; B }
elementclass D { C; C; C; C } elementclass E { D; D; D; D } define($a xx, $b $a$a, $c $b$b, $d $d)
E; Y($c, $d, $P)
a [0-20] => [0-20] b; a => b, c, d, [4-9] e;
