# SPDX-License-Identifier: Apache-2.0
# Turns a stream into the pointer that libcep takes.

struct HostClock end

"""A value for `stream`: time this span on the host clock only (data loading, checkpointing)."""
const HOST = HostClock()

"""
    stream_pointer(stream)

The pointer for `stream`: `CEP.HOST`, a pointer, or an object whose field `handle` converts to a pointer, as in CUDA.jl.
"""
@inline stream_pointer(::HostClock) = HOST_STREAM
@inline stream_pointer(stream::Ptr) = convert(Ptr{Cvoid}, stream)
function stream_pointer(stream)
    hasproperty(stream, :handle) && return convert(Ptr{Cvoid}, stream.handle)
    throw(Error(EINVAL, "stream: a $(typeof(stream)) is not a stream with a handle, a pointer or CEP.HOST"))
end

"""The legacy default stream."""
default_stream() = C_NULL

const LOADED_STREAM = Ref{Any}(default_stream)

"""How to find the current stream: `CUDA.stream` where CUDA.jl is loaded (see `ext/`), else the legacy default stream."""
stream_source() = LOADED_STREAM[]
