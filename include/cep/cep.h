/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file cep.h
 * @brief cep, the CUDA Event Profiler: coarse phase timing for long training jobs.
 *
 * A trainer opens one profiler per process and looks up each phase once. In the loop it sets the current
 * step and brackets each phase:
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
 * On sampled steps each thread puts its finished spans into a ring of its own. Two threads of the library do
 * the rest. The poller asks the CUDA driver when events happened; it may hang with the driver, and it never
 * touches the file. The writer turns the rings into rows of `<directory>/cuda_events_rank_<rank>.jsonl` (see
 * cep-jsonl(5)) and never calls the CUDA driver. If a write hangs, a third thread empties the rings meanwhile. The
 * trainer's thread never synchronises, never does I/O, never waits for a lock that these threads hold, and does not
 * allocate in steady state.
 *
 * These rules hold for every function below and are not repeated there:
 *  - No call aborts, exits, throws or raises a signal. No call changes errno.
 *  - Signal handlers: only cep_version(), cep_strerror() and cep_recording() are async-signal-safe. If a handler
 *    interrupts a call on its thread that records, ends, flushes or reads the counts, such calls in the handler
 *    do nothing. Those that would have recorded something are counted in cep_stats.dropped_slots. A handler may
 *    call exit() if the C library allows it. A handler must not leave an interrupted cep call with siglongjmp(): the
 *    thread then counts as within that call for good, and what it would record is counted in dropped_slots.
 *  - Every function accepts a NULL profiler or region. cep_enabled() and the hot-path calls (cep_step,
 *    cep_recording, cep_begin*, cep_end*, cep_switch, cep_phase, cep_record, cep_counter, cep_mark) ignore it and
 *    return CEP_OK, 0 or CEP_SPAN_NONE, so that a job whose cep_open() failed continues unprofiled. The others
 *    return CEP_EINVAL.
 *  - A profiler is inert if it is off (disabled, its rank not listed, its file in use), closed, or inherited
 *    through fork(). It accepts every call with valid arguments, does nothing, and returns CEP_OK.
 *  - Strings are NUL-terminated UTF-8. The library copies every string and array that it is given before the
 *    call returns. Strings that it returns belong to the library.
 *  - Times are nanoseconds in int64_t. UNIX times count from 1970-01-01T00:00:00Z.
 *
 * The header needs C99 or C++11. All is available since version 0.1.0, except what 0.2.0 added: cep_enabled(),
 * cep_phase(), cep_rank(), cep_options.max_overhead_percent, cep_options.capture_range, cep_stats.pending,
 * cep_stats.trainer_ns, cep_attrs.flags with CEP_ATTRS_ASYNC, CEP_ATTRS_INIT and CEP_LAYOUT_SPANS.
 */
#ifndef CEP_CEP_H
#define CEP_CEP_H

#include <stdint.h>

#define CEP_VERSION_MAJOR 0
#define CEP_VERSION_MINOR 2
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
 * A profiler: the options, the background threads and the rank file of one process.
 *
 * Thread-safety: any number of threads may call any function on one profiler at once.
 * Lifetime: from cep_open() to cep_close(). After cep_close() the handle stays valid but inert for the life of
 * the process, so that a late call from another thread is harmless.
 */
typedef struct cep_profiler cep_profiler;

/**
 * A named phase of one profiler. The profiler owns it. It is valid for the life of the process, and inert once
 * the profiler is closed. Thread-safety: as cep_profiler.
 */
typedef struct cep_region cep_region;

/** A span that has begun. Pass it to cep_end() or cep_switch(), on any thread. */
typedef uint64_t cep_span;

/** cep_begin() returns this if it records nothing. cep_end() ignores it. */
#define CEP_SPAN_NONE UINT64_MAX
/** For cep_end() and cep_switch(): the innermost open span of that region on the calling thread. */
#define CEP_SPAN_INNERMOST ((cep_span)0)

/** A value for `stream`: time this span on the host clock only (data loading, checkpointing). */
#define CEP_HOST ((void *)(intptr_t)-1)

/* ---- Codes ------------------------------------------------------------------------------------ */

#define CEP_OK 0            /**< Done. */
#define CEP_EINVAL (-1)     /**< An argument is invalid; cep_last_error() names it. */
#define CEP_EOPTION (-2)    /**< An option, its JSON key or its environment variable is invalid. */
#define CEP_EJSON (-3)      /**< A JSON text does not parse, or has the wrong type of value. */
#define CEP_EIO (-4)        /**< A directory or file cannot be created, read or written. */
#define CEP_ENOMEM (-5)     /**< Memory ran out. */
#define CEP_ETIMEDOUT (-6)  /**< The timeout passed first; unwritten records are counted. */
#define CEP_ELIMIT (-7)     /**< A limit is reached: regions, names, metadata, or a per-process limit. */
#define CEP_EINTERNAL (-8)  /**< A defect in cep. */

/* ---- Kinds of phase ---------------------------------------------------------------------------- */

/* Passed as int32_t. Analyses treat kinds differently: comm spans synchronise ranks, data spans feed
 * the GPU, and so on. New kinds may be added; a reader treats an unknown kind as CEP_KIND_OTHER. */
#define CEP_KIND_AUTO 0    /**< Infer it from the words of the name ("all_reduce": comm); else other. */
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
 * @return A static string; "unknown code" if this version does not have the code. Never NULL.
 * Thread-safe. Does not block. Makes no CUDA call.
 */
CEP_API const char *cep_strerror(int32_t code);

/**
 * Describes the last error of a call on the calling thread, in one line that names the option, path or CUDA
 * error. A successful call does not change it.
 * @return A string that is valid until the next failing cep call on this thread; "" before the first. Never NULL.
 * Thread-safe (thread-local). Does not block. Makes no CUDA call.
 */
CEP_API const char *cep_last_error(void);

/* ---- Options ----------------------------------------------------------------------------------- */

#define CEP_FIND_IT (-1)             /**< For rank, world_size, local_rank: take the launcher's value. */
#define CEP_NO_END_STEP INT64_MAX    /**< For end_step: record to the end of the job. */

#define CEP_LAYOUT_FULL 0  /**< Every row and key of cep-jsonl(5). */
#define CEP_LAYOUT_FLAT 1  /**< Span rows only: duration_ms, name, rank, step, and metadata at top level. */
#define CEP_LAYOUT_SPANS 2 /**< Those rows, and in each all other keys of a span that the metadata do not take. */

#define CEP_BACKEND_AUTO 0 /**< CUDA events if the calling thread has a CUDA context, else the host clock. */
#define CEP_BACKEND_HOST 1 /**< The host clock only; the library does not search for libcuda. */

/**
 * Options of cep_open(). Always start from cep_options_init().
 *
 * A caller built against an older header passes a smaller struct_size; the options that it lacks keep their
 * defaults. A caller built against a newer header passes a larger one; if it sets an option that this library
 * lacks (its bytes are not zero), cep_open() fails.
 *
 * The load calls, cep_options_clear() and cep_open() know the options that a smaller struct lacks, too: those that the
 * environment or a JSON text sets take effect.
 *
 * The environment variable of an option is `CEP_` and its name in capitals (CEP_START_STEP). The JSON key is its
 * name.
 */
typedef struct cep_options {
    /** sizeof(cep_options) where the caller was compiled; cep_options_init() sets it. */
    uint32_t struct_size;
    /** 1: profile. 0: off. cep_options_init() sets 1. A configuration without it means 0. */
    int32_t enable;
    /** Directory of the rank file; made with its parents if absent. NULL: "./cuda_event_profiler". */
    const char *directory;
    /**
     * Rank of this process in the job. CEP_FIND_IT, the default, takes the first that is set of
     * RANK / WORLD_SIZE / LOCAL_RANK, SLURM_PROCID / SLURM_NTASKS / SLURM_LOCALID,
     * OMPI_COMM_WORLD_RANK / _SIZE / _LOCAL_RANK, PMI_RANK / PMI_SIZE / MPI_LOCALRANKID; else 0 / 1 / 0.
     */
    int32_t rank;
    int32_t world_size; /**< Number of ranks in the job. See rank. */
    int32_t local_rank; /**< Rank within the host. See rank. */
    /** CEP_LAYOUT_FULL (default), _FLAT or _SPANS. In JSON and the environment: "full", "flat", "spans". */
    int32_t layout;
    int64_t start_step;           /**< First step of the window, inclusive. Default 0. */
    int64_t end_step;             /**< Last step of the window, inclusive. Default CEP_NO_END_STEP (JSON: null). */
    int64_t record_every_n_steps; /**< Stride within the window, from start_step. Default 10. */
    int64_t flush_every_n_steps;  /**< Rows are written out at steps divisible by this. Default 10. */
    /** The ranks to profile, an array of ranks_count (at most 65536); NULL: all. In the environment: "0,8,16-23". */
    const int32_t *ranks;
    uint64_t ranks_count;
    int64_t max_file_bytes; /**< Rows beyond this file size are dropped and counted. 0 (default): no limit. */
    int64_t ring_capacity;  /**< Finished spans that a thread can hold for the writer. Default 4096; 16 to 1048576. */
    int64_t pool_limit;     /**< CUDA events in flight per context. Default 16384; 2 to 1048576. */
    /** CEP_BACKEND_AUTO (default) or CEP_BACKEND_HOST. In JSON and the environment: "auto", "host". */
    int32_t backend;
    /** Must be 0. */
    int32_t reserved;
    /** An id of the run, the same on all its ranks. NULL: from TORCHELASTIC_RUN_ID or SLURM_JOB_ID, else generated. */
    const char *run_id;
    /** A JSON object of at most 65536 bytes as for cep_set_meta(), or NULL. */
    const char *meta;
    /**
     * Memory of the cep_options_load_ calls, for the library only. cep_options_clear() frees it. A copy of the struct
     * shares it: clear one of the copies, and use none of them after that.
     */
    void *storage;
    /**
     * Bound of the time that the calls which record (cep_begin() to cep_mark()) take on the trainer's threads, in percent
     * of the time that passes, 0 to 100. It does not count cep_step(), a binding's own time, or the GPU's time. To keep
     * below it the library records fewer steps than record_every_n_steps asks for: it multiplies the stride by a power of
     * two. It decides after 32 strides of steps with 7 timed calls, which is within 50 recorded steps. It says so on
     * standard error and in the rank file (a `mark` row, see cep-jsonl(5)), and halves the stride again when the cost is
     * at most a quarter of the bound. 0 (default): no bound.
     */
    double max_overhead_percent;
    /**
     * Steps round which the library calls cuProfilerStart and cuProfilerStop, such as "100-104", both inclusive, or
     * "100-104@0,8" on some of the profiled ranks: `nsys profile --capture-range=cudaProfilerApi` then records these
     * steps only. It calls them in cep_step(), once in the life of the process, and in no stream capture that it knows
     * of. NULL (default): never.
     */
    const char *capture_range;
} cep_options;

/**
 * Sets every option to its default, and enable to 1.
 * @param options     The struct to fill; not NULL.
 * @param struct_size sizeof(cep_options) where the caller was compiled.
 * @return CEP_OK; CEP_EINVAL if options is NULL or struct_size is too small to be a cep_options.
 * Thread-safe for distinct structs. Does not block. Makes no CUDA call.
 */
CEP_API int32_t cep_options_init(cep_options *options, uint32_t struct_size);

/**
 * Sets the options that a JSON object names, and keeps the others.
 *
 * The first load call on a struct sets enable to 0 unless the configuration says `"enable": true`.
 * @param options Initialised options.
 * @param json    The text of a JSON object (its first character after white space is '{'), or the path of a
 *                regular file with one. At most 1048576 bytes; no string in it may contain a NUL.
 * @return CEP_OK; CEP_EINVAL for a NULL argument; CEP_EIO if the file cannot be read; CEP_EJSON if it is
 *         not a JSON object; CEP_EOPTION for an unknown key or a value of the wrong type or range. An error
 *         changes no option.
 * Ownership: the strings and arrays that it sets belong to options until cep_options_clear().
 * Thread-safe for distinct structs. Reads a file. Makes no CUDA call.
 */
CEP_API int32_t cep_options_load_json(cep_options *options, const char *json);

/**
 * Sets the options that the environment names: first those in CEP_CONFIG (a JSON file or JSON text, as for
 * cep_options_load_json()), then each CEP_<OPTION>. A field that is set after this call overrides both.
 * @param options Initialised options.
 * @return As for cep_options_load_json(); cep_last_error() names the variable.
 * Thread-safe for distinct structs if no thread changes the environment. May read a file. Makes no CUDA call.
 */
CEP_API int32_t cep_options_load_env(cep_options *options);

/**
 * Frees the memory that the load calls allocated, and sets the defaults again. NULL is ignored.
 * Call it once after the last load call. cep_open() keeps its own copies.
 * Thread-safe for distinct structs. Does not block. Makes no CUDA call.
 */
CEP_API void cep_options_clear(cep_options *options);

/* ---- Profilers --------------------------------------------------------------------------------- */

/**
 * Opens a profiler. On an enabled, listed rank it makes the directory, opens the rank file for append and
 * writes its `run` row. The library's threads start with the first recorded span. On other ranks the profiler
 * is off: no file, no directory, no thread, no CUDA call.
 *
 * The rank file must be a regular file with one link, or absent; symbolic links are not followed. The library
 * locks it with flock(2) if the file system supports that. If another profiler, in this or another process, is
 * writing the file, this one is off and prints a line on standard error.
 * @param options Options; NULL: the options from the environment (cep_options_load_env()), off by default.
 * @param out     Receives the profiler, or NULL on an error.
 * @return CEP_OK; CEP_EINVAL; CEP_EOPTION for a bad value (named with its option); CEP_EJSON for bad meta;
 *         CEP_EIO if the directory or the file cannot be made or opened; CEP_ELIMIT if the process has no
 *         thread-specific key left (PTHREAD_KEYS_MAX); CEP_ENOMEM. With NULL options also the errors of
 *         cep_options_load_env(). An error leaves nothing open.
 * Thread-safe. Does file I/O. Makes no CUDA call.
 */
CEP_API int32_t cep_open(const cep_options *options, cep_profiler **out);

/**
 * Ends recording, writes all finished spans and an `open` row for each unfinished one, and closes the file.
 * Idempotent: a later call returns what the first returned, and one while another thread is closing waits for that
 * thread, up to its own timeout. Without a call, exit() does the same with a timeout of 5 s. Rank 0 prints a line on
 * standard error if there are regions and cep_step() was never called.
 * @param profiler   The profiler.
 * @param timeout_ms Longest wait in milliseconds. 0: does not wait for unfinished device work, but still writes
 *                   the spans that the device has finished, which may take a few 100 ms. Negative: an error.
 * @return CEP_OK; CEP_EINVAL; CEP_ETIMEDOUT if device work or writing did not finish within the timeout (what
 *         is lost is counted as abandoned or dropped_io); CEP_EIO if rows could not be written.
 * Thread-safe. Blocks for up to timeout_ms plus a few 100 ms. Never makes a synchronising CUDA call.
 */
CEP_API int32_t cep_close(cep_profiler *profiler, int64_t timeout_ms);

/**
 * Writes out everything finished before the call. It is needed only if another program reads the file now:
 * the library writes rows every flush_every_n_steps, and at least every 5 s.
 * @param profiler   The profiler.
 * @param timeout_ms Longest wait in milliseconds. 0: asks the writer and returns CEP_OK at once. Negative: an error.
 * @return CEP_OK; CEP_EINVAL; CEP_ETIMEDOUT (each span still open gets an `open` row); CEP_EIO if the file cannot
 *         be written (the rows wait, and the writer tries again).
 * Thread-safe. Blocks for up to timeout_ms plus a few 100 ms.
 */
CEP_API int32_t cep_flush(cep_profiler *profiler, int64_t timeout_ms);

/**
 * Whether the profiler is on: enabled, its rank listed, and it owns the rank file; not closed, not inherited
 * through fork().
 * @param profiler The profiler; NULL: off.
 * @return 1 or 0.
 * Thread-safe. Does not block. Makes no CUDA call.
 */
CEP_API int32_t cep_enabled(const cep_profiler *profiler);

/**
 * The rank of this process: the option's, or the launcher's that cep_open() found. Valid even when the profiler is
 * off.
 * @param profiler The profiler.
 * @return The rank, ≥ 0; CEP_EINVAL if profiler is NULL.
 * Thread-safe. Does not block. Makes no CUDA call.
 */
CEP_API int32_t cep_rank(const cep_profiler *profiler);

/**
 * Adds facts about this rank to its `run` row. If that row is already written, the library writes it again.
 *
 * Known keys: "dp", "tp", "pp", "ep", "cp" (this rank's parallel coordinates), integers ≥ 0;
 * "flops_per_step" (this rank's model FLOPs in a step), "hardware_flops_per_step" (with recomputation),
 * "peak_flops" (FLOP/s of this rank's device), "tokens_per_step" (of the whole job), numbers > 0, up to 1e30.
 * Any other key goes under "meta" as it is. All keys together, with those of the option "meta", may take at most
 * 65536 bytes. A key that is given again replaces its old value.
 * @param profiler The profiler.
 * @param json     A JSON object.
 * @return CEP_OK; CEP_EINVAL; CEP_EJSON if json is not an object or a known key has the wrong type; CEP_ELIMIT
 *         if the facts would take more than 65536 bytes. After an error none of json is kept.
 * Thread-safe. Takes a lock and allocates: not for the hot path. Makes no CUDA call.
 */
CEP_API int32_t cep_set_meta(cep_profiler *profiler, const char *json);

/**
 * Counts of a profiler since cep_open(). Whenever no thread is inside a call, also after cep_close(),
 *
 *     recorded = written + dropped_ring + dropped_slots + dropped_pool + dropped_file + dropped_io
 *              + capture_skipped + abandoned + open_spans + pending.
 */
typedef struct cep_stats {
    uint32_t struct_size;      /**< sizeof(cep_stats) where the caller was compiled. */
    uint32_t threads;          /**< Threads that have recorded. */
    uint64_t recorded;         /**< Spans begun, spans of cep_record(), counters and marks. */
    uint64_t written;          /**< Those of them whose rows are in the file. */
    uint64_t dropped_ring;     /**< Lost: the thread's ring was full. */
    /** Lost: too many spans open on a thread, too many threads, no memory for them, or a signal handler's call
     * within another call. */
    uint64_t dropped_slots;
    uint64_t dropped_pool;     /**< Lost: no CUDA event was left (pool_limit). */
    uint64_t dropped_file;     /**< Lost: max_file_bytes reached. */
    uint64_t dropped_io;       /**< Lost: the file could not be written (disk full, hung write), or memory ran out. */
    uint64_t dropped_meta;     /**< Not lost: recorded without their attributes or metadata (invalid, or no room). */
    uint64_t capture_skipped;  /**< Spans not timed because their stream was capturing a graph. */
    uint64_t cuda_errors;      /**< CUDA calls that failed. */
    uint64_t abandoned;        /**< Spans whose device work did not finish before close, or whose CUDA calls failed. */
    uint64_t open_spans;       /**< Spans that have begun and not ended. */
    uint64_t bytes_written;    /**< Bytes appended to the file. */
    uint64_t self_ns;          /**< CPU time of the library's threads. */
    uint64_t pending;          /**< In rings, waiting for the device, or waiting for the disk. 0 after cep_close(). */
    /** Time that the trainer's threads spent in calls that recorded, in all: what cep costs the trainer. An estimate from
     * every 61st such call of each thread (with max_overhead_percent, from more), so that measuring costs nothing. */
    uint64_t trainer_ns;
} cep_stats;

/**
 * Reads the counts.
 * @param profiler The profiler.
 * @param stats    Receives the counts. The caller must set its struct_size.
 * @return CEP_OK; CEP_EINVAL for a bad argument, and in a signal handler that has interrupted another cep call.
 * Thread-safe; the counts are not one snapshot while other threads record. Does not block. Makes no CUDA call.
 */
CEP_API int32_t cep_get_stats(cep_profiler *profiler, cep_stats *stats);

/* ---- Steps and regions ------------------------------------------------------------------------- */

/**
 * Sets the current step. The library records this step if start_step ≤ step ≤ end_step and
 * (step − start_step) mod record_every_n_steps = 0. It records nothing before the first call. Steps may jump,
 * repeat and go back. If step is divisible by flush_every_n_steps, the call asks the writer to write; it does
 * not wait.
 * @param profiler The profiler.
 * @param step     The step, ≥ 0.
 * @return CEP_OK; CEP_EINVAL for a negative step (the current step then does not change).
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
 * Returns the region of that name, and creates it the first time. Call it once per phase, outside the step loop.
 * @param profiler The profiler.
 * @param name     1 to 255 bytes of UTF-8 without control characters.
 * @param kind     CEP_KIND_…; ignored if the region exists.
 * @return The region, the same pointer for the same name. NULL on an error (see cep_last_error()): a bad name or
 *         kind, more than 4096 regions, or no memory. The hot-path calls accept NULL.
 * Thread-safe. Takes a lock: not for the hot path. Makes no CUDA call.
 */
CEP_API cep_region *cep_region_get(cep_profiler *profiler, const char *name, int32_t kind);

/* ---- Spans ------------------------------------------------------------------------------------- */

/**
 * A flag: the span ends with its work, at any time and on any thread (an asynchronous collective on the host clock). Spans
 * that begin while it is open are not nested in it: it is left out of their depth, and CEP_SPAN_INNERMOST does not find
 * it. Only cep_begin_with() honours it.
 */
#define CEP_ATTRS_ASYNC 1

/** Attributes of a span besides its times. Start from CEP_ATTRS_INIT, then set the known ones. */
typedef struct cep_attrs {
    uint32_t struct_size; /**< sizeof(cep_attrs) where the caller was compiled. */
    uint32_t flags;       /**< CEP_ATTRS_ASYNC or 0. */
    int64_t bytes;        /**< Bytes that the operation moves; 0: not given. */
    double flops;         /**< Floating-point operations; 0: not given. */
    const char *group;    /**< Process group of a collective ("dp"), ≤ 63 bytes; NULL: not given. */
    int64_t coll;         /**< Index of the collective within group, ≥ 0; −1: not given. Needs group. */
    const char *error;    /**< Why the phase failed (an exception's type), ≤ 63 bytes; NULL: it did not fail. */
    const char *meta;     /**< A JSON object, ≤ 16384 bytes; NULL: not given. */
} cep_attrs;

/** Nothing given: `cep_attrs attrs = CEP_ATTRS_INIT;`. */
#define CEP_ATTRS_INIT {(uint32_t)sizeof(cep_attrs), 0, 0, 0.0, 0, -1, 0, 0}

/**
 * Begins a span of a region: records a CUDA event into stream, or reads the host clock.
 *
 * Spans nest. A span may begin and end on different threads and on different streams; it then lasts from the
 * event in the first stream to the event in the second. A span belongs to the step in which it begins.
 *
 * Work that a stream captures into a CUDA graph cannot be timed: a span that begins or ends on a capturing stream is
 * not recorded, and is counted in cep_stats.capture_skipped. Bracket the launch of the graph instead: that times
 * the replay as a whole.
 * @param region The region.
 * @param stream A cudaStream_t or CUstream of the calling thread's current context; NULL: the legacy default
 *               stream; CEP_HOST: the host clock only. Without a CUDA context the host clock is used instead. With a
 *               driver older than CUDA 12.0, close the profiler before a context in which it records is destroyed: such
 *               a driver does not tell contexts apart (cuCtxGetId).
 * @return The span; CEP_SPAN_NONE if nothing is recorded. Never 0.
 * Thread-safe. Hot path: no synchronisation, no I/O, no lock, no allocation in steady state (a thread's first
 * call allocates its ring). CUDA: at most one cuEventRecord and three queries of state, plus cuEventCreate while
 * the pool grows. Makes no CUDA call on a step that is not recorded.
 */
CEP_API cep_span cep_begin(cep_region *region, void *stream);

/**
 * cep_begin() with attributes.
 * @param attrs Attributes, or NULL. If they are invalid (bad struct, JSON or string), the span begins without any. That
 *              is counted as dropped_meta, and cep_last_error() tells why. They are not read on a step that is not
 *              recorded.
 * Otherwise as cep_begin(). The call validates and copies meta.
 */
CEP_API cep_span cep_begin_with(cep_region *region, void *stream, const cep_attrs *attrs);

/**
 * Ends a span.
 * @param region The region that the span began with.
 * @param span   The span from cep_begin(). CEP_SPAN_INNERMOST: the innermost open span of region on this thread, if
 *               there is one. CEP_SPAN_NONE, or a span that has ended: does nothing.
 * @param stream As for cep_begin(). If only one of begin and end has CEP_HOST, the span is timed on the host clock.
 * Thread-safe. Hot path, as cep_begin().
 */
CEP_API void cep_end(cep_region *region, cep_span span, void *stream);

/**
 * cep_end() with attributes that are known only at the end. Each replaces the same attribute from the begin.
 * @return CEP_OK; CEP_EINVAL or CEP_EJSON for invalid attributes; CEP_ELIMIT after 4096 distinct groups and errors.
 *         On these errors the span still ends, without the new attributes, and is counted as dropped_meta.
 * Otherwise as cep_end().
 */
CEP_API int32_t cep_end_with(cep_region *region, cep_span span, void *stream, const cep_attrs *attrs);

/**
 * Ends one span and begins another, of the same or another region, with one event. So N back-to-back phases
 * cost N + 1 records instead of 2 N. If stream is CEP_HOST and the ending span is on a stream, that span ends by an
 * event of its own in that stream.
 * @param span   The span to end, of any region. CEP_SPAN_INNERMOST: the innermost open span on this thread.
 *               CEP_SPAN_NONE: none.
 * @param region The region to begin; NULL: only ends the span (CEP_SPAN_INNERMOST: that of the profiler with which this
 *               thread has recorded last). On a step that is not recorded, span ends and no new span begins.
 * @param stream As for cep_begin().
 * @return The new span; CEP_SPAN_NONE if nothing is recorded.
 * Thread-safe. Hot path, as cep_begin().
 */
CEP_API cep_span cep_switch(cep_span span, cep_region *region, void *stream);

/**
 * Sets the calling thread's current phase: ends the phase before it, if there is one, and begins the next with the
 * same event. The library keeps the phase, so there is no span to pass on.
 *
 * Phases chain across steps: N phases a step cost N records, because the event that begins a step's first phase also
 * ends the last phase of the step before. Each thread has a phase of its own in each profiler. Spans may begin and end
 * within a phase, and phases within a span. A phase lasts until its thread sets the next: end it with NULL before work
 * that it should not span, such as an evaluation. A phase that its thread has not ended when it exits stays open.
 *
 * @code
 *   for (int64_t step = 0; step < steps; ++step) {
 *       cep_step(profiler, step);
 *       cep_phase(profiler, data, CEP_HOST);              // also ends the backward pass of the step before
 *       load_batch();
 *       cep_phase(profiler, forward, stream);
 *       run_forward(stream);
 *       cep_phase(profiler, backward, stream);
 *       run_backward(stream);
 *   }
 *   cep_phase(profiler, NULL, stream);
 * @endcode
 * @param profiler The profiler.
 * @param region   The region to begin; NULL: only ends the phase. On a step that is not recorded, the call ends the
 *                 phase and begins none.
 * @param stream   As for cep_begin(). The ending phase extends to the event recorded in this stream. If this is
 *                 CEP_HOST, a phase on a stream ends by an event in its own stream, which must still exist.
 * @return CEP_OK; CEP_EINVAL if region belongs to another profiler (the phase then does not change).
 * Thread-safe. Hot path, as cep_begin().
 */
CEP_API int32_t cep_phase(cep_profiler *profiler, cep_region *region, void *stream);

/**
 * Adds a span to the current step that was timed elsewhere (`"clock":"external"`).
 * @param region      The region.
 * @param start_ns    Its start as UNIX time in ns; 0: now minus duration_ns.
 * @param duration_ns Its duration in ns, ≥ 0.
 * @param attrs       Attributes, or NULL.
 * @return CEP_OK, also if the step is not recorded; CEP_EINVAL for an invalid time; CEP_EINVAL or CEP_EJSON for
 *         invalid attributes; CEP_ELIMIT after 4096 distinct groups and errors. With bad attributes the span is still
 *         added, without them, and counted as dropped_meta.
 * Thread-safe. Hot path, as cep_begin(). Makes no CUDA call.
 */
CEP_API int32_t cep_record(cep_region *region, int64_t start_ns, int64_t duration_ns, const cep_attrs *attrs);

/* ---- Counters and marks ------------------------------------------------------------------------ */

/**
 * Records a value (memory allocated, loss, queue length) in the current step, if that step is recorded.
 * @param name  As for cep_region_get(). By convention dots group names: "memory.allocated_bytes".
 * @param value A finite number; JSON has no NaN or infinity.
 * @return CEP_OK; CEP_EINVAL; CEP_ELIMIT after 4096 distinct names.
 * Thread-safe. Hot path: allocates only the first time it sees a name. Makes no CUDA call.
 */
CEP_API int32_t cep_counter(cep_profiler *profiler, const char *name, double value);

/**
 * Records an event in the current step (checkpoint, evaluation, restart), so that analyses do not mistake its cost
 * for a slowdown. A mark is recorded on every step of the window, sampled or not.
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
