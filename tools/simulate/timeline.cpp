// SPDX-License-Identifier: Apache-2.0
#include "simulate/timeline.hpp"

#include <algorithm>
#include <utility>

namespace cep::simulation {

std::vector<PipelineTask> stage_tasks(std::size_t stage, std::size_t stages, std::size_t micro_batches) {
    const std::size_t warmup = std::min(stages - 1 - stage, micro_batches);
    std::vector<PipelineTask> tasks;
    for (std::size_t i = 0; i < warmup; ++i) tasks.push_back({stage, i, false});
    for (std::size_t i = warmup; i < micro_batches; ++i) {
        tasks.push_back({stage, i, false});
        tasks.push_back({stage, i - warmup, true});
    }
    for (std::size_t i = micro_batches - warmup; i < micro_batches; ++i) tasks.push_back({stage, i, true});
    return tasks;
}

std::vector<PipelineTask> pipeline_tasks(std::size_t stages, std::size_t micro_batches) {
    std::vector<std::vector<PipelineTask>> of_stages;
    for (std::size_t stage = 0; stage < stages; ++stage) of_stages.push_back(stage_tasks(stage, stages, micro_batches));
    std::vector<std::size_t> next(stages);
    std::vector<std::size_t> forwards(stages);  // done
    std::vector<std::size_t> backwards(stages);
    const auto is_ready = [&](const PipelineTask& task) {
        if (task.backward) return task.stage + 1 == stages || backwards[task.stage + 1] > task.micro_batch;
        return task.stage == 0 || forwards[task.stage - 1] > task.micro_batch;
    };
    std::vector<PipelineTask> tasks;
    while (tasks.size() < 2 * stages * micro_batches)
        for (std::size_t stage = 0; stage < stages; ++stage)
            while (next[stage] < of_stages[stage].size() && is_ready(of_stages[stage][next[stage]])) {
                tasks.push_back(of_stages[stage][next[stage]++]);
                ++(tasks.back().backward ? backwards : forwards)[stage];
            }
    return tasks;
}

namespace {

// From a launch by the host to the start on an idle device.
constexpr std::int64_t launch_latency_ns = 5'000;

enum StreamNumber : std::uint8_t { compute_stream = 1, comm_stream = 2, forth_stream = 3, back_stream = 4 };

std::int64_t share_of(std::int64_t total, std::int64_t index, std::int64_t count) {
    return total * (index + 1) / count - total * index / count;
}

}  // namespace

std::int64_t bytes_of_mb(double size_mb) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(size_mb * 1e6));
}

std::vector<std::int64_t> bucket_sizes_bytes(const Job& job) {
    const double units = static_cast<double>(job.buckets * (job.buckets + 1)) / 2.0;
    std::vector<std::int64_t> sizes;
    for (std::int64_t i = 1; i <= job.buckets; ++i)
        sizes.push_back(bytes_of_mb(job.gradient_mb * static_cast<double>(i) / units));
    return sizes;
}

bool happens(const Event& event, std::int64_t step, std::int64_t start_step) {
    if (event.type == EventType::slowdown_all || step < *event.step || step > *event.last_step) return false;
    if (!event.every_steps) return step == *event.step;
    return (step - start_step + 1) % *event.every_steps == 0;
}

Timeline::Timeline(const Job& job, const Layout& layout, std::vector<bool> active_faults)
    : job_(job),
      layout_(layout),
      links_(job),
      random_(job.seed),
      work_(job, layout, std::move(active_faults)),
      tasks_(pipeline_tasks(layout.pp, static_cast<std::size_t>(job.micro_batches))),
      launch_ns_(static_cast<std::int64_t>(job.launch_ms * ns_per_ms)),
      activation_bytes_(bytes_of_mb(job.activation_mb)),
      bucket_bytes_(bucket_sizes_bytes(job)),
      states_(layout.ranks),
      send_ready_ns_(layout.pp * 2 * static_cast<std::size_t>(job.micro_batches) * layout.tp),
      arrivals_ns_(layout.dp) {}

std::int64_t Timeline::now_ns() const {
    const auto last = std::max_element(states_.begin(), states_.end(),
                                       [](const RankState& a, const RankState& b) { return a.now_ns < b.now_ns; });
    return last->now_ns;
}

void Timeline::advance(std::int64_t step, Items* items) {
    step_ = step;
    step_index_ = step - job_.start_step;
    items_ = items;
    work_.begin_step(step);
    for (std::size_t rank = 0; rank < layout_.ranks; ++rank) begin_step(rank);
    for (std::size_t dp = 0; dp < layout_.dp; ++dp)
        for (const PipelineTask& task : tasks_) run_task(task, dp);
    for (std::size_t pp = 0; layout_.dp > 1 && pp < layout_.pp; ++pp)
        for (std::size_t tp = 0; tp < layout_.tp; ++tp) reduce_gradients(tp, pp);
    for (std::size_t rank = 0; rank < layout_.ranks; ++rank) end_step(rank);
}

Item* Timeline::add(std::size_t rank, Name name, std::int64_t start_ns, std::int64_t duration_ns) {
    const std::uint32_t seq = states_[rank].seq[static_cast<std::size_t>(name)]++;
    if (items_ == nullptr) return nullptr;
    Item& item = (*items_)[rank].emplace_back();
    item.step = step_;
    item.start_ns = start_ns;
    item.duration_ns = duration_ns;
    item.seq = seq;
    item.name = name;
    return &item;
}

void Timeline::begin_step(std::size_t rank) {
    RankState& state = states_[rank];
    state.seq.fill(0);
    state.step_begin_ns = state.now_ns;
    const std::int64_t load_ns = work_.own_ns(rank, Phase::data_load);
    if (Item* item = add(rank, Name::data_load, state.now_ns, load_ns)) item->host_ns = load_ns;
    state.now_ns += load_ns;
    state.host_ns = state.now_ns;
    run_phase(rank, Phase::host_to_device);
}

Timeline::Opened Timeline::open(std::size_t rank) {
    RankState& state = states_[rank];
    const std::int64_t host_begin_ns = state.host_ns;
    state.host_ns += launch_ns_;
    state.now_ns = std::max(state.now_ns, host_begin_ns + launch_latency_ns);
    return {state.now_ns, host_begin_ns};
}

void Timeline::close(std::size_t rank, const Opened& opened, Name name) {
    RankState& state = states_[rank];
    // What the host has not launched cannot have ended.
    state.now_ns = std::max(state.now_ns, opened.host_begin_ns + launch_ns_ + launch_latency_ns);
    Item* const item = add(rank, name, opened.begin_ns, state.now_ns - opened.begin_ns);
    if (item == nullptr) return;
    item->host_ns = launch_ns_;
    item->lag_ns = opened.begin_ns - opened.host_begin_ns;
    item->stream = compute_stream;
}

void Timeline::run_phase(std::size_t rank, Phase phase) {
    const Opened opened = open(rank);
    states_[rank].now_ns += work_.own_ns(rank, phase);
    close(rank, opened, static_cast<Name>(phase));
}

void Timeline::end_step(std::size_t rank) {
    run_phase(rank, Phase::optimizer);
    for (const Event& event : job_.events)
        if (happens(event, step_, job_.start_step)) run_event(rank, event);
    RankState& state = states_[rank];
    const std::int64_t duration_ns = state.now_ns - state.step_begin_ns;
    state.host_ns = state.now_ns;  // the loop reads the loss, and so waits for the device
    if (Item* item = add(rank, Name::training_step, state.step_begin_ns, duration_ns)) {
        item->host_ns = duration_ns + launch_latency_ns;
        item->lag_ns = launch_latency_ns;
        item->depth = 0;
    }
    if (items_ != nullptr) count_memory(rank);
}

void Timeline::run_event(std::size_t rank, const Event& event) {
    RankState& state = states_[rank];
    const bool is_checkpoint = event.type == EventType::checkpoint;
    add(rank, is_checkpoint ? Name::mark_checkpoint : Name::mark_evaluation, state.now_ns, 0);
    const double noise =
        job_.noise * random_.normal(Stream::event, rank, static_cast<std::uint64_t>(step_), is_checkpoint ? 0 : 1);
    const auto duration_ns = static_cast<std::int64_t>(*event.duration_ms * ns_per_ms * exponential(noise) + 0.5);
    if (is_checkpoint) {
        if (Item* item = add(rank, Name::save_checkpoint, state.now_ns, duration_ns)) item->host_ns = duration_ns;
        state.now_ns += duration_ns;
        state.host_ns = state.now_ns;
        return;
    }
    const Opened opened = open(rank);
    state.now_ns += duration_ns;
    close(rank, opened, Name::evaluation);
}

void Timeline::count_memory(std::size_t rank) {
    constexpr std::int64_t every_recorded_steps = 10;
    constexpr double allocated_bytes = 56e9;
    constexpr std::int64_t reserved_bytes = 62'000'000'000;
    if (step_index_ / job_.record_every % every_recorded_steps != 0) return;
    const std::int64_t now_ns = states_[rank].now_ns;
    const double deviation = 0.002 * random_.normal(Stream::memory, rank, static_cast<std::uint64_t>(step_));
    add(rank, Name::memory_allocated, now_ns, 0)->value =
        static_cast<std::int64_t>(allocated_bytes * (1.0 + deviation));
    add(rank, Name::memory_reserved, now_ns, 0)->value = reserved_bytes;
}

void Timeline::add_comm(std::size_t rank, Name name, std::int64_t start_ns, std::int64_t end_ns,
                        const Collective& collective, std::uint8_t depth, std::uint8_t stream) {
    if (job_.hidden_collectives) return;
    const RankState& state = states_[rank];
    Item* const item = add(rank, name, start_ns, end_ns - start_ns);
    if (item == nullptr) return;
    // A collective is launched well before its turn, or as soon as it is ready.
    item->lag_ns = std::max(launch_latency_ns, start_ns - state.host_ns);
    item->host_ns = launch_ns_ / 8;
    item->value = collective.bytes;
    item->group = static_cast<std::uint32_t>(collective.group);
    item->coll = collective.coll;
    item->depth = depth;
    item->stream = stream;
}

// Pipelines and tensor-parallel groups.

bool Timeline::receives(const PipelineTask& task) const {
    return task.backward ? task.stage + 1 < layout_.pp : task.stage > 0;
}

bool Timeline::sends(const PipelineTask& task) const {
    return task.backward ? task.stage > 0 : task.stage + 1 < layout_.pp;
}

std::int64_t& Timeline::send_ready_ns(const PipelineTask& task, std::size_t tp) {
    const auto micro_batches = static_cast<std::size_t>(job_.micro_batches);
    return send_ready_ns_[((task.stage * 2 + (task.backward ? 1 : 0)) * micro_batches + task.micro_batch) * layout_.tp +
                          tp];
}

void Timeline::run_task(const PipelineTask& task, std::size_t dp) {
    const bool waits_outside = receives(task) && !job_.hidden_collectives;
    for (std::size_t tp = 0; waits_outside && tp < layout_.tp; ++tp)
        receive(task, layout_.rank_of({tp, dp, task.stage}));
    run_pieces(task, dp);
    for (std::size_t tp = 0; tp < layout_.tp; ++tp)
        if (sends(task)) send_ready_ns(task, tp) = states_[layout_.rank_of({tp, dp, task.stage})].now_ns;
}

// The sender's stream for sending waits for the receiver; its compute stream does not.
void Timeline::receive(const PipelineTask& task, std::size_t rank) {
    const Coordinates at = layout_.coordinates_of(rank);
    const PipelineTask sent{task.backward ? task.stage + 1 : task.stage - 1, task.micro_batch, task.backward};
    const std::size_t sender = layout_.rank_of({at.tp, at.dp, sent.stage});
    const std::size_t group = layout_.pp_group(layout_.coordinates_of(std::min(rank, sender)));
    const std::int64_t coll =
        (2 * step_index_ + (task.backward ? 1 : 0)) * job_.micro_batches + static_cast<std::int64_t>(task.micro_batch);
    const Collective collective{group, coll, activation_bytes_};
    std::int64_t& send_end_ns = states_[sender].send_end_ns[task.backward ? 1 : 0];
    const std::int64_t send_ns = std::max(send_ready_ns(sent, at.tp), send_end_ns);
    const std::int64_t receive_ns = states_[rank].now_ns;
    const std::int64_t end_ns =
        std::max(send_ns, receive_ns) + links_.duration_ns(links_.send(), activation_bytes_, group, coll);
    add_comm(sender, Name::send, send_ns, end_ns, collective, 1, task.backward ? back_stream : forth_stream);
    add_comm(rank, Name::recv, receive_ns, end_ns, collective, 1, comm_stream);
    states_[rank].now_ns = end_ns;
    send_end_ns = end_ns;
}

// A forward or a backward of the tensor-parallel ranks of one stage, in pieces that each end in a collective.
void Timeline::run_pieces(const PipelineTask& task, std::size_t dp) {
    const Phase phase = task.backward ? Phase::backward : Phase::forward;
    const std::size_t first = layout_.rank_of({0, dp, task.stage});
    const std::int64_t pieces = layout_.tp > 1 ? job_.tp_collectives : 1;
    std::vector<Opened> opened;
    opened.reserve(layout_.tp);
    for (std::size_t rank = first; rank < first + layout_.tp; ++rank) {
        opened.push_back(open(rank));
        if (job_.hidden_collectives && receives(task)) receive(task, rank);
    }
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
        for (std::size_t rank = first; rank < first + layout_.tp; ++rank) {
            const std::int64_t task_ns =
                share_of(work_.own_ns(rank, phase), static_cast<std::int64_t>(task.micro_batch), job_.micro_batches);
            states_[rank].now_ns += share_of(task_ns, piece, pieces);
        }
        if (layout_.tp > 1) reduce_tensors(task, dp, piece);
    }
    for (std::size_t rank = first; rank < first + layout_.tp; ++rank) {
        RankState& state = states_[rank];
        close(rank, opened[rank - first], static_cast<Name>(phase));
        state.backward_begin_ns = opened[rank - first].begin_ns;
        state.backward_end_ns = state.now_ns;
        if (items_ != nullptr) state.backward_item = (*items_)[rank].size() - 1;
    }
}

void Timeline::reduce_tensors(const PipelineTask& task, std::size_t dp, std::int64_t piece) {
    const Coordinates at{0, dp, task.stage};
    const std::size_t first = layout_.rank_of(at);
    std::int64_t last_ns = 0;
    for (std::size_t rank = first; rank < first + layout_.tp; ++rank) last_ns = std::max(last_ns, states_[rank].now_ns);
    const std::int64_t index =
        (step_index_ * 2 + (task.backward ? 1 : 0)) * job_.micro_batches + static_cast<std::int64_t>(task.micro_batch);
    const Collective collective{layout_.tp_group(at), index * job_.tp_collectives + piece, activation_bytes_};
    const std::int64_t end_ns = last_ns + links_.duration_ns(links_.all_reduce(layout_.tp), activation_bytes_,
                                                             collective.group, collective.coll);
    for (std::size_t rank = first; rank < first + layout_.tp; ++rank) {
        add_comm(rank, Name::all_reduce, states_[rank].now_ns, end_ns, collective, 2, compute_stream);
        states_[rank].now_ns = end_ns;
    }
}

// Data-parallel groups.

std::int64_t Timeline::bucket_ready_ns(const RankState& state, std::size_t bucket) const {
    const double left = job_.overlap * static_cast<double>(bucket_bytes_.size() - bucket - 1) /
                        static_cast<double>(bucket_bytes_.size());
    const std::int64_t length_ns = state.backward_end_ns - state.backward_begin_ns;
    return state.backward_end_ns - static_cast<std::int64_t>(left * static_cast<double>(length_ns));
}

void Timeline::reduce_gradients(std::size_t tp, std::size_t pp) {
    std::int64_t bucket_free_ns = 0;
    for (std::size_t bucket = 0; bucket < bucket_bytes_.size(); ++bucket) {
        reduce_bucket({tp, 0, pp}, bucket, bucket_free_ns);
        bucket_free_ns = arrivals_ns_.front();
    }
    for (std::size_t dp = 0; dp < layout_.dp; ++dp) {
        const std::size_t rank = layout_.rank_of({tp, dp, pp});
        states_[rank].now_ns = std::max(states_[rank].now_ns, bucket_free_ns);
        if (job_.hidden_collectives) extend_backward(rank);
    }
}

/// Leaves the end of the collective in arrivals_ns_.
void Timeline::reduce_bucket(Coordinates at, std::size_t bucket, std::int64_t bucket_free_ns) {
    const std::int64_t bytes = bucket_bytes_[bucket];
    const Collective collective{layout_.dp_group(at), step_index_ * job_.buckets + static_cast<std::int64_t>(bucket),
                                bytes};
    for (std::size_t dp = 0; dp < layout_.dp; ++dp)
        arrivals_ns_[dp] =
            std::max(bucket_free_ns, bucket_ready_ns(states_[layout_.rank_of({at.tp, dp, at.pp})], bucket));
    const std::int64_t end_ns =
        *std::max_element(arrivals_ns_.begin(), arrivals_ns_.end()) +
        links_.duration_ns(links_.all_reduce(layout_.dp), bytes, collective.group, collective.coll);
    for (std::size_t dp = 0; dp < layout_.dp; ++dp) {
        const std::size_t rank = layout_.rank_of({at.tp, dp, at.pp});
        add_comm(rank, Name::all_reduce, arrivals_ns_[dp], end_ns, collective, 1, comm_stream);
        arrivals_ns_[dp] = end_ns;
    }
}

void Timeline::extend_backward(std::size_t rank) {
    if (items_ == nullptr) return;
    const RankState& state = states_[rank];
    Item& backward = (*items_)[rank][state.backward_item];
    backward.duration_ns = state.now_ns - backward.start_ns;
}

}  // namespace cep::simulation
