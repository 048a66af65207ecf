# SPDX-License-Identifier: Apache-2.0
# The package with a library of another version (see other_library.cpp): every call fails with an error that keeps the
# code, and none crashes. Prints the error of opening, if any.

using CEP

function expect_unknown_code(call)
    try
        call()
    catch failure
        failure isa CEP.Error && failure.code == -99 && failure.message == "flux: capacitor empty" && return
        rethrow()
    end
    error("nothing thrown")
end

function use_all(prof)
    expect_unknown_code(() -> step!(prof, 0))
    forward = Region(prof, "forward")
    stop!(switch!(start!(forward), forward))
    expect_unknown_code(() -> stop!(start!(forward); bytes = 1))
    expect_unknown_code(() -> record!(forward, 0, 1))
    expect_unknown_code(() -> counter!(prof, "loss", 1))
    expect_unknown_code(() -> mark!(prof, "restart"))
    expect_unknown_code(() -> set_meta!(prof; dp = 1))
    expect_unknown_code(() -> stats(prof))
    expect_unknown_code(() -> flush(prof))
    expect_unknown_code(() -> close(prof))
end

try
    global prof = Profiler()
catch failure
    failure isa CEP.Error || rethrow()
    println(failure.code, ' ', failure.message)
    exit(0)
end
use_all(prof)
