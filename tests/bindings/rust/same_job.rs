// SPDX-License-Identifier: Apache-2.0
//! The job of same_rows_test.py in Rust: same_job DIRECTORY

use cep::{Attributes, Backend, Error, Kind, Options, Profiler, Stream, DEFAULT_TIMEOUT};

fn train(profiler: &Profiler) -> Result<(), Error> {
    let training_step = profiler.region("training_step", Kind::Auto)?;
    let load = profiler.region("load", Kind::Data)?;
    let forward = profiler.region("forward", Kind::Auto)?;
    let backward = profiler.region("backward", Kind::Auto)?;
    let sync = profiler.region("sync", Kind::Comm)?;
    for step in 0..3 {
        profiler.step(step)?;
        let whole = training_step.begin(Stream::DEFAULT);
        load.begin(Stream::HOST).end();
        forward.begin(Stream::DEFAULT).switch_to(backward).end();
        let collective = Attributes::new().bytes(4096).flops(2e6).collective("dp", step).meta(r#"{"op":"sum"}"#);
        sync.begin_with(Stream::DEFAULT, &collective).end();
        whole.end();
        profiler.counter("loss", 0.5 * step as f64)?;
    }
    profiler.mark_with("checkpoint", r#"{"format":"sharded"}"#)?;
    let save = profiler.region("save", Kind::Host)?.begin(Stream::HOST);
    save.end_with(&Attributes::new().error("DiskFull"))
}

fn main() -> Result<(), Error> {
    let directory = std::env::args_os().nth(1).expect("a directory");
    let meta = r#"{"dp":1,"flops_per_step":1.5e9,"model":"tiny"}"#;
    let options = Options::new().directory(directory).rank(3).world_size(8).record_every_n_steps(1);
    let profiler = options.backend(Backend::Host).meta(meta).max_overhead_percent(12.5).open()?;
    train(&profiler)?;
    profiler.flush(DEFAULT_TIMEOUT)?;
    profiler.close(DEFAULT_TIMEOUT)
}
