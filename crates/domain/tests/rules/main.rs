//! The rules of a leaf, tested as a whole: tables, scripted scenarios, random histories, and the proof that taking a rule away is noticed.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first surprise")]

mod assembly;
mod histories;
mod holds;
mod invariants;
mod matrix;
mod mutants;
mod path;
mod planning;
mod projection;
mod refusals;
mod reviews;
mod runs;
mod scene;
mod script;
mod table;
mod work;
mod world;

/// Scenarios as tests, and as a list that the mutation test plays again.
macro_rules! scenarios {
    ($($name:ident: $script:literal;)*) => {
        $(#[test]
        fn $name() {
            crate::script::check($script);
        })*

        /// Every scenario of this file by name.
        pub(crate) const ALL: &[(&str, &str)] = &[$((stringify!($name), $script)),*];
    };
}
use scenarios;
