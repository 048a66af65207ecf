#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A person with a Rust program: a new package that depends on the crate by its path.
# needs: cargo
# says: forward | 2 ranks | 100 recorded
set -eu

crate=$(cd bindings/rust/cep && pwd -P)
mkdir -p trainer/src
cat >trainer/Cargo.toml <<PROGRAM
[package]
name = "trainer"
version = "0.1.0"
edition = "2021"

[dependencies]
cep = { path = "$crate" }
PROGRAM

cat >trainer/src/main.rs <<'PROGRAM'
use cep::{Error, Kind, Options, Stream, DEFAULT_TIMEOUT};

fn main() -> Result<(), Error> {
    let profiler = Options::new().directory("output/cuda_event_profiler").record_every_n_steps(1).open()?;
    let forward = profiler.region("forward", Kind::Auto)?;
    for step in 0..100 {
        profiler.step(step)?;
        let _span = forward.begin(Stream::HOST);
        std::hint::black_box((0..20_000).map(f64::from).sum::<f64>());
    }
    profiler.close(DEFAULT_TIMEOUT)
}
PROGRAM

cargo build --quiet --offline --manifest-path trainer/Cargo.toml
for rank in 0 1; do RANK=$rank WORLD_SIZE=2 "$CARGO_TARGET_DIR/debug/trainer"; done
cep check output
cep summarize output
