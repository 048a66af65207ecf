# SPDX-License-Identifier: Apache-2.0
# Turns facts into JSON, because Julia's standard library has no JSON writer. A text must be JSON already.

json_object(text::AbstractString) = String(text)
json_object(facts::Union{NamedTuple,AbstractDict}) = sprint(write_json, facts)
function json_object(facts)
    throw(Error(EJSON, "meta: $(typeof(facts)) is not JSON text, a named tuple or a dictionary"))
end

write_json(io::IO, value::Union{Bool,Integer}) = print(io, value)
write_json(io::IO, ::Nothing) = print(io, "null")
write_json(io::IO, text::Union{AbstractString,Symbol}) = write_text(io, string(text))

function write_json(io::IO, number::AbstractFloat)
    isfinite(number) || throw(Error(EJSON, "meta: $number cannot be written as JSON"))
    print(io, Float64(number))
end

function write_json(io::IO, facts::Union{NamedTuple,AbstractDict})
    print(io, '{')
    for (index, (key, value)) in enumerate(pairs(facts))
        index == 1 || print(io, ',')
        write_text(io, string(key))
        print(io, ':')
        write_json(io, value)
    end
    print(io, '}')
end

function write_json(io::IO, values::Union{AbstractVector,Tuple})
    print(io, '[')
    for (index, value) in enumerate(values)
        index == 1 || print(io, ',')
        write_json(io, value)
    end
    print(io, ']')
end

write_json(::IO, value) = throw(Error(EJSON, "meta: a $(typeof(value)) cannot be written as JSON"))

function write_text(io::IO, text::String)
    print(io, '"')
    for character in text
        if character in ('"', '\\')
            print(io, '\\', character)
        elseif character < ' '
            print(io, "\\u", string(UInt32(character); base = 16, pad = 4))
        else
            print(io, character)
        end
    end
    print(io, '"')
end
