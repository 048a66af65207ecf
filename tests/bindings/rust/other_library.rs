// SPDX-License-Identifier: Apache-2.0
//! The crate with a library of another version (see other_library.cpp): every call fails with an error that keeps the code,
//! and none crashes. Prints the error of opening, if any.

use std::time::Duration;

use cep::{Attributes, Code, Error, Kind, Options, Profiler, Stream};

fn check<T: std::fmt::Debug>(call: &str, result: Result<T, Error>) {
    let error = result.expect_err(call);
    assert_eq!(error.code, Code::from(-99), "{call}");
    assert_eq!(error.message, "flux: capacitor empty", "{call}");
    assert_eq!(format!("{:?}", error.code), "Code(-99)");
    assert_eq!(error.code.description(), "unknown code");
}

fn use_all(profiler: &Profiler) -> Result<(), Error> {
    check("step", profiler.step(0));
    let region = profiler.region("forward", Kind::Auto)?;
    region.begin(Stream::DEFAULT).switch_to(region).end();
    check("end_with", region.begin(Stream::HOST).end_with(&Attributes::new()));
    check("record", region.record(0, 1));
    check("record_with", region.record_with(0, 1, &Attributes::new().bytes(1)));
    check("counter", profiler.counter("loss", 1.0));
    check("mark", profiler.mark("checkpoint"));
    check("mark_with", profiler.mark_with("checkpoint", "{}"));
    check("set_meta", profiler.set_meta("{}"));
    check("stats", profiler.stats());
    check("flush", profiler.flush(Duration::ZERO));
    check("close", profiler.close(Duration::ZERO));
    Ok(())
}

fn main() {
    match Options::new().open() {
        Ok(profiler) => use_all(&profiler).expect("a region"),
        Err(error) => println!("{} {}", error.code.value(), error.message),
    }
}
