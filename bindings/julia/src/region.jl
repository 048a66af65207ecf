# SPDX-License-Identifier: Apache-2.0

"""
    Region(prof, name; kind = :auto)

The phase of that name, created the first time. The first call for a name sets its kind: `:step`, `:compute`, `:comm`,
`:data`, `:memory`, `:host`, `:other`, or `:auto` to infer it from the words of the name.
"""
struct Region{P<:Profiler}
    profiler::P
    handle::Ptr{Cvoid}
end

Region(profiler::Profiler, name::AbstractString; kind = :auto) = Region(profiler, region_handle(profiler, name, kind))

region_handle(profiler::Profiler, name::AbstractString, kind) = region_handle(profiler, String(name), kind)
function region_handle(profiler::Profiler, name::String, kind)
    lock(profiler.lock)
    try
        known = get(profiler.regions, name, C_NULL)
        known == C_NULL || return known
        found = cep_region_get(handle(profiler), name, choice("kind", KINDS, kind))
        found == C_NULL && raise(EINVAL)
        return profiler.regions[name] = found
    finally
        unlock(profiler.lock)
    end
end

"""
A span of a phase, from `start!` to `stop!`. `stop!` may be called on another thread, so a task may migrate meanwhile.
On a step that is not recorded, neither call does anything. The span keeps its stream alive.
"""
struct Span{Stream}
    region::Ptr{Cvoid}
    number::UInt64
    stream::Stream # as it was given, so that it is not freed before stop!
end

"""A span that is not recorded. It keeps the stream, on which `switch!` may begin one that is."""
no_span(stream) = Span(C_NULL, SPAN_NONE, stream)

"""Whether a span is recorded."""
recorded(span::Span) = span.number != SPAN_NONE

"""
    start!(region; stream = nothing, attributes...)
    start!(prof, name; kind = :auto, stream = nothing, attributes...)

Begins a span. `stream` is a CUDA.jl stream, a pointer or `CEP.HOST`; by default the profiler's current stream.

Attributes: `bytes` that the operation moves, its `flops`, the process `group` of a collective and the index `coll` in
it, `error`, and `meta` (JSON text, a named tuple or a dictionary). They are checked on recorded steps only. If libcep
refuses them, the span has none and is counted in `dropped_meta`.
"""
@inline function start!(region::Region; stream = nothing, attributes...)
    recording(region.profiler) || return no_span(stream)
    return start_recorded(region.profiler, region.handle, stream, attributes)
end
@inline function start!(profiler::Profiler, name::AbstractString; kind = :auto, stream = nothing, attributes...)
    recording(profiler) || return no_span(stream)
    return start_recorded(profiler, region_handle(profiler, name, kind), stream, attributes)
end

function start_recorded(profiler, region::Ptr{Cvoid}, stream, attributes)
    given = stream === nothing ? profiler.current_stream() : stream
    GC.@preserve given begin
        pointer = stream_pointer(given)
        isempty(attributes) && return Span(region, cep_begin(region, pointer), given)
        return with_attributes(attributes) do native
            Span(region, cep_begin_with(region, pointer, native), given)
        end
    end
end

"""
    stop!(span; attributes...)

Ends a span on the stream that it began on. A second call does nothing. Each attribute replaces the same one from the
begin. If libcep refuses them, that is an error, and the span still ends.
"""
@inline function stop!(span::Span; attributes...)
    recorded(span) || return
    stream = span.stream
    GC.@preserve stream begin
        pointer = stream_pointer(stream)
        isempty(attributes) && return cep_end(span.region, span.number, pointer)
        with_attributes(attributes) do native
            check(cep_end_with(span.region, span.number, pointer, native))
        end
    end
end

"""
    switch!(span, region)

Ends a span and begins one of another region on the same stream with one event. So N back-to-back phases cost N + 1
records instead of 2 N. Returns the new span. That of a span which is not recorded begins on the stream that `start!` got.
"""
function switch!(span::Span, region::Region)
    recorded(span) || return start!(region; stream = span.stream)
    stream = span.stream
    GC.@preserve stream begin
        return Span(region.handle, cep_switch(span.number, region.handle, stream_pointer(stream)), stream)
    end
end

"""
    phase!(region; stream = nothing)
    phase!(prof, name; kind = :auto, stream = nothing)

Sets the current phase of the calling thread: ends the phase before it, if there is one, and begins the next with the
same event. libcep keeps the phase, so phases chain across steps: N phases a step cost N records. A step that is not
recorded ends the phase and begins none. End the last one with `end_phase!`. `stream` is as for `start!`.

The phase belongs to the thread, not to the task: call it from a task that stays on its thread.
"""
phase!(region::Region; stream = nothing) = change_phase(region.profiler, region.handle, stream)
phase!(profiler::Profiler, name::AbstractString; kind = :auto, stream = nothing) =
    change_phase(profiler, region_handle(profiler, name, kind), stream)

"""
    end_phase!(prof; stream = nothing)

Ends the current phase of the calling thread, if it has one.
"""
end_phase!(profiler::Profiler; stream = nothing) = change_phase(profiler, C_NULL, stream)

function change_phase(profiler::Profiler, region::Ptr{Cvoid}, stream)
    given = stream === nothing ? profiler.current_stream() : stream
    GC.@preserve given begin
        check(cep_phase(handle(profiler), region, stream_pointer(given)))
    end
end

"""
    record!(region, start_ns, duration_ns; attributes...)

Adds a span to the current step that was timed elsewhere, if that step is recorded. Its start is a UNIX time in
nanoseconds; 0: now minus the duration.
"""
function record!(region::Region, start_ns::Integer, duration_ns::Integer; attributes...)
    with_attributes(attributes) do native
        check(cep_record(region.handle, Int64(start_ns), Int64(duration_ns), native))
    end
end

with_attributes(f, attributes) = with_attributes_struct(f; attributes...)
function with_attributes_struct(f; bytes = nothing, flops = nothing, group = nothing, coll = nothing, error = nothing,
                                meta = nothing)
    kept = Any[]
    text(value) = value === nothing ? Ptr{UInt8}(C_NULL) : kept_text!(kept, String(value))
    native = Ref(NativeAttributes(sizeof(NativeAttributes), 0, something(bytes, 0), something(flops, 0.0), text(group),
                                  something(coll, -1), text(error), text(meta === nothing ? meta : json_object(meta))))
    return GC.@preserve kept f(native)
end

const ERROR_MAX_BYTES = 63

"""The name of an exception's type, as a span's attribute."""
function error_name(failure)
    name = string(nameof(typeof(failure)))
    return sizeof(name) <= ERROR_MAX_BYTES ? name : name[1:prevind(name, ERROR_MAX_BYTES + 1)]
end

"""
    region(f, prof, name; kind = :auto, stream = nothing, attributes...)
    region(f, region; stream = nothing, attributes...)

Calls `f` and times it as a span of a phase; see `start!`. If `f` throws, the row gets the exception's type, and the
exception is rethrown.

    region(prof, "all_reduce"; group = "dp", coll = step) do
        all_reduce!(gradients)
    end
"""
function region(f, phase::Region; options...)
    recording(phase.profiler) || return f()
    return run_in(f, start!(phase; options...))
end
function region(f, profiler::Profiler, name::AbstractString; options...)
    recording(profiler) || return f()
    return run_in(f, start!(profiler, name; options...))
end

function run_in(f, span::Span)
    try
        return f()
    catch failure
        stop!(span; error = error_name(failure))
        rethrow()
    finally
        stop!(span)
    end
end

"""
    @region prof "name" [option = value ...] expression

Like `region(prof, "name"; options...)`, but times an expression in place. The expression may return from the enclosing
function. Its value is the value of the macro.
"""
macro region(profiler, name, rest...)
    isempty(rest) && throw(ArgumentError("@region: a profiler, a name and an expression are needed"))
    options = [Expr(:kw, option.args[1], esc(option.args[2])) for option in rest[1:end-1]]
    return quote
        local span = start!($(esc(profiler)), $(esc(name)); $(options...))
        try
            $(esc(rest[end]))
        catch failure
            stop!(span; error = error_name(failure))
            rethrow()
        finally
            stop!(span)
        end
    end
end
