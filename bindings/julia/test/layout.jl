# SPDX-License-Identifier: Apache-2.0
# Compares the package's structs, constants and calls with the layout table that a C program printed from <cep/cep.h>.
# CEP_LAYOUT_TABLE is the path of the table.

table_lines(what) = Set(filter(line -> startswith(line, what), readlines(ENV["CEP_LAYOUT_TABLE"])))

type_code(::Type{Int32}) = "i32"
type_code(::Type{UInt32}) = "u32"
type_code(::Type{Int64}) = "i64"
type_code(::Type{UInt64}) = "u64"
type_code(::Type{Float64}) = "f64"
type_code(::Type{Cvoid}) = "void"
type_code(::Type{<:Union{Ptr,Ref,Cstring}}) = "ptr"

const STRUCTS = ("cep_options" => CEP.NativeOptions, "cep_attrs" => CEP.NativeAttributes,
                 "cep_stats" => CEP.NativeStats)

function field_line(name, type, index)
    field = fieldtype(type, index)
    return "field $name $(fieldname(type, index)) $(fieldoffset(type, index)) $(sizeof(field)) $(type_code(field))"
end

@testset "structs are laid out as in C" begin
    @test Set("struct $name $(sizeof(type))" for (name, type) in STRUCTS) == table_lines("struct ")
    found = Set(field_line(name, type, index) for (name, type) in STRUCTS for index in 1:fieldcount(type))
    @test found == table_lines("field ")
end

@testset "constants have the values of C" begin
    found = Set(["constant CEP_SPAN_NONE $(CEP.SPAN_NONE % Int64)", "constant CEP_SPAN_INNERMOST $(CEP.SPAN_INNERMOST)",
                 "constant CEP_HOST $(UInt(CEP.HOST_STREAM) % Int64)", "constant CEP_FIND_IT $(CEP.FIND_IT)",
                 "constant CEP_NO_END_STEP $(CEP.NO_END_STEP)", "constant CEP_ATTRS_ASYNC $(CEP.ATTRS_ASYNC)"])
    for code in (:OK, :EINVAL, :EOPTION, :EJSON, :EIO, :ENOMEM, :ETIMEDOUT, :ELIMIT, :EINTERNAL)
        push!(found, "constant CEP_$code $(getfield(CEP, code))")
    end
    for (what, choices) in ("KIND" => CEP.KINDS, "LAYOUT" => CEP.LAYOUTS, "BACKEND" => CEP.BACKENDS)
        for (name, value) in pairs(choices)
            push!(found, "constant CEP_$(what)_$(uppercase(string(name))) $value")
        end
    end
    expected = filter(line -> !startswith(line, "constant CEP_VERSION_"), table_lines("constant "))
    @test found == expected
    @test any(line -> startswith(line, "version $(join(CEP.REQUIRED_VERSION, ' ')) "), table_lines("version "))
end

@testset "calls have the argument and result types of C" begin
    words(call) = ["function", call.name, type_code(call.result), type_code.(call.arguments)...]
    found = Set(join(words(prototype), ' ') for prototype in CEP.PROTOTYPES)
    @test found == table_lines("function ")
end
