# SPDX-License-Identifier: Apache-2.0
# From the keywords of Profiler to the options struct of libcep.

const DIRECTORY_NAME = "cuda_event_profiler"
const TEXT_OPTIONS = (:directory, :run_id)

"""
    with_options(f, explicit; config, on_by_default)

Calls `f` with a filled struct: defaults, then the environment, `config`, and the explicit options. What the struct
points to lives as long as the call.
"""
function with_options(f, explicit; config = nothing, on_by_default = true)
    options = NativeOptions()
    check(cep_options_init(options, UInt32(sizeof(NativeOptions))))
    kept = Any[]
    try
        load(options, config, on_by_default)
        for (name, value) in explicit
            value === nothing || set_option!(options, kept, name, value)
        end
        return GC.@preserve kept f(options)
    finally
        cep_options_clear(options)
    end
end

# The first load call on a struct turns it off unless it says otherwise: so an empty one goes first where the profiler
# is to be on unless somebody says no.
function load(options, config, on_by_default)
    if on_by_default
        check(cep_options_load_json(options, "{}"))
        options.enable = 1
    end
    check(cep_options_load_env(options))
    config === nothing || check(cep_options_load_json(options, json_object(config)))
end

function set_option!(options, kept, name::Symbol, value)
    if name in TEXT_OPTIONS
        setfield!(options, name, kept_text!(kept, string(value)))
    elseif name === :meta
        options.meta = kept_text!(kept, json_object(value))
    elseif name === :ranks
        set_ranks!(options, kept, value)
    elseif name === :layout
        options.layout = choice("layout", LAYOUTS, value)
    elseif name === :backend
        options.backend = choice("backend", BACKENDS, value)
    elseif name === :enable
        options.enable = value ? 1 : 0
    else
        setfield!(options, name, whole_number(name, fieldtype(NativeOptions, name), value))
    end
end

function kept_text!(kept, text::String)
    push!(kept, text)
    return convert(Ptr{UInt8}, Base.unsafe_convert(Cstring, text)) # refuses a text with a NUL
end

function set_ranks!(options, kept, ranks)
    isempty(ranks) && throw(Error(EOPTION, "ranks: empty; leave it out for all ranks, or pass enable = false"))
    numbers = Int32[whole_number(:ranks, Int32, rank) for rank in ranks]
    push!(kept, numbers)
    options.ranks = pointer(numbers)
    options.ranks_count = length(numbers)
end

function whole_number(name::Symbol, type::DataType, value)
    value isa Integer && typemin(type) <= value <= typemax(type) && return type(value)
    throw(Error(EOPTION, "$name: a whole number is needed, not $(repr(value))"))
end
