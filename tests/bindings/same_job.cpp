// SPDX-License-Identifier: Apache-2.0
//
// The job of same_rows_test.py in C++: same_job DIRECTORY
#include <cep/cep.hpp>
#include <cstdint>

namespace {

void train(cep::Profiler& profiler) {
    const cep::Region training_step = profiler.region("training_step");
    const cep::Region load = profiler.region("load", cep::Kind::data);
    const cep::Region forward = profiler.region("forward");
    const cep::Region backward = profiler.region("backward");
    const cep::Region sync = profiler.region("sync", cep::Kind::comm);
    for (std::int64_t step = 0; step < 3; ++step) {
        profiler.step(step);
        {
            const cep::Span whole = training_step.begin();
            load.begin(CEP_HOST).end();
            cep::Span phase = forward.begin();
            phase.switch_to(backward);
            phase.end();
            const auto attributes =
                cep::Attributes().bytes(4096).flops(2e6).collective("dp", step).meta(R"({"op":"sum"})");
            const cep::Span collective = sync.begin(nullptr, attributes);
        }
        profiler.counter("loss", 0.5 * static_cast<double>(step));
    }
    profiler.mark("checkpoint", R"({"format":"sharded"})");
    profiler.region("save", cep::Kind::host).begin(CEP_HOST).end(cep::Attributes().error("DiskFull"));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    cep::Options options;
    options.directory(argv[1]).rank(3).world_size(8).record_every_n_steps(1).backend(cep::Backend::host);
    options.meta(R"({"dp":1,"flops_per_step":1.5e9,"model":"tiny"})").max_overhead_percent(12.5);
    cep::Profiler profiler(options);
    train(profiler);
    return profiler.flush() && profiler.close() ? 0 : 1;
}
