// SPDX-License-Identifier: Apache-2.0
#include "kernels/rank_trace.hpp"

#include <algorithm>
#include <iterator>
#include <span>

#include "stats/interval_set.hpp"

namespace cep::kernels {
namespace {

using tool::Interval;
using tool::Intervals;

/// A trace with its kernels classified and its events in order.
class TraceAnalysis {
  public:
    explicit TraceAnalysis(const TraceData& data) : data_(data), order_(data.events) {
        std::sort(order_.begin(), order_.end(), [](const TimedKernel& a, const TimedKernel& b) {
            return a.device != b.device ? a.device < b.device : a.start_ns < b.start_ns;
        });
        for (const KernelId& kernel : data.kernels) types_.push_back(classify(kernel.activity, kernel.name));
    }

    RankTrace run() {
        result_.paths = {data_.path};
        find_rank();
        result_.world_size = data_.facts.world_size;
        if (order_.empty()) return result_;
        find_steps();
        find_window();
        busy_.resize(data_.devices.size());
        for (auto begin = order_.begin(); begin != order_.end();) {
            const auto end =
                std::find_if(begin, order_.end(), [&](auto& event) { return event.device != begin->device; });
            add_device(begin->device, {begin, end});
            begin = end;
        }
        count_kernels();
        measure_steps();
        return result_;
    }

  private:
    void find_rank() {
        const auto named = rank_of_trace_name(data_.path);
        if (data_.facts.rank) {
            result_.rank = *data_.facts.rank;
            result_.rank_source = RankSource::trace;
        } else if (named) {
            result_.rank = *named;
            result_.rank_source = RankSource::name;
        }
    }

    // A GPU's own annotation says when a step began there; the host's when it was sent.
    void find_steps() {
        const bool any_on_gpu = std::any_of(data_.steps.begin(), data_.steps.end(), [](auto& s) { return s.on_gpu; });
        std::map<std::int64_t, std::int64_t> begins_ns;
        for (const StepEvent& step : data_.steps) {
            if (step.on_gpu != any_on_gpu) continue;
            const auto [begin, added] = begins_ns.try_emplace(step.step, step.start_ns);
            begin->second = std::min(begin->second, step.start_ns);
        }
        for (const auto& [step, begin_ns] : begins_ns) result_.steps.push_back({step, begin_ns, 0, 0});
        std::sort(result_.steps.begin(), result_.steps.end(),
                  [](const TraceStep& a, const TraceStep& b) { return a.begin_ns < b.begin_ns; });
    }

    // From the first to the last GPU event, widened to the steps as the host had them.
    void find_window() {
        window_ = {order_.front().start_ns, order_.front().end_ns()};
        const auto widen = [this](std::int64_t begin_ns, std::int64_t end_ns) {
            window_ = {std::min(window_.begin_ns, begin_ns), std::max(window_.end_ns, end_ns)};
        };
        for (const TimedKernel& event : order_) widen(event.start_ns, event.end_ns());
        for (const StepEvent& step : data_.steps) widen(step.start_ns, step.start_ns + step.duration_ns);
        result_.window_begin_ns = data_.facts.base_ns + window_.begin_ns;
        result_.window_end_ns = data_.facts.base_ns + window_.end_ns;
    }

    // Bytes moved by a copy engine are no compute that could hide communication; kernels that copy take the place of
    // others.
    [[nodiscard]] bool is_compute(const TimedKernel& event) const {
        return data_.kernels[event.kernel].activity == Activity::kernel &&
               types_[event.kernel].kernel_class != KernelClass::comm;
    }

    void add_device(std::uint32_t device, std::span<const TimedKernel> events) {
        GpuTime time;
        Intervals comm;
        Intervals compute;
        for (const TimedKernel& event : events) {
            const Interval interval{event.start_ns, event.end_ns()};
            const KernelType& type = types_[event.kernel];
            tool::append(busy_[device], interval);
            if (type.kernel_class == KernelClass::comm) tool::append(comm, interval);
            if (is_compute(event)) tool::append(compute, interval);
            time.classes[static_cast<std::size_t>(type.kernel_class)].merge({1, event.duration_ns});
        }
        time.gpus = 1;
        time.window_ns = window_.end_ns - window_.begin_ns;
        time.busy_ns = tool::length_ns(busy_[device]);
        time.comm_union_ns = tool::length_ns(comm);
        time.overlap_ns = tool::shared_ns(comm, compute);
        result_.time.merge(time);
        const std::int64_t id = data_.devices[device].device;
        const auto name = data_.facts.device_names.find(id);
        result_.devices[id] = name != data_.facts.device_names.end() ? name->second : "";
    }

    void count_kernels() {
        std::vector<KernelTotal> totals(data_.kernels.size());
        for (const TimedKernel& event : order_) {
            KernelTotal one;
            one.count = 1;
            one.total_ns = one.min_ns = one.max_ns = event.duration_ns;
            totals[event.kernel].merge(one);
        }
        for (std::size_t i = 0; i < totals.size(); ++i) {
            totals[i].kind = types_[i].kind;
            totals[i].bytes = data_.kernels[i].bytes;
            totals[i].full_names[data_.kernels[i].name] = totals[i].total_ns;
            result_.kernels[{types_[i].short_name, types_[i].kernel_class}].merge(totals[i]);
        }
    }

    void measure_steps() {
        std::vector<TraceStep>& steps = result_.steps;
        for (std::size_t i = 0; i < steps.size(); ++i) {
            const Interval interval{steps[i].begin_ns, i + 1 < steps.size() ? steps[i + 1].begin_ns : window_.end_ns};
            steps[i].duration_ns = interval.end_ns - interval.begin_ns;
            for (const Intervals& device : busy_) steps[i].busy_ns += tool::length_within_ns(device, interval);
        }
        for (const TimedKernel& event : order_) {
            const auto next =
                std::upper_bound(steps.begin(), steps.end(), event.start_ns,
                                 [](std::int64_t at_ns, const TraceStep& step) { return at_ns < step.begin_ns; });
            if (next == steps.begin()) continue;
            TraceStep& step = *std::prev(next);
            const bool is_comm = types_[event.kernel].kernel_class == KernelClass::comm;
            add_ns(is_comm ? step.comm_ns : step.own_work_ns, event.duration_ns);
        }
    }

    const TraceData& data_;
    std::vector<TimedKernel> order_;
    std::vector<KernelType> types_;
    std::vector<Intervals> busy_;  // of each device
    Interval window_;
    RankTrace result_;
};

}  // namespace

void ClassTime::merge(const ClassTime& other) {
    count += other.count;
    add_ns(time_ns, other.time_ns);
}

void GpuTime::merge(const GpuTime& other) {
    gpus += other.gpus;
    add_ns(window_ns, other.window_ns);
    add_ns(busy_ns, other.busy_ns);
    for (std::size_t i = 0; i < classes.size(); ++i) classes[i].merge(other.classes[i]);
    add_ns(comm_union_ns, other.comm_union_ns);
    add_ns(overlap_ns, other.overlap_ns);
}

ClassTime GpuTime::all() const {
    ClassTime all;
    for (const ClassTime& one : classes) all.merge(one);
    return all;
}

std::optional<double> GpuTime::overlap() const {
    if (comm_union_ns == 0) return std::nullopt;
    return static_cast<double>(overlap_ns) / static_cast<double>(comm_union_ns);
}

void KernelTotal::merge(const KernelTotal& other) {
    if (other.count == 0) return;
    min_ns = count == 0 ? other.min_ns : std::min(min_ns, other.min_ns);
    max_ns = std::max(max_ns, other.max_ns);
    if (kind.empty()) kind = other.kind;
    count += other.count;
    add_ns(total_ns, other.total_ns);
    add_ns(bytes, other.bytes);
    for (const auto& [name, time_ns] : other.full_names) add_ns(full_names[name], time_ns);
}

// Adds another window of the same rank: the GPUs are the same, their times follow each other.
void RankTrace::merge(const RankTrace& other) {
    const std::uint64_t gpus = std::max(time.gpus, other.time.gpus);
    time.merge(other.time);
    time.gpus = gpus;
    paths.insert(paths.end(), other.paths.begin(), other.paths.end());
    window_begin_ns = std::min(window_begin_ns, other.window_begin_ns);
    window_end_ns = std::max(window_end_ns, other.window_end_ns);
    for (const auto& [name, total] : other.kernels) kernels[name].merge(total);
    steps.insert(steps.end(), other.steps.begin(), other.steps.end());
    devices.insert(other.devices.begin(), other.devices.end());
    if (!world_size) world_size = other.world_size;
}

RankTrace analyze(const TraceData& data) {
    return TraceAnalysis(data).run();
}

}  // namespace cep::kernels
