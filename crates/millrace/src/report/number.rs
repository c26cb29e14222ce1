//! Numbers as tables show them.

/// A number with a unit for its thousands, such as `12.3 M`: three or four digits.
pub(crate) fn scaled(value: f64) -> String {
    let mut value = value;
    for unit in ["", " k", " M", " G", " T"] {
        if value < 999.5 || unit == " T" {
            return match (unit, value) {
                ("", v) if v.fract() == 0.0 || v >= 100.0 => format!("{v:.0}"),
                (_, v) if v >= 99.95 => format!("{v:.0}{unit}"),
                (_, v) => format!("{v:.1}{unit}"),
            };
        }
        value /= 1000.0;
    }
    String::new()
}

/// One decimal place below 100, none above; a hyphen for `None`.
pub(crate) fn mean(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 99.95 => format!("{value:.0}"),
        Some(value) => format!("{value:.1}"),
    }
}

/// The plural of a word such as `packet`, unless `n` is 1.
pub(super) fn plural(n: u64, one: &str) -> String {
    if n == 1 { format!("{n} {one}") } else { format!("{n} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_few_digits_and_a_unit() {
        let cases = [
            (0.0, "0"),
            (7.0, "7"),
            (7.25, "7.2"),
            (999.0, "999"),
            (999.6, "1.0 k"),
            (1500.0, "1.5 k"),
            (99_960.0, "100 k"),
            (14_880_952.0, "14.9 M"),
            (2.5e13, "25.0 T"),
        ];
        for (value, expected) in cases {
            assert_eq!(scaled(value), expected);
        }
    }

    #[test]
    fn means_have_at_most_one_decimal_place() {
        assert_eq!(mean(None), "-");
        assert_eq!(mean(Some(31.97)), "32.0");
        assert_eq!(mean(Some(256.0)), "256");
    }
}
