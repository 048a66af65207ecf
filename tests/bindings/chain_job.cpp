// SPDX-License-Identifier: Apache-2.0
//
// The job of chain_test.py in C++: chain_job CONTEXT DIRECTORY
#include <dlfcn.h>

#include <cep/cep.hpp>
#include <cstdint>

int main(int argc, char** argv) {
    if (argc != 3 || dlopen(argv[1], RTLD_NOW) == nullptr) return 2;
    cep::Profiler profiler(cep::Options().directory(argv[2]).rank(0).world_size(1).record_every_n_steps(1));
    const cep::Region data = profiler.region("data");
    const cep::Region forward = profiler.region("forward");
    for (std::int64_t step = 0; step < 3; ++step) {
        profiler.step(step);
        profiler.phase(data, CEP_HOST);
        profiler.phase(forward, nullptr);
    }
    profiler.end_phase(CEP_HOST);
    cep::Span span;
    for (std::int64_t step = 3; step < 6; ++step) {
        profiler.step(step);
        span.switch_to(profiler.region("load"), CEP_HOST);
        span.switch_to(profiler.region("backward"), nullptr);
    }
    span.switch_to(cep::Region());  // only ends the span
    return !span.recorded() && profiler.close() ? 0 : 1;
}
