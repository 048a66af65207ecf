# SPDX-License-Identifier: Apache-2.0
# The rows that the package's calls write, and the errors of invalid values.
#
#     julia --project=bindings/julia bindings/julia/test/runtests.jl

using CEP
using Test

"""The lines of the rank file that a call on a profiler, in step 0 of a host-clock job, leaves."""
function lines_of(f; options...)
    mktempdir() do folder
        prof = Profiler(folder; rank = 0, world_size = 1, record_every_n_steps = 1, backend = :host, options...)
        step!(prof, 0)
        f(prof)
        @test flush(prof)
        @test close(prof)
        return readlines(joinpath(folder, "cuda_event_profiler", "cuda_events_rank_0.jsonl"))
    end
end

"""The lines of spans: they have no type."""
spans_of(f; options...) = filter(line -> !occursin("\"type\":", line), lines_of(f; options...))

"""The error that a call throws."""
function failure_of(f)
    try
        f()
    catch failure
        return failure
    end
    return nothing
end

has(line, parts...) = all(part -> occursin(part, line), parts)

@testset "CEP" begin

@testset "region returns the value of its body and writes a span" begin
    spans = spans_of() do prof
        @test region(() -> 41 + 1, prof, "forward") == 42
    end
    @test length(spans) == 1 && has(spans[1], "\"name\":\"forward\"", "\"kind\":\"compute\"")
end

@testset "@region returns the value of its expression and writes a span" begin
    spans = spans_of() do prof
        @test (@region prof "sync" kind = :comm bytes = 3 begin 41 + 1 end) == 42
    end
    @test length(spans) == 1 && has(spans[1], "\"kind\":\"comm\"", "\"bytes\":3")
end

returns_from_within(prof) = (@region prof "forward" (return 1); 2)

@testset "@region may return from the enclosing function" begin
    spans = spans_of(prof -> @test returns_from_within(prof) == 1)
    @test length(spans) == 1 && !has(spans[1], "error")
end

struct DiskFull <: Exception end

@testset "a body that throws marks its row, and the exception is rethrown" begin
    spans = spans_of() do prof
        @test_throws DiskFull region(() -> throw(DiskFull()), prof, "save")
        @test_throws DiskFull @region prof "save" throw(DiskFull())
    end
    @test length(spans) == 2 && all(line -> has(line, "\"error\":\"DiskFull\""), spans)
end

@testset "a profiler knows whether it is on, and its rank" begin
    prof = Profiler(mktempdir(); rank = 1, world_size = 2, backend = :host)
    @test CEP.enabled(prof) && CEP.rank(prof) == 1
    @test close(prof)
    @test !CEP.enabled(prof) && CEP.rank(prof) == 1
end

@testset "a span ends once, and on another task" begin
    spans = spans_of() do prof
        span = start!(prof, "forward"; stream = CEP.HOST)
        @test CEP.recorded(span) && stats(prof).open_spans == 1
        wait(Threads.@spawn stop!(span))
        stop!(span)
        @test stats(prof).open_spans == 0
    end
    @test length(spans) == 1
end

@testset "spans nest" begin
    spans = spans_of() do prof
        region(prof, "training_step") do
            region(() -> nothing, prof, "forward")
        end
    end
    @test has(spans[1], "\"name\":\"forward\"", "\"depth\":1") && has(spans[2], "\"depth\":0")
end

@testset "switch! ends one phase and begins the next" begin
    spans = spans_of() do prof
        forward, backward = Region(prof, "forward"), Region(prof, "backward")
        stop!(switch!(start!(forward), backward))
    end
    @test length(spans) == 2 && has(spans[1], "\"forward\"") && has(spans[2], "\"backward\"")
end

@testset "switch! keeps the stream of a span that is not recorded" begin
    asked = Ref(0)
    current_stream() = (asked[] += 1; CEP.HOST)
    spans = spans_of(current_stream = current_stream, record_every_n_steps = 2) do prof
        step!(prof, 1)
        span = start!(prof, "forward"; stream = CEP.HOST)
        step!(prof, 2)
        stop!(switch!(span, Region(prof, "backward")))
    end
    @test length(spans) == 1 && has(spans[1], "\"backward\"") && asked[] == 0
end

@testset "where CUDA.jl is loaded, spans are on its stream" begin
    mktempdir() do folder # a stand-in for CUDA.jl
        write(joinpath(folder, "CUDA.jl"), """
            module CUDA
            const asked = Ref(0)
            functional() = true
            stream() = (asked[] += 1; Ptr{Cvoid}(typemax(UInt)))
            end
            """)
        pushfirst!(LOAD_PATH, folder)
        try
            include(joinpath(@__DIR__, "..", "ext", "CEPCUDAExt.jl"))
            @eval Main import CUDA
            Base.invokelatest() do
                spans = spans_of(prof -> region(() -> nothing, prof, "forward"))
                @test length(spans) == 1 && Main.CUDA.asked[] == 1
            end
        finally
            CEP.LOADED_STREAM[] = CEP.default_stream
            popfirst!(LOAD_PATH)
        end
    end
end

@testset "phase! ends the current phase and begins the next" begin
    spans = spans_of() do prof
        phase!(Region(prof, "forward"))
        phase!(prof, "backward")
        end_phase!(prof)
        end_phase!(prof)
    end
    @test length(spans) == 2 && has(spans[1], "\"forward\"") && has(spans[2], "\"backward\"")
end

@testset "attributes are written, and those of the end replace those of the begin" begin
    spans = spans_of() do prof
        sync = Region(prof, "sync"; kind = :comm)
        meta = (op = "sum", sizes = [1, 2], whole = true, text = "a\"b\n", none = nothing, half = 0.5)
        span = start!(sync; bytes = 5, flops = 2.5, group = "dp", coll = 7, meta = meta)
        stop!(span; bytes = 6, error = "Timeout")
    end
    @test has(spans[1], "\"bytes\":6", "\"flops\":2.5", "\"group\":\"dp\"", "\"coll\":7", "\"error\":\"Timeout\"")
    @test has(spans[1], "\"meta\":{\"op\":\"sum\",\"sizes\":[1,2],\"whole\":true," *
                        "\"text\":\"a\\\"b\\u000a\",\"none\":null,\"half\":0.5}")
end

@testset "a span is recorded without refused attributes, which are an error at its end" begin
    spans = spans_of() do prof
        span = start!(prof, "sync"; bytes = -1)
        @test CEP.recorded(span)
        stop!(span)
        @test stats(prof).dropped_meta == 1
        failure = failure_of(() -> stop!(start!(prof, "sync"); meta = "{"))
        @test failure isa CEP.Error && failure.code == CEP.EJSON
    end
    @test length(spans) == 2
end

@testset "spans timed elsewhere, counters and marks are rows" begin
    text = join(lines_of() do prof
        record!(Region(prof, "forward"), 0, 1_500_000; bytes = 3)
        counter!(prof, "loss", 1 // 4)
        mark!(prof, "restart")
        mark!(prof, "checkpoint", Dict("format" => "sharded"))
    end)
    @test has(text, "\"duration_ms\":1.5", "\"bytes\":3", "\"value\":0.25", "\"type\":\"mark\",\"name\":\"restart\"")
    @test has(text, "\"meta\":{\"format\":\"sharded\"}")
end

@testset "facts are in the run row" begin
    lines = lines_of(prof -> set_meta!(prof; model = "tiny"); run_id = "demo", meta = (dp = 1,))
    @test has(join(lines), "\"run_id\":\"demo\"", "\"dp\":1", "\"model\":\"tiny\"")
end

@testset "on a step that is not recorded nothing is recorded and attributes are not checked" begin
    spans = spans_of(record_every_n_steps = 2) do prof
        for step in 0:3
            step!(prof, step)
            @test recording(prof) == iseven(step)
            region(() -> nothing, prof, "forward")
            recording(prof) || region(() -> nothing, prof, "forward"; meta = 1)
        end
    end
    @test length(spans) == 2
end

struct OtherStream
    handle::Ptr{Int}
end

@testset "a stream is the host clock, a pointer, or an object with a handle" begin
    @test CEP.stream_pointer(CEP.HOST) == CEP.HOST_STREAM
    @test CEP.stream_pointer(Ptr{Cvoid}(16)) == Ptr{Cvoid}(16)
    @test CEP.stream_pointer(OtherStream(Ptr{Int}(16))) === Ptr{Cvoid}(16)
    @test failure_of(() -> CEP.stream_pointer(1)).code == CEP.EINVAL
end

@testset "spans without a stream are on the profiler's current stream" begin
    asked = Ref(0)
    current_stream() = (asked[] += 1; CEP.HOST)
    spans_of(current_stream = current_stream) do prof
        region(() -> nothing, prof, "forward")
        stop!(switch!(start!(prof, "forward"), Region(prof, "backward")))
    end
    @test asked[] == 2
end

mutable struct FreedStream
    handle::Ptr{Cvoid}
end

@testset "a span keeps its stream alive" begin
    freed = Ref(false)
    new_stream() = finalizer(_ -> freed[] = true, FreedStream(CEP.HOST_STREAM))
    spans = spans_of(current_stream = new_stream) do prof
        span = start!(prof, "forward")
        GC.gc()
        @test !freed[]
        stop!(span)
    end
    GC.gc()
    @test freed[]
end

@testset "waiting for libcep lets other tasks run, and ends at the deadline" begin
    turns, calls = Ref(0), Ref(0)
    @async while calls[] < 3
        turns[] += 1
        yield()
    end
    code = CEP.poll(time_ns() + 60e9) do milliseconds
        @test 0 < milliseconds <= 5
        (calls[] += 1) < 3 ? CEP.ETIMEDOUT : Int32(0)
    end
    @test code == 0 && calls[] == 3 && turns[] > 0
    @test CEP.poll(_ -> CEP.ETIMEDOUT, time_ns()) == CEP.ETIMEDOUT
end

@testset "the package is loaded without a library, and its first use tells what is missing" begin
    script = "using CEP; failure = try CEP.library_version(); \"none\" catch error; error.msg end; print(failure)"
    command = `$(Base.julia_cmd()) --startup-file=no --project=$(Base.active_project()) -e $script`
    variables = merge(Dict{String,String}(ENV), Dict("CEP_LIBRARY" => "/nonexistent/libcep.so.0"))
    @test occursin("correct CEP_LIBRARY", read(setenv(command, variables), String))
end

@testset "invalid options are errors that name them" begin
    for (options, name) in (((record_every_n_steps = 0,), "record_every_n_steps"), ((layout = :round,), "layout"),
                            ((max_overhead_percent = -1,), "max_overhead_percent"),
                            ((max_overhead_percent = "0.1",), "max_overhead_percent"), ((rank = 1.5,), "rank"), ((ranks = Int[],), "ranks"), ((rank = 2^40,), "rank"))
        failure = failure_of(() -> Profiler(mktempdir(); options...))
        @test failure isa CEP.Error && failure.code == CEP.EOPTION && occursin(name, failure.message)
    end
    @test failure_of(() -> Profiler(directory = "/dev/null/none")).code == CEP.EIO
    @test failure_of(() -> Profiler(config = "{")).code == CEP.EJSON
end

@testset "a configuration overrides the environment, and keywords override both" begin
    withenv("CEP_RECORD_EVERY_N_STEPS" => "0") do
        @test failure_of(() -> Profiler(mktempdir(); enable = true)).code == CEP.EOPTION
    end
    withenv("CEP_START_STEP" => "7") do
        prof = Profiler(mktempdir(); config = (enable = true, start_step = 2, record_every_n_steps = 5), start_step = 1)
        step!(prof, 6)
        @test recording(prof)
        close(prof)
    end
end

@testset "bad names and steps are errors" begin
    prof = Profiler(enable = false)
    @test failure_of(() -> Region(prof, "")).code == CEP.EINVAL
    @test failure_of(() -> Region(prof, "x"; kind = :round)).code == CEP.EOPTION
    @test failure_of(() -> step!(prof, -1)).code == CEP.EINVAL
    @test failure_of(() -> counter!(prof, "a\0b", 1)) isa ArgumentError
end

@testset "a profiler that is off accepts every call and makes no directory" begin
    folder = mktempdir()
    unlisted = Profiler(folder; rank = 1, world_size = 2, ranks = [0])
    for prof in (Profiler(folder; enable = false), unlisted, CEP.from_env())
        step!(prof, 0)
        @test region(() -> 1, prof, "forward") == 1
        @test (@region prof "forward" 1) == 1
        counter!(prof, "loss", 1)
        mark!(prof, "restart")
        set_meta!(prof; dp = 1)
        @test stats(prof).recorded == 0
        @test !CEP.enabled(prof) && CEP.rank(prof) == (prof === unlisted ? 1 : 0)
        @test flush(prof) && close(prof) && close(prof)
    end
    @test isempty(readdir(folder))
end

@testset "a function's profiler is closed at its end, also if it throws" begin
    opened = Ref{Any}(nothing)
    @test_throws DiskFull Profiler(mktempdir(); record_every_n_steps = 1) do prof
        opened[] = prof
        step!(prof, 0)
        throw(DiskFull())
    end
    @test !recording(opened[])
end

@testset "undefined codes are kept" begin
    failure = failure_of(() -> CEP.check(Int32(-99)))
    @test failure isa CEP.Error && failure.code == -99 && !isempty(sprint(showerror, failure))
end

"""The first Julia program of a Markdown page."""
program_of(page) = match(r"^```julia\n(.*?)^```"ms, read(page, String))[1]

@testset "the program of the README runs and writes its rows" begin
    program = program_of(joinpath(@__DIR__, "..", "README.md"))
    mktempdir() do folder
        cd(() -> include_string(Module(:Program), program), folder)
        lines = readlines(joinpath(folder, "output", "cuda_event_profiler", "cuda_events_rank_0.jsonl"))
        @test count(line -> has(line, "\"name\":\"forward\""), lines) == 10
        @test count(line -> has(line, "\"name\":\"all_reduce\"", "\"group\":\"dp\""), lines) == 10
    end
end

haskey(ENV, "CEP_LAYOUT_TABLE") && include("layout.jl")

end
