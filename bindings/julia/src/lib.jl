# SPDX-License-Identifier: Apache-2.0
# The structs and calls of libcep.so, as <cep/cep.h> declares them.

const SONAME = "libcep.so.0"
# The calls below match the header of this version. Until 1.0 a minor version may be incompatible.
const REQUIRED_VERSION = (0, 2)

const SPAN_NONE = typemax(UInt64)
const SPAN_INNERMOST = UInt64(0)
const HOST_STREAM = Ptr{Cvoid}(typemax(UInt))
const FIND_IT = Int32(-1)
const ATTRS_ASYNC = Int32(1)  # a flag of NativeAttributes
const NO_END_STEP = typemax(Int64)

mutable struct NativeOptions
    struct_size::UInt32
    enable::Int32
    directory::Ptr{UInt8}
    rank::Int32
    world_size::Int32
    local_rank::Int32
    layout::Int32
    start_step::Int64
    end_step::Int64
    record_every_n_steps::Int64
    flush_every_n_steps::Int64
    ranks::Ptr{Int32}
    ranks_count::UInt64
    max_file_bytes::Int64
    ring_capacity::Int64
    pool_limit::Int64
    backend::Int32
    reserved::Int32
    run_id::Ptr{UInt8}
    meta::Ptr{UInt8}
    storage::Ptr{Cvoid}
    max_overhead_percent::Float64
    capture_range::Ptr{UInt8}
    NativeOptions() = new()
end

struct NativeAttributes
    struct_size::UInt32
    flags::UInt32
    bytes::Int64
    flops::Float64
    group::Ptr{UInt8}
    coll::Int64
    error::Ptr{UInt8}
    meta::Ptr{UInt8}
end

struct NativeStats
    struct_size::UInt32
    threads::UInt32
    recorded::UInt64
    written::UInt64
    dropped_ring::UInt64
    dropped_slots::UInt64
    dropped_pool::UInt64
    dropped_file::UInt64
    dropped_io::UInt64
    dropped_meta::UInt64
    capture_skipped::UInt64
    cuda_errors::UInt64
    abandoned::UInt64
    open_spans::UInt64
    bytes_written::UInt64
    self_ns::UInt64
    pending::UInt64
    trainer_ns::UInt64
end

struct Prototype
    name::Symbol
    result::DataType
    arguments::Tuple
    address::Base.RefValue{Ptr{Cvoid}} # set when the library is opened, because precompiled code cannot hold an address
end

const PROTOTYPES = Prototype[]

"""
    @native name(argument::Type, ...)::Result

Defines a Julia function that calls the C function of the same name.
"""
macro native(declaration)
    call, result = declaration.args
    name, arguments = call.args[1], call.args[2:end]
    names = [argument.args[1] for argument in arguments]
    types = [argument.args[2] for argument in arguments]
    address = Symbol(name, "_address")
    return esc(quote
        const $address = Ref{Ptr{Cvoid}}(C_NULL)
        push!(PROTOTYPES, Prototype($(QuoteNode(name)), $result, ($(types...),), $address))
        @inline $name($(names...)) = ccall($address[], $result, ($(types...),), $(names...))
    end)
end

@native cep_version()::Cstring
@native cep_strerror(code::Int32)::Cstring
@native cep_last_error()::Cstring
@native cep_options_init(options::Ref{NativeOptions}, struct_size::UInt32)::Int32
@native cep_options_load_json(options::Ref{NativeOptions}, json::Cstring)::Int32
@native cep_options_load_env(options::Ref{NativeOptions})::Int32
@native cep_options_clear(options::Ref{NativeOptions})::Cvoid
@native cep_open(options::Ref{NativeOptions}, out::Ref{Ptr{Cvoid}})::Int32
@native cep_close(profiler::Ptr{Cvoid}, timeout_ms::Int64)::Int32
@native cep_flush(profiler::Ptr{Cvoid}, timeout_ms::Int64)::Int32
@native cep_enabled(profiler::Ptr{Cvoid})::Int32
@native cep_rank(profiler::Ptr{Cvoid})::Int32
@native cep_set_meta(profiler::Ptr{Cvoid}, json::Cstring)::Int32
@native cep_get_stats(profiler::Ptr{Cvoid}, stats::Ref{NativeStats})::Int32
@native cep_step(profiler::Ptr{Cvoid}, step::Int64)::Int32
@native cep_recording(profiler::Ptr{Cvoid})::Int32
@native cep_region_get(profiler::Ptr{Cvoid}, name::Cstring, kind::Int32)::Ptr{Cvoid}
@native cep_begin(region::Ptr{Cvoid}, stream::Ptr{Cvoid})::UInt64
@native cep_begin_with(region::Ptr{Cvoid}, stream::Ptr{Cvoid}, attrs::Ref{NativeAttributes})::UInt64
@native cep_end(region::Ptr{Cvoid}, span::UInt64, stream::Ptr{Cvoid})::Cvoid
@native cep_end_with(region::Ptr{Cvoid}, span::UInt64, stream::Ptr{Cvoid}, attrs::Ref{NativeAttributes})::Int32
@native cep_switch(span::UInt64, region::Ptr{Cvoid}, stream::Ptr{Cvoid})::UInt64
@native cep_phase(profiler::Ptr{Cvoid}, region::Ptr{Cvoid}, stream::Ptr{Cvoid})::Int32
@native cep_record(region::Ptr{Cvoid}, start_ns::Int64, duration_ns::Int64, attrs::Ref{NativeAttributes})::Int32
@native cep_counter(profiler::Ptr{Cvoid}, name::Cstring, value::Float64)::Int32
@native cep_mark(profiler::Ptr{Cvoid}, name::Cstring, meta::Cstring)::Int32

const LIBRARY = Ref{Ptr{Cvoid}}(C_NULL)
const LIBRARY_LOCK = ReentrantLock()

"""Opens the library, unless it is open. Every other call of it comes after this one."""
function ensure_library()
    lock(LIBRARY_LOCK)
    try
        LIBRARY[] == C_NULL && open_library()
    finally
        unlock(LIBRARY_LOCK)
    end
end

"""The version of the library, "MAJOR.MINOR.PATCH"."""
library_version() = (ensure_library(); unsafe_string(cep_version()))

"""The path of the library."""
library_path() = (ensure_library(); dlpath(LIBRARY[]))

# If CEP_LIBRARY is set, it is the only candidate: a fallback would hide a mistake in it.
function library_candidate()
    explicit = get(ENV, "CEP_LIBRARY", "")
    return isempty(explicit) ? (SONAME, "the loader's search path") : (explicit, "CEP_LIBRARY")
end

function open_library()
    path, origin = library_candidate()
    library = load_library(path, origin)
    for prototype in PROTOTYPES
        address = dlsym(library, prototype.name; throw_error = false)
        address === nothing && error("$path has no $(prototype.name)(): not a libcep $(join(REQUIRED_VERSION, '.'))")
        prototype.address[] = address
    end
    check_version(path, unsafe_string(cep_version()))
    LIBRARY[] = library
end

function load_library(path, origin)
    try
        return dlopen(path)
    catch failure
        hint = origin == "CEP_LIBRARY" ? "correct CEP_LIBRARY, or unset it to use the loader's search path" :
               "set CEP_LIBRARY to the path of libcep.so"
        error("cannot load libcep from $origin: $(sprint(showerror, failure)) ($hint)")
    end
end

function check_version(path, version)
    numbers = tryparse.(Int, split(version, '.'))
    length(numbers) >= 2 && (numbers[1], numbers[2]) == REQUIRED_VERSION && return
    error("$path is libcep $version; this package needs $(join(REQUIRED_VERSION, '.')).x")
end
