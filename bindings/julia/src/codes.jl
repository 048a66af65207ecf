# SPDX-License-Identifier: Apache-2.0
# The codes that calls return. A newer library may return codes that are not defined here.

const OK = Int32(0)
const EINVAL = Int32(-1)
const EOPTION = Int32(-2)
const EJSON = Int32(-3)
const EIO = Int32(-4)
const ENOMEM = Int32(-5)
const ETIMEDOUT = Int32(-6)
const ELIMIT = Int32(-7)
const EINTERNAL = Int32(-8)

"""
A call of libcep failed. `code` is a negative `CEP_E…` code, which may be one that is not defined here. `message` is one
line that names the argument, option, path or CUDA error.
"""
struct Error <: Exception
    code::Int32
    message::String
end

Base.showerror(io::IO, failure::Error) = print(io, "CEP.Error: ", failure.message, " (code ", failure.code, ")")

"""libcep's message for the last failure on this thread, or else the description of the code."""
function last_message(code::Int32)
    message = unsafe_string(cep_last_error())
    return isempty(message) ? unsafe_string(cep_strerror(code)) : message
end

@noinline raise(code::Int32) = throw(Error(code, last_message(code)))

@inline check(code::Int32) = code == OK ? nothing : raise(code)

const KINDS = (auto = 0, step = 1, compute = 2, comm = 3, data = 4, memory = 5, host = 6, other = 7)
const LAYOUTS = (full = 0, flat = 1, spans = 2)
const BACKENDS = (auto = 0, host = 1)

"""The number of the choice with that name."""
function choice(what::String, choices::NamedTuple, name)
    key = Symbol(name)
    haskey(choices, key) && return Int32(choices[key])
    throw(Error(EOPTION, "$what: $(repr(name)) is not one of $(join(keys(choices), ", "))"))
end
