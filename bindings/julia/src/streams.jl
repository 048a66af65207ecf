# SPDX-License-Identifier: Apache-2.0
# Which CUDA stream a span is timed on, as the pointer that libcep takes.

struct HostClock end

"""As a stream: time this span on the host clock only (data loading, checkpointing)."""
const HOST = HostClock()

"""
    stream_pointer(stream)

Of `CEP.HOST`, a pointer, or an object whose field `handle` converts to a pointer, as CUDA.jl's streams do.
"""
@inline stream_pointer(::HostClock) = HOST_STREAM
@inline stream_pointer(stream::Ptr) = convert(Ptr{Cvoid}, stream)
function stream_pointer(stream)
    hasproperty(stream, :handle) && return convert(Ptr{Cvoid}, stream.handle)
    throw(Error(EINVAL, "stream: a $(typeof(stream)) is neither a stream with a handle, a pointer nor CEP.HOST"))
end

"""The legacy default stream."""
default_stream() = C_NULL
