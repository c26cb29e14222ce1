a -> ] b :: C(1, 2;
elementclass { -> X -> }
( a -> b } ; { c ) || ... }
d [x] -> [99999] e :: ; -> f
g :: G("unclosed
