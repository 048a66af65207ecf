// SPDX-License-Identifier: Apache-2.0
//! Invalid values lead to an error that names them.

use cep::{Code, Kind, Options};

/// The error of opening a profiler with these options, in a directory that cannot be made.
fn failing(options: Options) -> cep::Error {
    options.directory("/dev/null/none").open().expect_err("nothing can be made there")
}

#[test]
fn a_bad_option_is_named() {
    let error = failing(Options::new().record_every_n_steps(0));
    assert_eq!(error.code, Code::EOPTION);
    assert!(error.to_string().contains("record_every_n_steps"), "{error}");
}

#[test]
fn a_bound_that_is_no_share_is_named_with_its_value() {
    let error = failing(Options::new().max_overhead_percent(-0.5));
    assert_eq!(error.code, Code::EOPTION);
    assert!(error.message.contains("max_overhead_percent: -0.5"), "{error}");
}

#[test]
fn a_rank_outside_the_world_is_an_error() {
    assert_eq!(failing(Options::new().rank(2).world_size(2)).code, Code::EOPTION);
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_of_the_file_system() {
    let error = failing(Options::new());
    assert_eq!(error.code, Code::EIO);
    assert!(error.message.contains("/dev/null/none"), "{error}");
}

#[test]
fn a_directory_with_a_nul_is_an_error() {
    let error = Options::new().directory("a\0b").open().unwrap_err();
    assert_eq!(error.code, Code::EOPTION);
    assert!(error.message.contains("directory"), "{error}");
}

#[test]
fn a_configuration_that_is_not_json_is_an_error() {
    assert_eq!(Options::new().load_json("{\"enable\": maybe}").unwrap_err().code, Code::EJSON);
}

#[test]
fn a_configuration_sets_options_and_later_calls_override_it() {
    let configured = || Options::new().load_json(r#"{"enable": true, "start_step": 7}"#).unwrap();
    assert_eq!(failing(configured().end_step(3)).code, Code::EOPTION);
    assert_eq!(failing(configured().start_step(1).end_step(3)).code, Code::EIO);
}

#[test]
fn a_loaded_configuration_that_does_not_enable_is_off() {
    let profiler = Options::new().load_json("{}").unwrap().directory("/dev/null/none").open().unwrap();
    profiler.step(0).unwrap();
    assert!(!profiler.recording() && !profiler.enabled());
}

#[test]
fn a_rank_that_is_not_listed_is_off() {
    let options = Options::new().rank(1).world_size(4).ranks([0, 2]).record_every_n_steps(1);
    let profiler = options.directory("/dev/null/none").open().unwrap();
    profiler.step(0).unwrap();
    assert!(!profiler.recording() && !profiler.enabled());
    assert_eq!(profiler.rank(), 1);
}

#[test]
fn bad_names_are_errors() {
    let profiler = Options::new().enable(false).open().unwrap();
    let long = "x".repeat(256);
    for name in ["", "a\0b", "a\nb", long.as_str()] {
        assert_eq!(profiler.region(name, Kind::Auto).unwrap_err().code, Code::EINVAL, "{name:?}");
    }
    assert!(profiler.region(&long[1..], Kind::Auto).is_ok());
}

#[test]
fn a_negative_step_is_an_error() {
    let profiler = Options::new().enable(false).open().unwrap();
    assert_eq!(profiler.step(-1).unwrap_err().code, Code::EINVAL);
}

#[test]
fn undefined_codes_are_kept() {
    let code = Code::from(-99);
    assert_eq!(code.value(), -99);
    assert_eq!(format!("{code:?} {:?}", Code::EIO), "Code(-99) EIO");
    assert_eq!(code.description(), "unknown code");
}

#[test]
fn the_library_has_the_required_version() {
    assert!(cep::library_version().starts_with(concat!(
        env!("CARGO_PKG_VERSION_MAJOR"),
        ".",
        env!("CARGO_PKG_VERSION_MINOR"),
        "."
    )));
}
