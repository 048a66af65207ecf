// SPDX-License-Identifier: Apache-2.0
//
// Rank trace: what the GPU of one rank did, added up.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel_rules.hpp"
#include "kernels/trace_reader.hpp"

namespace cep::kernels {

struct ClassTime {
    std::uint64_t count = 0;
    std::int64_t time_ns = 0;  // sum of durations, also of those beside each other
    void merge(const ClassTime& other);
};

/// Times of GPUs. Those of several GPUs are added.
struct GpuTime {
    std::uint64_t gpus = 0;
    std::int64_t window_ns = 0;
    std::int64_t busy_ns = 0;  // union over the streams of each GPU
    std::array<ClassTime, class_names.size()> classes{};
    std::int64_t comm_union_ns = 0;  // with at least one comm kernel
    std::int64_t overlap_ns = 0;     // of that, with a compute kernel beside it

    void merge(const GpuTime& other);
    [[nodiscard]] const ClassTime& of(KernelClass kernel_class) const {
        return classes[static_cast<std::size_t>(kernel_class)];
    }
    /// The time of all classes.
    [[nodiscard]] ClassTime all() const;
    /// All but comm.
    [[nodiscard]] std::int64_t own_work_ns() const { return all().time_ns - of(KernelClass::comm).time_ns; }
    [[nodiscard]] std::int64_t idle_ns() const { return window_ns - busy_ns; }
    [[nodiscard]] std::int64_t exposed_comm_ns() const { return comm_union_ns - overlap_ns; }
    /// Nothing without comm.
    [[nodiscard]] std::optional<double> overlap() const;
};

/// Kernels of one short name and class.
struct KernelTotal {
    std::string kind;
    std::uint64_t count = 0;
    std::int64_t total_ns = 0;
    std::int64_t min_ns = 0;
    std::int64_t max_ns = 0;
    std::int64_t bytes = 0;                          // of copies and fills
    std::map<std::string, std::int64_t> full_names;  // and the time of each

    void merge(const KernelTotal& other);
};
using KernelTotals = std::map<std::pair<std::string, KernelClass>, KernelTotal>;

struct TraceStep {
    std::int64_t step = 0;
    std::int64_t begin_ns = 0;     // as in the trace
    std::int64_t duration_ns = 0;  // to the next step's begin, or the window's end
    std::int64_t busy_ns = 0;
    std::int64_t own_work_ns = 0;  // of kernels that begin in it, all but comm
    std::int64_t comm_ns = 0;
};

/// How the rank of a trace is known.
enum class RankSource : std::uint8_t { trace, name, order };

struct RankTrace {
    std::int64_t rank = 0;
    RankSource rank_source = RankSource::order;
    std::optional<std::int64_t> world_size;
    std::vector<std::string> paths;
    std::int64_t window_begin_ns = 0;  // UNIX time where the trace says it
    std::int64_t window_end_ns = 0;
    GpuTime time;
    KernelTotals kernels;
    std::vector<TraceStep> steps;
    std::map<std::int64_t, std::string> devices;  // device and its name, "" where the trace does not say it

    void merge(const RankTrace& other);
};

/// Adds up one trace. Its rank is what the trace or its name says, else 0.
[[nodiscard]] RankTrace analyze(const TraceData& data);

}  // namespace cep::kernels
