# SPDX-License-Identifier: Apache-2.0
# What calls return. The codes are open: a newer library may return some that have no name here.

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
A call into libcep failed: `code` is a negative `CEP_E…` code, perhaps one without a name here; `message` is one line
that names the argument, option, path or CUDA error concerned.
"""
struct Error <: Exception
    code::Int32
    message::String
end

Base.showerror(io::IO, failure::Error) = print(io, "CEP.Error: ", failure.message, " (code ", failure.code, ")")

"""What libcep says about the last failure on this thread, or what the code means in general."""
function last_message(code::Int32)
    message = unsafe_string(cep_last_error())
    return isempty(message) ? unsafe_string(cep_strerror(code)) : message
end

@noinline raise(code::Int32) = throw(Error(code, last_message(code)))

@inline check(code::Int32) = code == OK ? nothing : raise(code)

const KINDS = (auto = 0, step = 1, compute = 2, comm = 3, data = 4, memory = 5, host = 6, other = 7)
const LAYOUTS = (full = 0, flat = 1)
const BACKENDS = (auto = 0, host = 1)

"""The number of a choice that is given by its name."""
function choice(what::String, choices::NamedTuple, name)
    key = Symbol(name)
    haskey(choices, key) && return Int32(choices[key])
    throw(Error(EOPTION, "$what: $(repr(name)) is none of $(join(keys(choices), ", "))"))
end
