//! Prints `docs/verbs.md`.

fn main() {
    print!("{}", roboco_company::brief::verb_reference());
}
