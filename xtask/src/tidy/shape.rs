//! Concentration of state: a type that holds too much or does too much. Length alone does not show it; a class can be made of short
//! functions and still be impossible to hold in one's head.
//!
//! Relies on the formatter: items open and close in the first column, fields and methods are indented once.

use std::collections::BTreeMap;

use super::{Problem, SourceFile};

/// Private fields of one struct. Structs whose fields are all public are plain data and may be wide.
const FIELDS: usize = 12;
/// Methods of one type over all its own `impl` blocks in a crate. Methods that a trait asks for do not count.
const METHODS: usize = 25;

/// Types over the cap that are known: crate, type, and the methods it may not exceed. The list only shrinks.
pub(super) const ALLOWED: &[(&str, &str, usize)] = &[("crates/company", "Company", 39), ("crates/git", "Repos", 76)];

/// Structs with too many private fields and types with too many methods, and entries of the list that are no longer needed.
pub(super) fn too_much_in_one_place(files: &[SourceFile], allowed: &[(&str, &str, usize)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut methods: BTreeMap<(&str, String), (usize, &str)> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_production_rust()) {
        for item in items(file) {
            match item {
                Item::Struct { name, line, private } if private > FIELDS => problems.push(Problem {
                    place: format!("{}:{line}", file.path),
                    message: format!("`{name}` has {private} private fields, the cap is {FIELDS}: find the smaller things in it"),
                }),
                Item::Struct { .. } => {}
                Item::Methods { of, count } => methods.entry((crate_of(&file.path), of)).or_insert((0, &file.path)).0 += count,
            }
        }
    }
    for ((room, name), (count, place)) in &methods {
        let limit = allowed.iter().find(|(of, listed, _)| of == room && listed == name).map(|(_, _, limit)| *limit);
        let message = match limit {
            None if *count > METHODS => format!("`{name}` has {count} methods, the cap is {METHODS}: find the smaller things in it"),
            Some(limit) if *count > limit => format!("`{name}` grew to {count} methods from {limit}: it is already over the cap"),
            Some(limit) if *count < limit => format!("`{name}` shrank to {count} methods: lower its number or remove it from the list"),
            None | Some(_) => continue,
        };
        problems.push(Problem { place: (*place).to_owned(), message });
    }
    let is_gone = |(room, name, _): &&(&str, &str, usize)| !methods.keys().any(|(of, found)| of == room && found == name);
    problems.extend(allowed.iter().filter(is_gone).map(|(room, name, _)| Problem {
        place: (*room).to_owned(),
        message: format!("`{name}` does not exist: remove it from the list of wide types"),
    }));
    problems
}

enum Item {
    Struct { name: String, line: usize, private: usize },
    Methods { of: String, count: usize },
}

fn items(file: &SourceFile) -> Vec<Item> {
    let mut items = Vec::new();
    let mut lines = file.production_lines();
    while let Some((line, text)) = lines.next() {
        let body = lines.by_ref().take_while(|(_, text)| *text != "}").map(|(_, text)| text);
        if let Some(name) = struct_name(text) {
            items.push(Item::Struct { name, line, private: body.filter(|text| is_private_field(text)).count() });
        } else if let Some(of) = inherent_impl(text) {
            items.push(Item::Methods { of, count: body.filter(|text| is_method(text)).count() });
        } else if text.ends_with('{') && !text.starts_with(' ') {
            body.for_each(drop);
        }
    }
    items
}

fn crate_of(path: &str) -> &str {
    path.split("/src/").next().unwrap_or(path)
}

/// The name of a struct with named fields that opens on this line.
fn struct_name(line: &str) -> Option<String> {
    let declared = line.strip_suffix('{')?;
    let rest = declared.split_once("struct ").filter(|(before, _)| before.is_empty() || before.starts_with("pub"))?.1;
    Some(identifier(rest))
}

/// The type of an `impl` block that opens on this line and implements no trait.
fn inherent_impl(line: &str) -> Option<String> {
    let declared = line.strip_prefix("impl")?.strip_suffix('{').filter(|rest| !rest.contains(" for "))?;
    let of = match declared.strip_prefix('<') {
        Some(generic) => after_generics(generic)?,
        None => declared,
    };
    Some(identifier(of.trim_start()))
}

/// What follows the closing bracket of generics that were just opened.
fn after_generics(text: &str) -> Option<&str> {
    let mut depth = 1_usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(index + 1..);
        }
    }
    None
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn indented_once(line: &str) -> Option<&str> {
    line.strip_prefix("    ").filter(|rest| !rest.starts_with(' '))
}

fn is_private_field(line: &str) -> bool {
    let name_ends = |rest: &str| rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(0);
    indented_once(line).is_some_and(|rest| name_ends(rest) > 0 && rest.get(name_ends(rest)..).is_some_and(|rest| rest.starts_with(": ")))
}

fn is_method(line: &str) -> bool {
    let is_keyword = |word: &&str| word.starts_with("pub") || matches!(*word, "const" | "async" | "unsafe");
    indented_once(line).is_some_and(|rest| rest.split(' ').find(|word| !is_keyword(word)) == Some("fn"))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn structure(visibility: &str, fields: usize) -> String {
        let fields: String = (0..fields).map(|n| format!("    /// Field.\n    {visibility}f{n}: u8,\n")).collect();
        format!("//! A.\n\npub struct Wide {{\n{fields}}}\n")
    }

    fn methods(head: &str, count: usize) -> String {
        let methods: String = (0..count).map(|n| format!("    pub(crate) async fn m{n}(&self) {{\n        f();\n    }}\n")).collect();
        format!("//! A.\n\n{head} {{\n{methods}}}\n")
    }

    #[test]
    fn structs_with_many_private_fields_are_reported() {
        for (visibility, fields, expected) in [("", 12, 0), ("", 13, 1), ("pub ", 40, 0), ("pub(crate) ", 40, 0)] {
            let problems = too_much_in_one_place(&[sample("crates/a/src/b.rs", &structure(visibility, fields))], &[]);
            assert_eq!(problems.len(), expected, "{visibility:?} {fields}: {problems:?}");
        }
    }

    #[test]
    fn methods_are_counted_over_all_blocks_of_a_crate() {
        let file = |path: &str, head: &str, count| sample(path, &methods(head, count));
        let cases = [
            (vec![file("crates/a/src/b.rs", "impl Wide", 25)], 0),
            (vec![file("crates/a/src/b.rs", "impl Wide", 26)], 1),
            (vec![file("crates/a/src/b.rs", "impl<'a, T: Into<u8>> Wide<'a, T>", 26)], 1),
            (vec![file("crates/a/src/b.rs", "impl Visitor for Wide", 40)], 0),
            (vec![file("crates/a/src/b.rs", "impl Wide", 20), file("crates/a/src/c.rs", "impl Wide", 20)], 1),
            (vec![file("crates/a/src/b.rs", "impl Wide", 20), file("crates/c/src/c.rs", "impl Wide", 20)], 0),
            (vec![file("crates/a/src/b.rs", "impl Wide", 20), file("crates/a/src/c.rs", "impl Other", 20)], 0),
        ];
        for (files, expected) in cases {
            assert_eq!(too_much_in_one_place(&files, &[]).len(), expected, "{files:?}");
        }
    }

    #[test]
    fn the_list_of_wide_types_only_shrinks() {
        let files = |count| [sample("crates/a/src/b.rs", &methods("impl Wide", count))];
        let listed: &[(&str, &str, usize)] = &[("crates/a", "Wide", 30)];
        for (count, expected) in [(30, None), (31, Some("grew")), (29, Some("lower")), (20, Some("remove"))] {
            let problems = too_much_in_one_place(&files(count), listed);
            match expected {
                None => assert_eq!(problems, [], "{count}"),
                Some(part) => assert!(problems.len() == 1 && problems[0].message.contains(part), "{count}: {problems:?}"),
            }
        }
        assert_eq!(too_much_in_one_place(&[], listed).len(), 1);
    }

    #[test]
    fn items_after_each_other_do_not_run_together() {
        let text = "//! A.\n\nstruct Unit;\n\nstruct A {\n    a: u8,\n}\n\nfn f() {\n    let x: u8 = 0;\n}\n\nimpl A {\n    fn m() {}\n}\n";
        let file = sample("crates/a/src/b.rs", text);
        let found: Vec<String> = items(&file)
            .into_iter()
            .map(|item| match item {
                Item::Struct { name, private, .. } => format!("struct {name} {private}"),
                Item::Methods { of, count } => format!("impl {of} {count}"),
            })
            .collect();
        assert_eq!(found, ["struct A 1", "impl A 1"]);
    }
}
