// SPDX-License-Identifier: Apache-2.0
//! The rows that the crate's calls write.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use cep::{Attributes, Backend, Code, Kind, Options, Profiler, Stream, DEFAULT_TIMEOUT};

/// A private directory for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Folder(std::env::temp_dir().join(format!("cep-rows-{}-{number}", std::process::id())))
    }

    fn options(&self) -> Options {
        Options::new().directory(&self.0).rank(0).world_size(1).record_every_n_steps(1).backend(Backend::Host)
    }

    /// A profiler in step 0, which is recorded.
    fn profiler(&self) -> Profiler {
        let profiler = self.options().open().unwrap();
        profiler.step(0).unwrap();
        profiler
    }

    fn lines(&self, profiler: &Profiler) -> Vec<String> {
        profiler.flush(DEFAULT_TIMEOUT).unwrap();
        let text = std::fs::read_to_string(self.0.join("cuda_events_rank_0.jsonl")).unwrap();
        text.lines().map(String::from).collect()
    }

    /// The lines of spans, which have no "type".
    fn spans(&self, profiler: &Profiler) -> Vec<String> {
        self.lines(profiler).into_iter().filter(|line| !line.contains(r#""type":"#)).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_span_ends_with_its_scope() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    let forward = profiler.region("forward", Kind::Auto).unwrap();
    {
        let span = forward.begin(Stream::HOST);
        assert!(span.recorded());
        assert_eq!(profiler.stats().unwrap().open_spans, 1);
    }
    assert_eq!(profiler.stats().unwrap().open_spans, 0);
    assert_eq!(folder.spans(&profiler).len(), 1);
}

#[test]
fn a_profiler_knows_whether_it_is_on_and_its_rank() {
    let folder = Folder::new();
    let profiler = folder.options().rank(2).world_size(3).open().unwrap();
    assert!(profiler.enabled());
    assert_eq!(profiler.rank(), 2);
    profiler.close(DEFAULT_TIMEOUT).unwrap();
    assert!(!profiler.enabled());
    assert_eq!(profiler.rank(), 2);
    assert!(!Profiler::off().enabled());
    assert_eq!(Profiler::off().rank(), 0);
}

#[test]
fn a_span_ends_once_when_ended_and_then_dropped() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    profiler.region("forward", Kind::Auto).unwrap().begin(Stream::HOST).end();
    assert_eq!(folder.spans(&profiler).len(), 1);
    assert_eq!(profiler.stats().unwrap().recorded, 1);
}

#[test]
fn a_span_ends_on_another_thread() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    let span = profiler.region("forward", Kind::Auto).unwrap().begin(Stream::HOST);
    std::thread::spawn(move || span.end()).join().unwrap();
    assert_eq!(folder.spans(&profiler).len(), 1);
}

#[test]
fn threads_share_a_profiler_and_its_regions() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    let forward = profiler.region("forward", Kind::Auto).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    forward.begin(Stream::HOST).end();
                }
                profiler.counter("loss", 1.0).unwrap();
            });
        }
    });
    assert_eq!(folder.spans(&profiler).len(), 400);
    assert_eq!(profiler.stats().unwrap().recorded, 404);
}

#[test]
fn switching_ends_one_phase_and_begins_the_next() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    let [forward, backward] = ["forward", "backward"].map(|name| profiler.region(name, Kind::Auto).unwrap());
    forward.begin(Stream::HOST).switch_to(backward).end();
    let spans = folder.spans(&profiler);
    assert_eq!(spans.len(), 2);
    assert!(spans[0].contains(r#""name":"forward""#) && spans[1].contains(r#""name":"backward""#), "{spans:?}");
}

#[test]
fn the_current_phase_ends_with_the_next_one() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    for name in ["forward", "backward"] {
        profiler.phase(profiler.region(name, Kind::Auto).unwrap(), Stream::HOST).unwrap();
    }
    profiler.end_phase(Stream::HOST);
    let spans = folder.spans(&profiler);
    assert_eq!(spans.len(), 2);
    assert!(spans[0].contains(r#""name":"forward""#) && spans[1].contains(r#""name":"backward""#), "{spans:?}");
}

#[test]
fn a_panic_marks_the_row_of_the_span_that_it_drops() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    let forward = profiler.region("forward", Kind::Auto).unwrap();
    let thread = std::thread::spawn(move || {
        let _span = forward.begin(Stream::HOST);
        std::panic::resume_unwind(Box::new("as a failing phase does"));
    });
    thread.join().unwrap_err();
    let spans = folder.spans(&profiler);
    assert!(spans[0].contains(r#""error":"panic""#), "{spans:?}");
}

#[test]
fn attributes_are_written() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    let sync = profiler.region("sync", Kind::Comm).unwrap();
    let given = Attributes::new().bytes(5).flops(2.5).collective("dp", 7).meta(r#"{"op":"sum"}"#);
    sync.begin_with(Stream::HOST, &given).end_with(&Attributes::new().error("Timeout")).unwrap();
    let spans = folder.spans(&profiler);
    for part in [
        r#""kind":"comm""#,
        r#""bytes":5"#,
        r#""flops":2.5"#,
        r#""group":"dp""#,
        r#""coll":7"#,
        r#""error":"Timeout""#,
        r#""meta":{"op":"sum"}"#,
    ] {
        assert!(spans[0].contains(part), "{part}: {spans:?}");
    }
}

#[test]
fn a_span_is_recorded_without_invalid_attributes_and_counted() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    let sync = profiler.region("sync", Kind::Comm).unwrap();
    let long = "x".repeat(64);
    for invalid in [
        Attributes::new().group(&long),
        Attributes::new().group("a\0b"),
        Attributes::new().error(""),
        Attributes::new().bytes(-1),
        Attributes::new().meta("[]"),
        Attributes::new().meta("{}\0"),
    ] {
        assert!(sync.begin_with(Stream::HOST, &invalid).recorded(), "{invalid:?}");
    }
    assert_eq!(profiler.stats().unwrap().dropped_meta, 6);
    assert!(sync.begin_with(Stream::HOST, &Attributes::new().group(&long[..63])).recorded());
}

#[test]
fn invalid_attributes_at_the_end_are_an_error_and_the_span_is_written() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    let span = profiler.region("forward", Kind::Auto).unwrap().begin(Stream::HOST);
    let error = span.end_with(&Attributes::new().meta("{")).unwrap_err();
    assert_eq!(error.code, Code::EJSON);
    assert_eq!(folder.spans(&profiler).len(), 1);
}

#[test]
fn nothing_is_recorded_on_an_unrecorded_step() {
    let folder = Folder::new();
    let profiler = folder.options().record_every_n_steps(2).open().unwrap();
    let forward = profiler.region("forward", Kind::Auto).unwrap();
    for step in 0..4 {
        profiler.step(step).unwrap();
        assert_eq!(profiler.recording(), step % 2 == 0);
        let invalid = Attributes::new().bytes(-1); // not checked
        assert!(forward.begin(Stream::HOST).recorded() == profiler.recording());
        if !profiler.recording() {
            assert!(forward.begin_with(Stream::HOST, &invalid).end_with(&invalid).is_ok());
        }
    }
    assert_eq!(folder.spans(&profiler).len(), 2);
}

#[test]
fn spans_timed_elsewhere_counters_and_marks_are_rows() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    let forward = profiler.region("forward", Kind::Auto).unwrap();
    forward.record(0, 1_500_000).unwrap();
    forward.record_with(0, 1, &Attributes::new().bytes(3)).unwrap();
    profiler.counter("memory.allocated_bytes", 4096.0).unwrap();
    profiler.mark("restart").unwrap();
    let text = folder.lines(&profiler).join("\n");
    for part in [r#""duration_ms":1.5"#, r#""bytes":3"#, r#""value":4096"#, r#""type":"mark","name":"restart""#] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn facts_are_in_the_run_row() {
    let folder = Folder::new();
    let profiler = folder.options().run_id("demo").meta(r#"{"dp":1}"#).open().unwrap();
    profiler.set_meta(r#"{"model":"tiny"}"#).unwrap();
    let text = folder.lines(&profiler).join("\n");
    for part in [r#""run_id":"demo""#, r#""dp":1"#, r#""model":"tiny""#] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn regions_and_spans_outlive_their_profiler() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    let forward = profiler.region("forward", Kind::Auto).unwrap();
    let span = forward.begin(Stream::HOST);
    drop(profiler);
    span.end();
    assert!(!forward.begin(Stream::HOST).recorded());
}

#[test]
fn closing_again_does_nothing() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    profiler.close(DEFAULT_TIMEOUT).unwrap();
    profiler.close(DEFAULT_TIMEOUT).unwrap();
    assert!(!profiler.recording());
}

#[test]
fn a_profiler_that_is_off_accepts_every_call() {
    let folder = Folder::new();
    for profiler in [Profiler::off(), folder.options().enable(false).open().unwrap()] {
        profiler.step(0).unwrap();
        let region = profiler.region("forward", Kind::Auto).unwrap();
        region.begin(Stream::DEFAULT).switch_to(region).end();
        region.record(0, 1).unwrap();
        profiler.counter("loss", 1.0).unwrap();
        profiler.mark("restart").unwrap();
        profiler.set_meta("{}").unwrap();
        assert_eq!(profiler.stats().unwrap().recorded, 0);
        profiler.flush(DEFAULT_TIMEOUT).unwrap();
        profiler.close(DEFAULT_TIMEOUT).unwrap();
    }
    assert!(!folder.0.exists());
}

#[test]
fn a_call_is_timed_on_the_stream_that_is_named() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    let load = profiler.region("data_load", Kind::Auto).unwrap();
    assert_eq!(load.time(|| 7) + load.time_on(Stream::HOST, || 8), 15);
    assert_eq!(folder.spans(&profiler).len(), 2);
}

#[test]
fn a_switch_to_no_region_ends_the_span() {
    let folder = Folder::new();
    let profiler = folder.profiler();
    let phases = ["forward", "backward"].map(|name| profiler.region(name, Kind::Auto).unwrap());
    let mut span = phases[0].begin(Stream::HOST);
    for next in [Some(phases[1]), None] {
        span = span.switch_to(next);
    }
    assert!(!span.recorded());
    assert_eq!(folder.spans(&profiler).len(), 2);
    assert_eq!(profiler.stats().unwrap().open_spans, 0);
}
