# SPDX-License-Identifier: Apache-2.0
# Turns the keywords of Profiler into the options struct of libcep.

const DIRECTORY_NAME = "cuda_event_profiler"
const TEXT_OPTIONS = (:directory, :run_id, :capture_range)

"""
    with_options(f, explicit; config, on_by_default)

Calls `f` with an options struct. It holds the defaults, overridden by the environment, then by `config`, then by the
explicit options. The memory that the struct points to lives as long as the call.
"""
function with_options(f, explicit; config = nothing, on_by_default = true)
    ensure_library()
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

# The first load call on a struct sets `enable` to 0 unless its configuration enables the profiler. If the profiler is on
# by default, load an empty configuration first and set `enable` again.
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
    elseif name === :max_overhead_percent
        value isa Real || throw(Error(EOPTION, "$name: $(repr(value)) is not a number"))
        options.max_overhead_percent = Float64(value)
    elseif name === :enable
        options.enable = value ? 1 : 0
    else
        setfield!(options, name, whole_number(name, fieldtype(NativeOptions, name), value))
    end
end

function kept_text!(kept, text::String)
    push!(kept, text)
    return convert(Ptr{UInt8}, Base.unsafe_convert(Cstring, text)) # throws if the text contains a NUL
end

function set_ranks!(options, kept, ranks)
    isempty(ranks) &&
        throw(Error(EOPTION, "ranks: the list is empty; leave it out for all ranks, or pass enable = false for none"))
    numbers = Int32[whole_number(:ranks, Int32, rank) for rank in ranks]
    push!(kept, numbers)
    options.ranks = pointer(numbers)
    options.ranks_count = length(numbers)
end

function whole_number(name::Symbol, type::DataType, value)
    value isa Integer && typemin(type) <= value <= typemax(type) && return type(value)
    throw(Error(EOPTION, "$name: $(repr(value)) is not an integer from $(typemin(type)) to $(typemax(type))"))
end
