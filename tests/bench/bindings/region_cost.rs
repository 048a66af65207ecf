// SPDX-License-Identifier: Apache-2.0
//! The cost that the crate `cep` adds to its C calls: regions on an unrecorded step and on the host clock.

use std::mem::size_of;
use std::ptr::null;
use std::time::Instant;

use cep::{Attributes, Backend, Error, Kind, Options, Profiler, Region, Stream, DEFAULT_TIMEOUT};

const ROUNDS: usize = 400;
const BURST: u32 = 1024; // fits the thread's ring; the flush after it is not timed

/// Nanoseconds a call within a burst.
fn time_burst(profiler: &Profiler, call: impl Fn()) -> f64 {
    let start = Instant::now();
    for _ in 0..BURST {
        call();
    }
    let took_ns = start.elapsed().as_nanos() as f64;
    profiler.flush(DEFAULT_TIMEOUT).expect("flush");
    took_ns / f64::from(BURST)
}

/// Sorted samples at a fraction of the way from the first to the last.
fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let position = fraction * (sorted.len() - 1) as f64;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * position.fract()
}

fn sorted(mut samples: Vec<f64>) -> Vec<f64> {
    samples.sort_by(f64::total_cmp);
    samples
}

fn print_row(name: &str, samples: &[f64], ratio: &str) {
    let samples = sorted(samples.to_vec());
    let [median, low, high] = [0.5, 0.25, 0.75].map(|fraction| quantile(&samples, fraction));
    println!("{name:58} {median:9.1} {low:9.1} {high:9.1}   {ratio}");
}

/// The median of the ratios of paired samples, with its 95 % interval by order statistics.
fn ratio_text(samples: &[f64], peers: &[f64]) -> String {
    let ratios = sorted(samples.iter().zip(peers).map(|(sample, peer)| sample / peer).collect());
    let half_width = 0.98 / (ratios.len() as f64).sqrt(); // 1.96 / 2 standard deviations
    let [median, low, high] = [0.5, 0.5 - half_width, 0.5 + half_width].map(|fraction| quantile(&ratios, fraction));
    format!("{median:.3} [{low:.3}, {high:.3}] x C")
}

/// Two ways to do one thing, in turns within each round, so that a disturbance affects both.
fn compare(what: &str, profiler: &Profiler, native: impl Fn(), wrapped: impl Fn()) {
    let (mut native_ns, mut wrapped_ns) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            native_ns.push(time_burst(profiler, &native));
            wrapped_ns.push(time_burst(profiler, &wrapped));
        } else {
            wrapped_ns.push(time_burst(profiler, &wrapped));
            native_ns.push(time_burst(profiler, &native));
        }
    }
    print_row(&format!("{what}, C"), &native_ns, "");
    print_row(&format!("{what}, Rust"), &wrapped_ns, &ratio_text(&wrapped_ns, &native_ns));
}

fn compare_regions(what: &str, profiler: &Profiler, region: Region) {
    let native = region.as_raw();
    let call = || unsafe {
        let span = cep_sys::cep_begin(native, cep_sys::CEP_HOST);
        cep_sys::cep_end(native, span, cep_sys::CEP_HOST);
    };
    compare(what, profiler, call, || drop(region.begin(Stream::HOST)));
}

fn compare_attributes(what: &str, profiler: &Profiler, region: Region) {
    let native = region.as_raw();
    let call = || unsafe {
        let attributes = cep_sys::cep_attrs {
            struct_size: size_of::<cep_sys::cep_attrs>() as u32,
            flags: 0,
            bytes: 4096,
            flops: 0.0,
            group: b"dp\0".as_ptr().cast(),
            coll: 7,
            error: null(),
            meta: null(),
        };
        let span = cep_sys::cep_begin_with(native, cep_sys::CEP_HOST, &attributes);
        cep_sys::cep_end(native, span, cep_sys::CEP_HOST);
    };
    let wrapped = || drop(region.begin_with(Stream::HOST, &Attributes::new().bytes(4096).collective("dp", 7)));
    compare(what, profiler, call, wrapped);
}

fn main() -> Result<(), Error> {
    let directory = std::env::temp_dir().join("cep_bench_rust_region");
    let options = Options::new().directory(&directory).record_every_n_steps(2).flush_every_n_steps(1_000_000);
    let profiler = options.backend(Backend::Host).open()?;
    let region = profiler.region("forward", Kind::Auto)?;
    println!("\n{:58} {:>9} {:>9} {:>9}   ratio [95 % interval]", "Rust: region", "ns", "q1", "q3");
    profiler.step(1)?;
    compare_regions("unrecorded step", &profiler, region);
    profiler.step(2)?;
    compare_regions("recorded, host clock", &profiler, region);
    compare_attributes("recorded with group, coll and bytes", &profiler, region);
    println!("lost: {}", profiler.stats()?.dropped_ring);
    profiler.close(DEFAULT_TIMEOUT)?;
    let _ = std::fs::remove_dir_all(directory);
    Ok(())
}
