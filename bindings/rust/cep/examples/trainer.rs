// SPDX-License-Identifier: Apache-2.0
//! A training loop, instrumented with cep.
//!
//!     cargo run --example trainer -- output && cep summarize output
//!
//! The passes are plain CPU work, so that it runs anywhere. A trainer passes its own stream instead of `Stream::DEFAULT`.

use std::path::Path;

use cep::{Attributes, Error, Kind, Options, Profiler, Region, Stream, DEFAULT_TIMEOUT};

const STEPS: i64 = 100;
const CHECKPOINT_EVERY_N_STEPS: i64 = 50;

/// Fits y = 3 x + 2 by gradient descent.
struct LineFit {
    samples: Vec<(f64, f64)>,
    errors: Vec<f64>,
    slope: f64,
    offset: f64,
}

impl LineFit {
    fn new() -> LineFit {
        let inputs = (-500..500).map(|number| f64::from(number) / 500.0);
        let samples = inputs.map(|input| (input, 3.0 * input + 2.0)).collect();
        LineFit { samples, errors: Vec::new(), slope: 0.0, offset: 0.0 }
    }

    fn mean(&self, values: impl Iterator<Item = f64>) -> f64 {
        values.sum::<f64>() / self.samples.len() as f64
    }

    fn forward(&mut self) -> f64 {
        let (slope, offset) = (self.slope, self.offset);
        self.errors = self.samples.iter().map(|(input, target)| slope * input + offset - target).collect();
        self.mean(self.errors.iter().map(|error| error * error))
    }

    fn backward(&self) -> (f64, f64) {
        let slopes = self.errors.iter().zip(&self.samples).map(|(error, (input, _))| error * input);
        (self.mean(slopes), self.mean(self.errors.iter().copied()))
    }

    fn update(&mut self, gradient: (f64, f64)) {
        self.slope -= 0.5 * gradient.0;
        self.offset -= 0.5 * gradient.1;
    }
}

struct Phases {
    training_step: Region,
    forward: Region,
    backward: Region,
    all_reduce: Region,
    optimizer: Region,
    checkpoint: Region,
}

impl Phases {
    fn find(profiler: &Profiler) -> Result<Phases, Error> {
        Ok(Phases {
            training_step: profiler.region("training_step", Kind::Auto)?,
            forward: profiler.region("forward", Kind::Auto)?,
            backward: profiler.region("backward", Kind::Auto)?,
            all_reduce: profiler.region("all_reduce", Kind::Comm)?,
            optimizer: profiler.region("optimizer", Kind::Auto)?,
            checkpoint: profiler.region("save_checkpoint", Kind::Host)?,
        })
    }
}

fn train_step(phases: &Phases, model: &mut LineFit, step: i64) -> f64 {
    let _whole = phases.training_step.begin(Stream::DEFAULT);
    let span = phases.forward.begin(Stream::DEFAULT);
    let loss = model.forward();
    let span = span.switch_to(phases.backward); // one event ends forward and begins backward
    let gradient = model.backward();
    span.end();
    let collective = Attributes::new().collective("dp", step).bytes(16);
    phases.all_reduce.begin_with(Stream::DEFAULT, &collective).end(); // a job of one rank has nothing to reduce
    let _update = phases.optimizer.begin(Stream::DEFAULT);
    model.update(gradient);
    loss
}

fn train(profiler: &Profiler) -> Result<(), Error> {
    let phases = Phases::find(profiler)?;
    let mut model = LineFit::new();
    for step in 0..STEPS {
        profiler.step(step)?;
        profiler.counter("loss", train_step(&phases, &mut model, step))?;
        if step % CHECKPOINT_EVERY_N_STEPS == 0 {
            profiler.mark_with("checkpoint", r#"{"format":"sharded"}"#)?;
            let _span = phases.checkpoint.begin(Stream::HOST);
        }
    }
    profiler.close(DEFAULT_TIMEOUT)
}

fn main() {
    let output = std::env::args_os().nth(1).unwrap_or_else(|| "output".into());
    let options = Options::default().directory(Path::new(&output).join("cuda_event_profiler")).record_every_n_steps(5);
    // If the profiler cannot be opened, the job trains without it.
    let profiler = options.meta(r#"{"dp":0}"#).open().unwrap_or_else(|error| {
        eprintln!("not profiled: {error}");
        Profiler::off()
    });
    match train(&profiler).and_then(|()| profiler.stats()) {
        Ok(stats) => println!("{} measurements written", stats.written),
        Err(error) => eprintln!("rows were lost: {error}"),
    }
}
