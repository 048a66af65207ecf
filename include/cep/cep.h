/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file cep.h
 * @brief cep, the CUDA Event Profiler: coarse phase timing for long training jobs.
 *
 * A trainer opens one profiler per process, looks its phases up once, tells the profiler which step
 * it is in, and brackets each phase:
 *
 * @code
 *   cep_profiler *profiler = NULL;
 *   cep_open(NULL, &profiler);                            // configured by CEP_* variables
 *   cep_region *forward = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
 *   for (int64_t step = 0; step < steps; ++step) {
 *       cep_step(profiler, step);
 *       cep_span span = cep_begin(forward, stream);
 *       run_forward(stream);
 *       cep_end(forward, span, stream);
 *   }
 *   cep_close(profiler, 5000);
 * @endcode
 *
 * On sampled steps each begin and end is recorded into the calling thread's own ring. Two threads of the
 * library do the rest: the writer turns the rings into rows of `<directory>/cuda_events_rank_<rank>.jsonl`
 * (see cep-jsonl(5)) and never calls the CUDA driver; the poller asks the driver when events happened, may
 * hang with it, and never touches the file. The calling thread never synchronises, never does I/O, never
 * waits for a lock that these threads hold, and does not allocate in steady state.
 *
 * Rules that hold for every function below, and are not repeated there:
 *  - No call aborts, exits, throws or raises a signal, and errno is the same after every call.
 *  - Signal handlers: cep_version(), cep_strerror() and cep_recording() are async-signal-safe; no other call
 *    is. Where a handler has interrupted a call of its thread that records, ends, flushes or counts, such calls
 *    of its own do nothing; those that would have recorded something are counted (cep_stats.dropped_slots). A
 *    handler may call exit(), as far as the C library allows it.
 *  - A NULL profiler or region is accepted. Hot-path calls (cep_step, cep_recording, cep_begin*,
 *    cep_end*, cep_switch, cep_record, cep_counter, cep_mark) ignore it and return CEP_OK, 0 or
 *    CEP_SPAN_NONE, so that a job whose cep_open failed runs on unprofiled; the others return
 *    CEP_EINVAL.
 *  - A profiler that is off (disabled, its rank not listed, its file in use), closed, or inherited through
 *    fork() accepts every call with valid arguments, does nothing, and returns CEP_OK.
 *  - Strings are NUL-terminated UTF-8. The library copies every string and array it is given before
 *    the call returns; strings it returns belong to the library.
 *  - Times are nanoseconds in int64_t; UNIX times count from 1970-01-01T00:00:00Z.
 *
 * The header needs C99 or C++11. All functions are available since version 0.1.0.
 */
#ifndef CEP_CEP_H
#define CEP_CEP_H

#include <stdint.h>

#define CEP_VERSION_MAJOR 0
#define CEP_VERSION_MINOR 1
#define CEP_VERSION_PATCH 0

#if defined(__GNUC__)
#define CEP_API __attribute__((visibility("default")))
#else
#define CEP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A profiler: the sampling options, the threads and the rank file of one process.
 *
 * Thread-safety: every function may be called on one profiler from any number of threads at once.
 * Lifetime: from cep_open() to cep_close(). The handle stays valid (and inert) after cep_close(),
 * for the life of the process, so that a late call from another thread is harmless.
 */
typedef struct cep_profiler cep_profiler;

/**
 * A named phase of one profiler. Owned by the profiler; valid (inert once the profiler is closed)
 * for the life of the process. Thread-safety: as cep_profiler.
 */
typedef struct cep_region cep_region;

/** One begun span. A value to hand back to cep_end() or cep_switch(), from any thread. */
typedef uint64_t cep_span;

/** What cep_begin() returns where nothing is recorded. cep_end() ignores it. */
#define CEP_SPAN_NONE UINT64_MAX
/** For cep_end() and cep_switch(): the innermost open span of that region on the calling thread. */
#define CEP_SPAN_INNERMOST ((cep_span)0)

/** As a stream: time this span on the host clock only (data loading, checkpointing). */
#define CEP_HOST ((void *)(intptr_t)-1)

/* ---- Codes ------------------------------------------------------------------------------------ */

#define CEP_OK 0            /**< Done. */
#define CEP_EINVAL (-1)     /**< An argument is invalid; cep_last_error() names it. */
#define CEP_EOPTION (-2)    /**< An option, its JSON key or its environment variable is invalid. */
#define CEP_EJSON (-3)      /**< A JSON text does not parse, or is not the kind of value asked for. */
#define CEP_EIO (-4)        /**< A directory or file cannot be created, read or written. */
#define CEP_ENOMEM (-5)     /**< Memory ran out. */
#define CEP_ETIMEDOUT (-6)  /**< The timeout passed first; what was not written is counted. */
#define CEP_ELIMIT (-7)     /**< A limit is reached: of regions, names, metadata, or of the process. */
#define CEP_EINTERNAL (-8)  /**< A defect in cep. */

/* ---- Kinds of phase ---------------------------------------------------------------------------- */

/* Passed as int32_t. Analyses treat kinds differently: comm spans synchronise ranks, data spans feed
 * the GPU, and so on. New kinds may be added; a reader treats one it does not know as CEP_KIND_OTHER. */
#define CEP_KIND_AUTO 0    /**< Infer from the words of the name ("all_reduce": comm); else other. */
#define CEP_KIND_STEP 1    /**< A whole training step. */
#define CEP_KIND_COMPUTE 2 /**< Work on the device: forward, backward, optimizer. */
#define CEP_KIND_COMM 3    /**< A collective or point-to-point transfer between ranks. */
#define CEP_KIND_DATA 4    /**< Input: data loading, host to device copies. */
#define CEP_KIND_MEMORY 5  /**< Device memory traffic: copies, fills, offloading. */
#define CEP_KIND_HOST 6    /**< Host work: logging, metrics, checkpointing. */
#define CEP_KIND_OTHER 7   /**< None of these. */

/* ---- Version and errors ------------------------------------------------------------------------ */

/**
 * The library's version, "MAJOR.MINOR.PATCH".
 * @return A static string. Never NULL.
 * Thread-safe. Does not block. Makes no CUDA call.
 */
CEP_API const char *cep_version(void);

/**
 * A short English description of a code.
 * @param code CEP_OK or a CEP_E… code.
 * @return A static string, "unknown code" for a code this version does not have. Never NULL.
 * Thread-safe. Does not block. Makes no CUDA call.
 */
CEP_API const char *cep_strerror(int32_t code);

/**
 * What went wrong in the last failed call on the calling thread: one line that names the option,
 * path or CUDA error concerned. A successful call leaves it as it is.
 * @return A string valid until the next failing cep call on this thread; "" before the first. Never NULL.
 * Thread-safe (thread-local). Does not block. Makes no CUDA call.
 */
CEP_API const char *cep_last_error(void);

/* ---- Options ----------------------------------------------------------------------------------- */

#define CEP_FIND_IT (-1)             /**< For rank, world_size, local_rank: take it from the launcher. */
#define CEP_NO_END_STEP INT64_MAX    /**< For end_step: record to the end of the job. */

#define CEP_LAYOUT_FULL 0 /**< Every row and key of cep-jsonl(5). */
#define CEP_LAYOUT_FLAT 1 /**< Span rows only: duration_ms, name, rank, step, and metadata at top level. */

#define CEP_BACKEND_AUTO 0 /**< CUDA events where the calling thread has a CUDA context, else the host clock. */
#define CEP_BACKEND_HOST 1 /**< The host clock only; libcuda is never looked for. */

/**
 * Options of cep_open(). Always start from cep_options_init().
 *
 * A caller built against an older header passes a smaller struct_size; the options it does not know
 * keep their defaults. A caller built against a newer header passes a larger one; if an option this
 * library does not know is set (its bytes are not zero), cep_open() fails instead of ignoring it.
 *
 * In the environment each option is `CEP_` and its name in capitals (CEP_START_STEP); in JSON, its name.
 */
typedef struct cep_options {
    /** sizeof(cep_options) of the caller; set by cep_options_init(). */
    uint32_t struct_size;
    /** 1: profile. 0: off. cep_options_init() sets 1; a configuration that does not say is 0. */
    int32_t enable;
    /** Where the rank file goes; made if absent, with its parents. NULL: "./cuda_event_profiler". */
    const char *directory;
    /**
     * This process's place in the job. CEP_FIND_IT (the default) takes the first of
     * RANK / WORLD_SIZE / LOCAL_RANK, SLURM_PROCID / SLURM_NTASKS / SLURM_LOCALID,
     * OMPI_COMM_WORLD_RANK / _SIZE / _LOCAL_RANK, PMI_RANK / PMI_SIZE / MPI_LOCALRANKID; else 0 / 1 / 0.
     */
    int32_t rank;
    int32_t world_size; /**< Number of ranks in the job. See rank. */
    int32_t local_rank; /**< Rank within the host. See rank. */
    /** CEP_LAYOUT_FULL (default) or CEP_LAYOUT_FLAT. In JSON and the environment: "full", "flat". */
    int32_t layout;
    int64_t start_step;           /**< First step of the window, inclusive. Default 0. */
    int64_t end_step;             /**< Last step of the window, inclusive. Default CEP_NO_END_STEP (JSON: null). */
    int64_t record_every_n_steps; /**< Stride within the window, from start_step. Default 10. */
    int64_t flush_every_n_steps;  /**< Rows are written out at steps divisible by this. Default 10. */
    /** Ranks to profile, ranks_count of them (at most 65536); NULL: all. In the environment: "0,8,16-23". */
    const int32_t *ranks;
    uint64_t ranks_count;
    int64_t max_file_bytes; /**< Rows past this size of the rank file are dropped and counted. 0 (default): no limit. */
    int64_t ring_capacity;  /**< Finished spans a thread can hold for the writer. Default 4096; 16 to 1048576. */
    int64_t pool_limit;     /**< CUDA events in flight per context. Default 16384. */
    /** CEP_BACKEND_AUTO (default) or CEP_BACKEND_HOST. In JSON and the environment: "auto", "host". */
    int32_t backend;
    /** 0. */
    int32_t reserved;
    /** Names the run across its ranks. NULL: from TORCHELASTIC_RUN_ID or SLURM_JOB_ID, else made up. */
    const char *run_id;
    /** A JSON object of at most 65536 bytes as for cep_set_meta(), or NULL. */
    const char *meta;
    /** Memory of the cep_options_load_ calls; freed by cep_options_clear(). Not for callers. */
    void *storage;
} cep_options;

/**
 * Sets every option to its default, with enable 1.
 * @param options     The struct to fill; not NULL.
 * @param struct_size sizeof(cep_options) where the caller was compiled.
 * @return CEP_OK; CEP_EINVAL if options is NULL or struct_size is too small to be a cep_options.
 * Thread-safe for distinct structs. Does not block. Makes no CUDA call.
 */
CEP_API int32_t cep_options_init(cep_options *options, uint32_t struct_size);

/**
 * Sets the options that a JSON object names, and leaves the others.
 *
 * The first load call on a struct sets enable to 0 unless the configuration says `"enable": true`.
 * @param options Initialised options.
 * @param json    A JSON object's text (its first character that is not white space is '{'), else the
 *                path of a regular file that holds one. At most 1048576 bytes; no string in it may hold a NUL.
 * @return CEP_OK; CEP_EINVAL for a NULL argument; CEP_EIO if the file cannot be read; CEP_EJSON if it is
 *         not a JSON object; CEP_EOPTION for an unknown key or a value of the wrong type or range. On an
 *         error no option is changed.
 * Ownership: strings and arrays that it sets belong to options until cep_options_clear().
 * Thread-safe for distinct structs. Reads a file. Makes no CUDA call.
 */
CEP_API int32_t cep_options_load_json(cep_options *options, const char *json);

/**
 * Sets the options that the environment names: first those of CEP_CONFIG (a JSON file or JSON text, as
 * cep_options_load_json), then each CEP_<OPTION>. Set a field after this call to overrule both.
 * @param options Initialised options.
 * @return As cep_options_load_json(); cep_last_error() names the variable.
 * Thread-safe for distinct structs, while no thread changes the environment. May read a file. Makes no CUDA call.
 */
CEP_API int32_t cep_options_load_env(cep_options *options);

/**
 * Frees what the load calls allocated for options, and sets the defaults again. NULL is ignored.
 * Needed once after the last load call; cep_open() keeps copies of its own.
 * Thread-safe for distinct structs. Does not block. Makes no CUDA call.
 */
CEP_API void cep_options_clear(cep_options *options);

/* ---- Profilers --------------------------------------------------------------------------------- */

/**
 * Opens a profiler. On an enabled, listed rank it makes the directory, opens the rank file for append and
 * writes its `run` row; the library's threads start with the first recorded span. Otherwise the profiler is
 * off: no file, no directory, no thread, no CUDA call.
 *
 * The rank file must be a regular file with one link, or absent; a symbolic link is not followed. It is locked
 * (flock(2)) where the file system can do that: while another profiler, of this or another process, is writing
 * it, this one is off and says so on standard error.
 * @param options Options, or NULL for what the environment says (cep_options_load_env): off by default.
 * @param out     Receives the profiler; NULL on an error.
 * @return CEP_OK; CEP_EINVAL; CEP_EOPTION for a bad value (named with its option); CEP_EJSON for bad meta;
 *         CEP_EIO if the directory or the file cannot be made or opened; CEP_ELIMIT if the process has no
 *         thread-specific key left (PTHREAD_KEYS_MAX); CEP_ENOMEM; for NULL options what cep_options_load_env()
 *         returns. On an error nothing is left open.
 * Thread-safe. Does file I/O. Makes no CUDA call.
 */
CEP_API int32_t cep_open(const cep_options *options, cep_profiler **out);

/**
 * Ends recording, writes what is finished, writes an `open` row for each span that is not, and closes
 * the file. Idempotent: a call while another thread is closing waits for that one, up to its own timeout.
 * Not called at all, the same happens at exit() with a timeout of 5 s.
 * @param profiler   The profiler.
 * @param timeout_ms Longest wait in milliseconds; 0 does not wait for unfinished device work, but what the device
 *                   has finished is written (which may take a few 100 ms); negative is an error.
 * @return CEP_OK; CEP_EINVAL; CEP_ETIMEDOUT if device work or the file was not done in time (what was left
 *         behind is counted as abandoned or dropped_io); CEP_EIO if rows could not be written.
 * Thread-safe. Blocks up to timeout_ms and a few 100 ms. Never makes a synchronising CUDA call.
 */
CEP_API int32_t cep_close(cep_profiler *profiler, int64_t timeout_ms);

/**
 * Writes out everything finished before the call. Needed only where another program reads the file
 * now; rows are written every flush_every_n_steps and at least every 5 s anyway.
 * @param profiler   The profiler.
 * @param timeout_ms Longest wait in milliseconds; 0 asks and does not wait (CEP_OK); negative is an error.
 * @return CEP_OK; CEP_EINVAL; CEP_ETIMEDOUT (each span still open gets an `open` row); CEP_EIO if rows wait because the
 *         file cannot be written: they are tried again.
 * Thread-safe. Blocks up to timeout_ms and a few 100 ms.
 */
CEP_API int32_t cep_flush(cep_profiler *profiler, int64_t timeout_ms);

/**
 * Adds facts about this rank to its `run` row (again, if the row is already written).
 *
 * Keys with a meaning: "dp", "tp", "pp", "ep", "cp" (this rank's parallel coordinates, integers ≥ 0);
 * "flops_per_step" (of this rank's model FLOPs in a step), "hardware_flops_per_step" (with recomputation),
 * "peak_flops" (FLOP/s of this rank's device), "tokens_per_step" (of the whole job), numbers > 0.
 * Any other key is kept as it is under "meta". All of them may take at most 65536 bytes together, with those of
 * the option "meta"; a key given again takes the place of its old value.
 * @param profiler The profiler.
 * @param json     A JSON object.
 * @return CEP_OK; CEP_EINVAL; CEP_EJSON if json is not an object or a key with a meaning has another type;
 *         CEP_ELIMIT if the facts would take more than 65536 bytes. On an error none of json is kept.
 * Thread-safe. Takes a lock and allocates: not for the hot path. Makes no CUDA call.
 */
CEP_API int32_t cep_set_meta(cep_profiler *profiler, const char *json);

/**
 * Counts of a profiler since cep_open(). While no thread is inside a call, at any time and also after cep_close(),
 *
 *     recorded = written + dropped_ring + dropped_slots + dropped_pool + dropped_file + dropped_io
 *              + capture_skipped + abandoned + open_spans + pending.
 */
typedef struct cep_stats {
    uint32_t struct_size;      /**< sizeof(cep_stats) of the caller. */
    uint32_t threads;          /**< Threads that have recorded. */
    uint64_t recorded;         /**< Spans begun, cep_record() times, counters and marks accepted. */
    uint64_t written;          /**< Rows of these that are in the file. */
    uint64_t dropped_ring;     /**< Lost: the thread's ring was full. */
    /** Lost: too many spans open on a thread, too many threads, no memory for them, or a call of a signal handler
     * within another call. */
    uint64_t dropped_slots;
    uint64_t dropped_pool;     /**< Lost: no CUDA event to be had (pool_limit). */
    uint64_t dropped_file;     /**< Lost: max_file_bytes reached. */
    uint64_t dropped_io;       /**< Lost: the file could not be written (disk full, write that hangs), or no memory. */
    uint64_t dropped_meta;     /**< Spans without their attributes or metadata: invalid, or no room for it. Not lost. */
    uint64_t capture_skipped;  /**< Spans not timed because their stream was capturing a graph. */
    uint64_t cuda_errors;      /**< CUDA calls that failed. */
    uint64_t abandoned;        /**< Spans whose device work never finished before close, or whose CUDA calls failed. */
    uint64_t open_spans;       /**< Spans begun and not ended now. */
    uint64_t bytes_written;    /**< Bytes appended to the file. */
    uint64_t self_ns;          /**< CPU time of the library's threads. */
    uint64_t pending;          /**< On the way to the file: in rings, at the device, waiting for the disk. Closed: 0. */
} cep_stats;

/**
 * Reads the counts.
 * @param profiler The profiler.
 * @param stats    Receives them; its struct_size must be set by the caller.
 * @return CEP_OK; CEP_EINVAL, also in a signal handler that has interrupted another call.
 * Thread-safe; the counts are not one snapshot while other threads record. Does not block. Makes no CUDA call.
 */
CEP_API int32_t cep_get_stats(cep_profiler *profiler, cep_stats *stats);

/* ---- Steps and regions ------------------------------------------------------------------------- */

/**
 * Says which step the trainer is in and so whether what follows is recorded: when
 * start_step ≤ step ≤ end_step and (step − start_step) mod record_every_n_steps = 0. Nothing is recorded before the
 * first call. Steps may jump, repeat and go back. When step is divisible by flush_every_n_steps the
 * writer is asked to write; the call does not wait for it.
 * @param profiler The profiler.
 * @param step     The step, ≥ 0.
 * @return CEP_OK; CEP_EINVAL for a negative step (the current step then stays as it is).
 * Thread-safe. Hot path. Does not block. Makes no CUDA call.
 */
CEP_API int32_t cep_step(cep_profiler *profiler, int64_t step);

/**
 * Whether spans begun now are recorded.
 * @return 1 or 0.
 * Thread-safe. Hot path. Does not block. Makes no CUDA call.
 */
CEP_API int32_t cep_recording(const cep_profiler *profiler);

/**
 * Looks a phase up by name, making it the first time. Call it once per phase, outside the step loop.
 * @param profiler The profiler.
 * @param name     1 to 255 bytes of UTF-8 without control characters.
 * @param kind     CEP_KIND_…; ignored if the region exists.
 * @return The region, the same pointer for the same name; NULL on an error (cep_last_error(): bad name or
 *         kind; more than 4096 regions; memory), which the hot-path calls accept.
 * Thread-safe. Takes a lock: not for the hot path. Makes no CUDA call.
 */
CEP_API cep_region *cep_region_get(cep_profiler *profiler, const char *name, int32_t kind);

/* ---- Spans ------------------------------------------------------------------------------------- */

/** What may be known about a span beyond its times. Start from CEP_ATTRS_INIT, then set what is known. */
typedef struct cep_attrs {
    uint32_t struct_size; /**< sizeof(cep_attrs) of the caller. */
    uint32_t reserved;    /**< 0. */
    int64_t bytes;        /**< Bytes moved by the operation; 0: not given. */
    double flops;         /**< Floating-point operations; 0: not given. */
    const char *group;    /**< Process group of a collective ("dp"), ≤ 63 bytes; NULL: not given. */
    int64_t coll;         /**< Index of the collective within group, ≥ 0; −1: not given. Needs group. */
    const char *error;    /**< Why the phase failed (an exception's type), ≤ 63 bytes; NULL: it did not. */
    const char *meta;     /**< A JSON object, ≤ 16384 bytes; NULL: not given. */
} cep_attrs;

/** Nothing given: `cep_attrs attrs = CEP_ATTRS_INIT;`. */
#define CEP_ATTRS_INIT {(uint32_t)sizeof(cep_attrs), 0, 0, 0.0, 0, -1, 0, 0}

/**
 * Begins a span of a region: records a CUDA event into stream, or the host clock.
 *
 * Spans nest. One span may begin and end on different threads and on different streams (the time is then
 * from the one stream's begin to the other's end). A span belongs to the step of its begin.
 * @param region The region.
 * @param stream A cudaStream_t or CUstream of the calling thread's current context; NULL: the legacy default
 *               stream; CEP_HOST: time on the host clock only. Without a CUDA context, the host clock too.
 * @return The span; CEP_SPAN_NONE where nothing is recorded. Never 0.
 * Thread-safe. Hot path: no synchronisation, no I/O, no lock, no allocation in steady state (the first call of a
 * thread allocates its ring). CUDA: at most one cuEventRecord and three queries of state, and cuEventCreate while
 * the pool grows; none off a recorded step.
 */
CEP_API cep_span cep_begin(cep_region *region, void *stream);

/**
 * cep_begin() with attributes.
 * @param attrs Attributes, or NULL. With invalid ones (bad struct, JSON or string) the span begins without any; that is
 *              counted (dropped_meta), and cep_last_error() says why. Not looked at off a recorded step.
 * Otherwise as cep_begin(); meta costs a validation and a copy.
 */
CEP_API cep_span cep_begin_with(cep_region *region, void *stream, const cep_attrs *attrs);

/**
 * Ends a span.
 * @param region The region it began with.
 * @param span   From cep_begin(); CEP_SPAN_NONE is ignored; CEP_SPAN_INNERMOST ends the innermost open span of
 *               region on this thread, if there is one. A span already ended is ignored.
 * @param stream As for cep_begin(). CEP_HOST for a span begun with CEP_HOST; a span begun on a stream and ended with
 *               CEP_HOST, or the reverse, is timed on the host clock.
 * Thread-safe. Hot path, as cep_begin().
 */
CEP_API void cep_end(cep_region *region, cep_span span, void *stream);

/**
 * cep_end() with attributes known only now. Each one given here replaces the one given at the begin.
 * @return CEP_OK; CEP_EINVAL or CEP_EJSON for invalid attributes, CEP_ELIMIT after 4096 distinct groups and errors: the
 *         span is ended all the same, without them, and that is counted (dropped_meta).
 * Otherwise as cep_end().
 */
CEP_API int32_t cep_end_with(cep_region *region, cep_span span, void *stream, const cep_attrs *attrs);

/**
 * Ends one span and begins another of a different or the same region with one event: N back-to-back phases
 * cost N + 1 records instead of 2 N.
 * @param span   The span to end, as for cep_end() but of any region; CEP_SPAN_NONE begins only.
 *               CEP_SPAN_INNERMOST: the innermost open span on this thread.
 * @param region The region to begin. Off a recorded step nothing is begun, and span is ended all the same. After the last
 *               phase of a chain, call cep_end().
 * @param stream As for cep_begin().
 * @return The new span; CEP_SPAN_NONE where nothing is recorded.
 * Thread-safe. Hot path, as cep_begin().
 */
CEP_API cep_span cep_switch(cep_span span, cep_region *region, void *stream);

/**
 * Adds a span that was timed elsewhere (`"clock":"external"`), in the current step.
 * @param region      The region.
 * @param start_ns    Its start, UNIX time in ns; 0: now minus duration_ns.
 * @param duration_ns Its length in ns, ≥ 0.
 * @param attrs       Attributes, or NULL.
 * @return CEP_OK, also off a recorded step; CEP_EINVAL for an invalid time; CEP_EINVAL or CEP_EJSON for invalid
 *         attributes, CEP_ELIMIT after 4096 distinct groups and errors: the span is added without them, and that is
 *         counted (dropped_meta).
 * Thread-safe. Hot path, as cep_begin(). Makes no CUDA call.
 */
CEP_API int32_t cep_record(cep_region *region, int64_t start_ns, int64_t duration_ns, const cep_attrs *attrs);

/* ---- Counters and marks ------------------------------------------------------------------------ */

/**
 * Records a value (memory allocated, loss, queue length) in the current step, if it is recorded.
 * @param name  As for cep_region_get(). Dots group names by custom: "memory.allocated_bytes".
 * @param value Any number; NaN and infinities are errors, as JSON has none.
 * @return CEP_OK; CEP_EINVAL; CEP_ELIMIT after 4096 distinct names.
 * Thread-safe. Hot path: allocates only the first time it sees a name. Makes no CUDA call.
 */
CEP_API int32_t cep_counter(cep_profiler *profiler, const char *name, double value);

/**
 * Records that something happened in the current step (checkpoint, evaluation, restart), so that analyses can
 * tell its cost from a slowdown. Recorded on every step of the window, sampled or not.
 * @param name As for cep_region_get().
 * @param meta A JSON object, or NULL.
 * @return CEP_OK; CEP_EINVAL; CEP_EJSON; CEP_ELIMIT.
 * Thread-safe. Does not block. Makes no CUDA call.
 */
CEP_API int32_t cep_mark(cep_profiler *profiler, const char *name, const char *meta);

#ifdef __cplusplus
}
#endif

#endif /* CEP_CEP_H */
