// SPDX-License-Identifier: Apache-2.0
//! With the feature "bindgen": bindgen's output for the header equals src/bindings.rs.
#![cfg(feature = "bindgen")]

/// Removes from the declarations the differences between versions of bindgen and rustfmt: comments, white space, a comma
/// after the last argument, and the keyword that newer editions require before `extern`.
fn normalized(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words: String = lines.flat_map(str::split_whitespace).collect();
    words.replace(",)", ")").replace("unsafeextern", "extern").replace("}extern\"C\"{", "")
}

#[test]
fn declarations_are_those_of_the_header() {
    let made = normalized(include_str!(concat!(env!("OUT_DIR"), "/bindings.rs")));
    let kept = normalized(include_str!("../src/bindings.rs"));
    assert!(made.contains("pubfncep_open("), "{made}");
    assert_eq!(made, kept);
}
