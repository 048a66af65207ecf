// SPDX-License-Identifier: Apache-2.0
//
// A training loop in C++, instrumented with cep.hpp. CMakeLists.txt builds it with CMake. Without CMake:
//
//     c++ -std=c++17 -o trainer trainer.cpp $(pkg-config --cflags --libs cep)
//     ./trainer output && cep summarize output
//
// The passes are plain CPU work, so that it runs anywhere. A trainer passes its cudaStream_t instead of nullptr.
#include <cep/cep.hpp>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t steps = 100;
constexpr std::int64_t checkpoint_every_n_steps = 50;

/// Fits y = 3 x + 2 by gradient descent.
class LineFit {
  public:
    LineFit() : inputs_(1000), targets_(1000) {
        std::iota(inputs_.begin(), inputs_.end(), -500.0);
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            inputs_[i] /= 500.0;
            targets_[i] = 3.0 * inputs_[i] + 2.0;
        }
    }

    double forward() {
        errors_.assign(inputs_.size(), 0.0);
        for (std::size_t i = 0; i < inputs_.size(); ++i) errors_[i] = slope_ * inputs_[i] + offset_ - targets_[i];
        return std::inner_product(errors_.begin(), errors_.end(), errors_.begin(), 0.0) / count();
    }

    void backward() {
        slope_gradient_ = std::inner_product(errors_.begin(), errors_.end(), inputs_.begin(), 0.0) / count();
        offset_gradient_ = std::accumulate(errors_.begin(), errors_.end(), 0.0) / count();
    }

    void update(double learning_rate) {
        slope_ -= learning_rate * slope_gradient_;
        offset_ -= learning_rate * offset_gradient_;
    }

  private:
    [[nodiscard]] double count() const { return static_cast<double>(inputs_.size()); }

    std::vector<double> inputs_, targets_, errors_;
    double slope_ = 0, offset_ = 0, slope_gradient_ = 0, offset_gradient_ = 0;
};

struct Phases {
    cep::Region training_step, forward, backward, all_reduce, optimizer, checkpoint;
};

Phases find_phases(cep::Profiler& profiler) {
    return {profiler.region("training_step"), profiler.region("forward"),
            profiler.region("backward"),      profiler.region("all_reduce", cep::Kind::comm),
            profiler.region("optimizer"),     profiler.region("save_checkpoint", cep::Kind::host)};
}

double train_step(const Phases& phases, LineFit& model, std::int64_t step) {
    const cep::Span whole = phases.training_step.begin();
    cep::Span span = phases.forward.begin();
    const double loss = model.forward();
    span.switch_to(phases.backward);  // one event ends forward and begins backward
    model.backward();
    span.end();
    {
        const cep::Attributes collective = cep::Attributes().collective("dp", step).bytes(2 * sizeof(double));
        const cep::Span reduction = phases.all_reduce.begin(nullptr, collective);
        // A job of one rank has nothing to reduce.
    }
    const cep::Span update = phases.optimizer.begin();
    model.update(0.5);
    return loss;
}

void train(cep::Profiler& profiler) {
    const Phases phases = find_phases(profiler);
    LineFit model;
    for (std::int64_t step = 0; step < steps; ++step) {
        profiler.step(step);
        profiler.counter("loss", train_step(phases, model, step));
        if (step % checkpoint_every_n_steps != 0) continue;
        profiler.mark("checkpoint", R"({"format":"sharded"})");
        const cep::Span span = phases.checkpoint.begin(CEP_HOST);
    }
}

/// If the profiler cannot be opened, the job trains without it.
cep::Profiler open_profiler(const std::string& output_dir) {
    try {
        cep::Options options;
        options.directory(output_dir + "/cuda_event_profiler").record_every_n_steps(5).meta(R"({"dp":0})");
        return cep::Profiler(options);
    } catch (const cep::Error& error) {
        std::cerr << "not profiled: " << error.what() << '\n';
        return {};
    }
}

}  // namespace

int main(int argc, char** argv) {
    cep::Profiler profiler = open_profiler(argc > 1 ? argv[1] : "output");
    train(profiler);
    try {
        if (!profiler.close()) std::cerr << "not everything was written within the timeout\n";
        std::cout << profiler.stats().written << " measurements written\n";
    } catch (const cep::Error& error) {
        std::cerr << "rows were lost: " << error.what() << '\n';
    }
    return 0;
}
