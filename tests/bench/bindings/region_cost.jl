# SPDX-License-Identifier: Apache-2.0
# The cost that the package CEP adds to its C calls: regions on an unrecorded step and on the host clock.

using CEP
using Printf
using Statistics

const ROUNDS = 400
const BURST = 1024 # fits the thread's ring; the flush after it is not timed

"""Nanoseconds a call within a burst."""
function time_burst(call, prof)
    start_ns = time_ns()
    for _ in 1:BURST
        call()
    end
    took_ns = time_ns() - start_ns
    flush(prof)
    return took_ns / BURST
end

"""The median of the ratios of paired samples, with its 95 % interval by order statistics."""
function ratio_text(samples, peers)
    half_width = 0.98 / sqrt(length(samples)) # 1.96 / 2 standard deviations
    ratios = quantile(samples ./ peers, [0.5, 0.5 - half_width, 0.5 + half_width])
    return @sprintf("%.3f [%.3f, %.3f] x C", ratios...)
end

function print_row(name, samples, ratio = "")
    @printf("%-58s %9.1f %9.1f %9.1f   %s\n", name, quantile(samples, [0.5, 0.25, 0.75])..., ratio)
end

"""Several ways to do one thing, in turns within each round, so that a disturbance affects all."""
function compare(what, prof, ways)
    foreach(way -> time_burst(way[2], prof), ways) # compiled before they are timed
    samples_ns = [Float64[] for _ in ways]
    for round in 1:ROUNDS, index in (isodd(round) ? (1:length(ways)) : (length(ways):-1:1))
        push!(samples_ns[index], time_burst(ways[index][2], prof))
    end
    for (index, (name, _)) in enumerate(ways)
        print_row("$what, $name", samples_ns[index], index == 1 ? "" : ratio_text(samples_ns[index], samples_ns[1]))
    end
end

function native_region(handle)
    span = CEP.cep_begin(handle, CEP.HOST_STREAM)
    CEP.cep_end(handle, span, CEP.HOST_STREAM)
end

function ways_of(prof, forward)
    return [("C", () -> native_region(forward.handle)),
            ("start! and stop!", () -> stop!(start!(forward; stream = CEP.HOST))),
            ("region(f, region)", () -> region(() -> nothing, forward; stream = CEP.HOST)),
            ("@region prof name", () -> @region prof "forward" stream = CEP.HOST nothing)]
end

function main()
    mktempdir() do folder
        prof = Profiler(folder; record_every_n_steps = 2, flush_every_n_steps = 1_000_000, backend = :host)
        ways = ways_of(prof, Region(prof, "forward"))
        @printf("\n%-58s %9s %9s %9s   %s\n", "Julia $VERSION: region", "ns", "q1", "q3", "ratio [95 % interval]")
        step!(prof, 1)
        compare("unrecorded step", prof, ways)
        step!(prof, 2)
        compare("recorded, host clock", prof, ways)
        println("lost: ", stats(prof).dropped_ring)
        close(prof)
    end
end

main()
