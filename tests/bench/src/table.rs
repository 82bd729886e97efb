//! How figures are printed: a name, a figure, the aim beside it.

use std::time::Duration;

/// Prints the head of a part.
pub(crate) fn head(text: &str, about: &str) {
    println!("\n{text}");
    for line in about.lines() {
        println!("  {}", line.trim());
    }
}

/// Prints one figure with its aim; an empty aim means that there is none.
pub(crate) fn figure(name: &str, figure: &str, aim: &str) {
    let aim = if aim.is_empty() { String::new() } else { format!("aim {aim}") };
    println!("{}", format!("  {name:<44} {figure:>24}   {aim}").trim_end());
}

/// Milliseconds with as many digits as they deserve.
pub(crate) fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1000.0;
    if millis < 10.0 { format!("{millis:.2} ms") } else { format!("{millis:.0} ms") }
}

/// The value in the middle; the lower one of two.
pub(crate) fn median<T: Copy + Ord>(values: &[T]) -> Option<T> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_a_value_that_was_measured() {
        for (values, expected) in [(vec![], None), (vec![3], Some(3)), (vec![9, 1], Some(1)), (vec![5, 1, 9], Some(5))] {
            assert_eq!(median(&values), expected, "{values:?}");
        }
    }
}
