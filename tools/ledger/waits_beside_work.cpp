// SPDX-License-Identifier: Apache-2.0
#include "ledger/waits_beside_work.hpp"

#include <algorithm>

#include "ledger/step_reading.hpp"

namespace cep::tool {

void WaitsBesideWork::clear() {
    streams_.clear();
    late_.clear();
}

void WaitsBesideWork::add(const CommBesideWork& comm) {
    const std::size_t index = index_of(comm.stream);
    Stream& stream = streams_[index];
    const bool is_late = comm.interval.begin_ns - stream.end_ns <= tolerance_ns;
    const std::int64_t host_ns = comm.launch_ns ? *comm.launch_ns - stream.launch_ns : 0;
    stream.end_ns = comm.interval.end_ns;
    stream.launch_ns = comm.launch_ns.value_or(comm.interval.begin_ns);
    stream.ends_phase |= comm.is_at_end;
    stream.all.add(comm.waiting_ns, is_late);
    if (comm.is_for_late) stream.for_late.add(comm.waiting_ns, is_late);
    if (is_late) late_.push_back({index, comm.waiting_ns, comm.interval.length_ns(), host_ns, comm.is_for_late});
}

std::size_t WaitsBesideWork::index_of(std::uint32_t stream) {
    const auto found =
        std::find_if(streams_.begin(), streams_.end(), [&](const Stream& one) { return one.number == stream; });
    if (found != streams_.end()) return static_cast<std::size_t>(found - streams_.begin());
    streams_.push_back({.number = stream});
    return streams_.size() - 1;
}

WaitsBesideWork::Sum WaitsBesideWork::until(std::int64_t phase_end_ns) const {
    Sum most;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
        const Sum sum = on_stream(i, phase_end_ns);
        most.ns = std::max(most.ns, sum.ns);
        most.for_late_ns = std::max(most.for_late_ns, sum.for_late_ns);
        most.hidden_ns = std::max(most.hidden_ns, sum.hidden_ns);
    }
    return most;
}

WaitsBesideWork::Sum WaitsBesideWork::on_stream(std::size_t stream, std::int64_t phase_end_ns) const {
    const Stream& of = streams_[stream];
    const std::int64_t ns = of.all.waiting_ns(of.ends_phase);
    const std::int64_t for_late_ns = of.for_late.waiting_ns(of.ends_phase);
    if (of.ends_phase) return {ns, for_late_ns, ns};
    const Sum held = held_up(stream, phase_end_ns - of.end_ns);
    return {ns, std::max(for_late_ns, held.for_late_ns), held.hidden_ns};
}

// Of the work behind the last of them, the phase did as much between two of which one began when the other ended, and
// waited for the rest.
WaitsBesideWork::Sum WaitsBesideWork::held_up(std::size_t stream, std::int64_t behind_ns) const {
    Sum sum;
    for (const Late& one : late_) {
        if (one.stream != stream) continue;
        const std::int64_t ns =
            std::clamp<std::int64_t>(one.duration_ns - std::max(behind_ns, one.host_ns), 0, one.waiting_ns);
        sum.hidden_ns += ns;
        if (one.is_for_late) sum.for_late_ns += ns;
    }
    return sum;
}

void WaitsBesideWork::Queue::add(std::int64_t waiting_ns, bool is_late) {
    const std::int64_t more_ns = std::max<std::int64_t>(0, waiting_ns - last_ns_);
    new_ns_ += more_ns;
    last_ns_ = waiting_ns;
    if (is_late) {
        ++late_;
        late_ns_ += more_ns;
    } else if (++timely_ > 1) {
        timely_ns_ += more_ns;
    }
}

std::int64_t WaitsBesideWork::Queue::waiting_ns(bool ends_phase) const {
    if (!ends_phase || timely_ < 2) return new_ns_;
    return new_ns_ + std::max<std::int64_t>(0, late_ * timely_ns_ / (timely_ - 1) - late_ns_);
}

}  // namespace cep::tool
