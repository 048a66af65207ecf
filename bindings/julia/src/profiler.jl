# SPDX-License-Identifier: Apache-2.0

const CLOSE_TIMEOUT_S = 5.0

"""
    Profiler(output_dir = nothing; options...)
    Profiler(f, output_dir = nothing; options...)

The profiler of one process of a job. It times phases and writes them to
`<output_dir>/cuda_event_profiler/cuda_events_rank_<rank>.jsonl`. With a function `f`, calls it with the profiler and
closes the profiler afterwards.

The profiler is on unless `enable = false`, `config` or the environment (`CEP_ENABLE=0`) turns it off. The value of an
option comes from the first of these that sets it: the keyword, `config` (JSON text, the path of a JSON file, a
dictionary or a named tuple), `CEP_<OPTION>`, `CEP_CONFIG`, the default. `CEP.from_env()` makes a profiler that is off
unless the environment enables it.

Keywords: `enable`, `directory` (the rank file's directory itself, instead of `output_dir`), `rank`, `world_size`,
`local_rank`, `start_step`, `end_step`, `record_every_n_steps` (10), `flush_every_n_steps` (10), `ranks`, `layout`
(`:full`, `:flat`, `:spans`), `max_file_bytes`, `ring_capacity`, `pool_limit`, `backend` (`:auto`, `:host`), `run_id`, `meta`,
`max_overhead_percent` (records fewer steps rather than take more of the trainer's time; 0, the default: no bound),
`capture_range` (steps for `nsys profile --capture-range=cudaProfilerApi`, such as "100-104" or "100-104@0,8"), and
`current_stream`, a function that returns the stream for spans without one; by default that is the task's stream where
CUDA.jl is loaded and Julia is 1.9 or later, else the legacy default stream.

Any number of threads may use a profiler at once. A job that exits without closing loses nothing.
"""
struct Profiler{CurrentStream}
    handle::Ptr{Cvoid}
    current_stream::CurrentStream
    regions::Dict{String,Ptr{Cvoid}}
    lock::ReentrantLock
end

handle(profiler::Profiler) = profiler.handle

function Profiler(output_dir::Union{Nothing,AbstractString} = nothing; current_stream = stream_source(),
                  config = nothing, enable = nothing, directory = nothing, rank = nothing, world_size = nothing,
                  local_rank = nothing, start_step = nothing, end_step = nothing, record_every_n_steps = nothing,
                  flush_every_n_steps = nothing, ranks = nothing, layout = nothing, max_file_bytes = nothing,
                  ring_capacity = nothing, pool_limit = nothing, backend = nothing, run_id = nothing, meta = nothing,
                  max_overhead_percent = nothing, capture_range = nothing)
    if directory === nothing && output_dir !== nothing
        directory = joinpath(output_dir, DIRECTORY_NAME)
    end
    explicit = pairs((enable = enable, directory = directory, rank = rank, world_size = world_size,
                      local_rank = local_rank, start_step = start_step, end_step = end_step,
                      record_every_n_steps = record_every_n_steps, flush_every_n_steps = flush_every_n_steps,
                      ranks = ranks, layout = layout, max_file_bytes = max_file_bytes, ring_capacity = ring_capacity,
                      pool_limit = pool_limit, backend = backend, run_id = run_id, meta = meta,
                      max_overhead_percent = max_overhead_percent, capture_range = capture_range))
    return open_profiler(explicit, current_stream; config = config, on_by_default = true)
end

function Profiler(f::Function, arguments...; options...)
    profiler = Profiler(arguments...; options...)
    try
        return f(profiler)
    finally
        close_quietly(profiler)
    end
end

"""A profiler with the options from the environment: off unless `CEP_ENABLE` or `CEP_CONFIG` enables it."""
from_env(; current_stream = stream_source()) = open_profiler((), current_stream; on_by_default = false)

function open_profiler(explicit, current_stream; options...)
    out = Ref{Ptr{Cvoid}}(C_NULL)
    with_options(explicit; options...) do native
        check(cep_open(native, out))
    end
    return Profiler(out[], current_stream, Dict{String,Ptr{Cvoid}}(), ReentrantLock())
end

"""
    close(prof; timeout = 5.0)

Ends recording, writes all finished spans, and closes the file. A second call does nothing. Waits at most `timeout`
seconds. Returns false if that did not finish within the timeout; `stats(prof)` counts what is lost.
"""
function Base.close(profiler::Profiler; timeout = CLOSE_TIMEOUT_S)
    deadline_ns = time_ns() + timeout * 1e9
    is_flushed = poll(milliseconds -> cep_flush(handle(profiler), milliseconds), deadline_ns) != ETIMEDOUT
    # What is flushed is closed soon; what is not would take longer than there is time.
    return finished(cep_close(handle(profiler), is_flushed ? milliseconds_until(deadline_ns) : 0))
end

"""
    flush(prof; timeout = 5.0)

Writes out everything finished before the call. Returns false if that did not finish within `timeout` seconds.
"""
Base.flush(profiler::Profiler; timeout = CLOSE_TIMEOUT_S) =
    finished(poll(milliseconds -> cep_flush(handle(profiler), milliseconds), time_ns() + timeout * 1e9))

const POLL_MS = 5

"""
    poll(call, deadline_ns)

Calls `call` with milliseconds to wait, a few at a time, until it returns something else than ETIMEDOUT or the deadline
of time_ns() is over. Between the calls other tasks run: while a thread is inside of libcep, the garbage collector of
all threads waits for it.
"""
function poll(call, deadline_ns)
    while true
        left_ms = milliseconds_until(deadline_ns)
        code = call(min(left_ms, POLL_MS))
        (code != ETIMEDOUT || left_ms <= POLL_MS) && return code
        yield()
    end
end

milliseconds_until(deadline_ns) = max(0, floor(Int64, (Float64(deadline_ns) - time_ns()) / 1e6))

function finished(code::Int32)
    code == ETIMEDOUT && return false
    check(code)
    return true
end

# A failed close must neither end a job that succeeded nor hide the exception that ended it.
function close_quietly(profiler)
    try
        close(profiler) || @warn "cep: not everything was written within the timeout"
    catch failure
        @warn "cep: $(sprint(showerror, failure))"
    end
end

"""Whether this process is profiled: on, its rank listed, not closed, not a forked child."""
enabled(profiler::Profiler) = cep_enabled(handle(profiler)) != 0

"""This process's rank, from the options or the launcher."""
rank(profiler::Profiler) = Int(cep_rank(handle(profiler)))

"""
    set_meta!(prof, facts)
    set_meta!(prof; facts...)

Adds facts about this rank to its `run` row, as a named tuple, a dictionary, JSON text, or keywords. cep_set_meta(3)
lists the known keys.
"""
set_meta!(profiler::Profiler, facts) = check(cep_set_meta(handle(profiler), json_object(facts)))
set_meta!(profiler::Profiler; facts...) = set_meta!(profiler, (; facts...))

"""The counts so far, as a named tuple; all 0 if the profiler is off."""
function stats(profiler::Profiler)
    counts = Ref(NativeStats(sizeof(NativeStats), zeros(Int, fieldcount(NativeStats) - 1)...))
    check(cep_get_stats(handle(profiler), counts))
    names = fieldnames(NativeStats)[2:end]
    return NamedTuple{names}(map(name -> Int(getfield(counts[], name)), names))
end

"""
    step!(prof, step)

Sets the current step. Steps may jump, repeat and go back.
"""
step!(profiler::Profiler, step::Integer) = check(cep_step(handle(profiler), Int64(step)))

"""Whether spans begun now are recorded."""
@inline recording(profiler::Profiler) = cep_recording(handle(profiler)) != 0

"""
    counter!(prof, name, value)

Records a value (memory allocated, loss, queue length) in the current step, if that step is recorded.
"""
function counter!(profiler::Profiler, name::AbstractString, value::Real)
    check(cep_counter(handle(profiler), name, Float64(value)))
end

"""
    mark!(prof, name, meta = nothing)

Records an event in the current step (checkpoint, evaluation, restart), sampled or not.
"""
mark!(profiler::Profiler, name::AbstractString, ::Nothing = nothing) = check(cep_mark(handle(profiler), name, C_NULL))
mark!(profiler::Profiler, name::AbstractString, meta) = check(cep_mark(handle(profiler), name, json_object(meta)))
