/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file fake_cuda.h
 * @brief Controls of the fake CUDA driver: a libcuda.so.1 for tests on machines without a GPU.
 *
 * The model. Each stream is an ordered queue. An operation (a kernel of a given length, an event, a wait, a graph)
 * starts when the host has submitted it, the operation before it in its stream is done, and everything that it waits
 * for is done. It ends after its length. Operations of different streams overlap freely. The legacy default stream and
 * the blocking streams of its context wait for each other. Time is the host's CLOCK_MONOTONIC: an operation of 5 ms
 * completes 5 ms after its start, and cuEventQuery returns "not ready" until then. cuEventElapsedTime uses the GPU's
 * clock, which has an offset and a drift against the host's clock and ticks every 32 ns.
 *
 * In corner cases (captures, errors, contexts) the model gives the answers of an H200 with driver 580. The tests in
 * this folder that need no controls pass on both.
 *
 * The fake never reuses a handle, so it detects every use of a destroyed one and counts it as misuse.
 *
 * All functions are thread-safe unless their comment says otherwise. A test looks them up with dlsym().
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdint.h>

#if defined(__GNUC__)
#define FAKE_CUDA_API __attribute__((visibility("default")))
#else
#define FAKE_CUDA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Resets the driver to the state of a new process: no cuInit, contexts, faults, offset, drift or counts.
 * Releases blocked calls. Do not call it while another thread is inside the driver.
 */
FAKE_CUDA_API void fake_cuda_reset(void);

/* ---- Work --------------------------------------------------------------------------------------- */

/** Launches a kernel that runs for duration_ns of the GPU's clock. Returns a CUresult, as cuLaunchKernel. */
FAKE_CUDA_API int32_t fake_cuda_enqueue_work(void* stream, uint64_t duration_ns);

/** Launches a kernel that runs until fake_cuda_open_gates(). Returns a CUresult. Not into a capture. */
FAKE_CUDA_API int32_t fake_cuda_enqueue_gate(void* stream);

/** Ends, now, every kernel that fake_cuda_enqueue_gate() launched so far. */
FAKE_CUDA_API void fake_cuda_open_gates(void);

/**
 * Sets the GPU's clock: its offset from CLOCK_MONOTONIC now, and its drift from now on. Times of operations submitted
 * before do not change.
 */
FAKE_CUDA_API void fake_cuda_set_clock(int64_t offset_ns, double drift_ppm);

/**
 * The true completion time of a recorded event, on CLOCK_MONOTONIC and on the GPU's clock (exact, not rounded to a
 * tick). Returns 0; -1 for an event that is unknown, not recorded, captured, or behind a closed gate.
 */
FAKE_CUDA_API int32_t fake_cuda_event_times_ns(void* event, int64_t* monotonic_ns, uint64_t* gpu_ns);

/* ---- Counts ------------------------------------------------------------------------------------- */

/**
 * Calls since the start or the last fake_cuda_reset_counts(). `function` is a name as a program writes it
 * ("cuEventDestroy"), or NULL for all functions. UINT64_MAX for a name the fake does not have.
 */
FAKE_CUDA_API uint64_t fake_cuda_call_count(const char* function);

/** The same for calls that the thread with this kernel id (gettid) made. */
FAKE_CUDA_API uint64_t fake_cuda_thread_call_count(int32_t thread_id, const char* function);

/** Calls of functions that make the host wait for the device, or a stream for another: cu*Synchronize,
 * cuStreamWaitEvent. */
FAKE_CUDA_API uint64_t fake_cuda_synchronizing_call_count(void);

FAKE_CUDA_API void fake_cuda_reset_counts(void);

/** Objects created and not destroyed: "events", "streams" (without the default ones), "contexts", "graphs". Else -1. */
FAKE_CUDA_API int64_t fake_cuda_live_count(const char* kind);

/** Calls that a correct program never makes: unknown or destroyed handles, objects of two contexts mixed. */
FAKE_CUDA_API uint64_t fake_cuda_misuse_count(void);

/** What the last misuse was, in words; "" before the first. Valid until the thread's next call of this function. */
FAKE_CUDA_API const char* fake_cuda_last_misuse(void);

/** Captures that some call invalidated. */
FAKE_CUDA_API uint64_t fake_cuda_invalidated_capture_count(void);

/* ---- Faults ------------------------------------------------------------------------------------- */

/**
 * Adds faults. They count calls from now on, from 1. Returns 0, or -1 if the text does not parse; then it adds nothing.
 *
 *   RULES  = RULE { ";" RULE }
 *   RULE   = FUNCTION ":fail=" CODE [ "@" WHEN ]     these calls of the function return CODE and do nothing
 *          | FUNCTION ":block" [ "@" WHEN ]          these calls wait for fake_cuda_release(), then continue
 *          | [ FUNCTION ":" ] "sticky=" CODE [ "@" N ]   the N-th call (of the function; of any that can report an
 *                                                    earlier error) loses the caller's current context: it and all
 *                                                    later ones in that context return CODE
 *   WHEN   = N | N ".." M | N ".."                   the N-th; the N-th to the M-th; from the N-th on; default: all
 *   CODE   = a CUresult in decimal; FUNCTION as in fake_cuda_call_count(); N, M ≥ 1; N without "@" is 1
 *
 * Example: "cuEventCreate:fail=2@10;cuEventRecord:fail=1@5..7;sticky=719@50".
 */
FAKE_CUDA_API int32_t fake_cuda_inject(const char* rules);

/** Removes every rule and lets blocked calls go on. A lost context stays lost, a stopped GPU stopped. */
FAKE_CUDA_API void fake_cuda_clear_faults(void);

/** Removes the "block" rules and lets blocked calls go on; synchronising calls on a stopped GPU return "launch
 * timeout". */
FAKE_CUDA_API void fake_cuda_release(void);

/** Threads that a "block" rule, or a synchronising call on unfinished work, holds at this moment. */
FAKE_CUDA_API int32_t fake_cuda_waiting_threads(void);

/** Stops the GPU now: what is not complete never will be. */
FAKE_CUDA_API void fake_cuda_hang(void);

/** Loses a context: calls in it return `code` from now on. Returns 0; -1 for an unknown context. */
FAKE_CUDA_API int32_t fake_cuda_break_context(void* context, int32_t code);

#ifdef __cplusplus
}
#endif

#endif /* FAKE_CUDA_H */
