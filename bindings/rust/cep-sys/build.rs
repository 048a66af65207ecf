// SPDX-License-Identifier: Apache-2.0
//! Tells the linker where libcep is. With the feature "bindgen", generates the declarations from the header.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const BINDGEN_OPTIONS: [&str; 14] = [
    "--no-layout-tests",
    "--no-doc-comments",
    "--disable-header-comment",
    "--no-include-path-detection",
    "--default-macro-constant-type",
    "signed",
    "--allowlist-function",
    "cep_.*",
    "--allowlist-type",
    "cep_.*",
    "--allowlist-var",
    "CEP_.*",
    "--no-recursive-allowlist",
    "--output",
];

fn main() {
    for variable in ["CEP_LIB_DIR", "CEP_INCLUDE_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "DOCS_RS"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rustc-link-lib=dylib=cep");
    if let Some(directory) = library_directory() {
        println!("cargo:rustc-link-search=native={directory}");
        println!("cargo:lib_dir={directory}");
    }
    if env::var_os("CARGO_FEATURE_BINDGEN").is_some() {
        make_declarations();
    }
}

/// The directory for the linker to search; None if its own search path is enough.
fn library_directory() -> Option<String> {
    if let Ok(directory) = env::var("CEP_LIB_DIR") {
        assert!(Path::new(&directory).is_dir(), "CEP_LIB_DIR: {directory:?} is not a directory");
        return Some(directory);
    }
    // docs.rs builds the documentation without the library, and links nothing.
    if env::var_os("DOCS_RS").is_some() {
        return None;
    }
    match pkg_config(&["--exists", "--print-errors", &version_range()]) {
        Ok(_) => pkg_config(&["--variable=libdir", "cep"]).ok().filter(|text| !text.is_empty()),
        Err(why) => {
            println!("cargo:warning=pkg-config does not find libcep ({why}), and CEP_LIB_DIR is not set");
            None
        }
    }
}

/// Until 1.0 a minor version may be incompatible with the one before.
fn version_range() -> String {
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    let minor: u32 = env!("CARGO_PKG_VERSION_MINOR").parse().expect("cargo gives a number");
    format!("cep >= {major}.{minor} cep < {major}.{}", minor + 1)
}

fn pkg_config(arguments: &[&str]) -> Result<String, String> {
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let output = Command::new(&program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().replace('\n', "; ");
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

fn include_directory() -> String {
    env::var("CEP_INCLUDE_DIR")
        .or_else(|_| pkg_config(&["--variable=includedir", "cep"]))
        .unwrap_or_else(|why| panic!("cannot find cep/cep.h: CEP_INCLUDE_DIR is not set, and pkg-config says: {why}"))
}

fn make_declarations() {
    let header = Path::new(&include_directory()).join("cep/cep.h");
    println!("cargo:rerun-if-changed={}", header.display());
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("bindings.rs");
    let status = Command::new("bindgen")
        .args(BINDGEN_OPTIONS)
        .arg(&output)
        .arg(&header)
        .args(["--", "-std=c99"])
        .status()
        .unwrap_or_else(|error| panic!("bindgen: {error}"));
    assert!(status.success(), "bindgen: {status}");
}
