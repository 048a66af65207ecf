// SPDX-License-Identifier: Apache-2.0
#include "estimate/estimate.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/units.hpp"
#include "comm/comm_report.hpp"
#include "matching/operation.hpp"
#include "replay/job_replay.hpp"

namespace cep::estimate {
namespace {

using namespace tool;
using comm::CommModel;
using comm::TransferFit;

constexpr double most_of = 0.5;  // of the rows of a name: the last bucket may begin when backward is over

constexpr double tried_megabytes[] = {1, 2, 5, 10, 25, 50, 100, 200};

/// What is reduced in a step.
struct Gradients {
    double bytes = 0;
    double backward_ms = 0;
    std::function<double(double bytes)> transfer_ms;
};

/// Gradients become ready at a constant rate over backward; buckets are reduced one after the other, each when it is
/// full and the one before is done. The last of the transfers ends when those that wait for a bucket, the first or one
/// of the last two, are done: between them both grow linearly.
BucketSize try_bucket_size(const Gradients& gradients, double megabytes) {
    const double backward_ms = gradients.backward_ms;
    const double capacity = std::min(megabytes * 1048576, gradients.bytes);
    const double buckets = std::ceil(gradients.bytes / capacity);
    const double full_ms = gradients.transfer_ms(capacity);
    const double last_ms = gradients.transfer_ms(gradients.bytes - (buckets - 1) * capacity);
    const double all_ms = (buckets - 1) * full_ms + last_ms;
    const double fill_ms = backward_ms * capacity / gradients.bytes;
    const double before_last_ms = buckets > 1 ? (buckets - 1) * fill_ms + full_ms + last_ms : 0;
    const double end_ms = std::max({fill_ms + all_ms, before_last_ms, backward_ms + last_ms});
    return {megabytes, buckets, all_ms, end_ms - backward_ms};
}

bool is_backward(const NamedPhase& phase) {
    return phase.kind == schema::Kind::compute && phase.name.find("backward") != std::string_view::npos;
}

/// Work that grows with the samples of a rank.
bool grows_with_samples(const NamedPhase& phase) {
    const bool is_work =
        phase.kind == schema::Kind::compute || phase.kind == schema::Kind::data || phase.kind == schema::Kind::memory;
    return is_work && phase.name.find("optim") == std::string_view::npos &&
           phase.name.find("zero_grad") == std::string_view::npos;
}

bool has_latency(const CommModel& model) {
    return model.fit && model.fit->beta_gb_per_s;
}

/// Without a fit: as the bytes.
double time_of(const CommModel& model, double bytes, const TransferFit::Factors& factors) {
    if (has_latency(model)) return model.fit->time_ms(bytes, factors);
    return bytes * factors.byte / 1e6 / model.paid_gb_per_s.value_or(1);
}

/// How much longer the collectives of a job would take with other links and numbers of ranks.
class Transfers {
  public:
    Transfers(const Job& job, std::uint64_t ranks)
        : ranks_(ranks), report_(comm::make_report(job, comm::CommOptions{})) {}

    using Growth = std::function<TransferFit::Factors(const CommModel&)>;

    /// The time of the collectives of a name over what it was. 1 where nothing is known of them.
    [[nodiscard]] double times_as_long(std::string_view name, const Growth& growth) const {
        double now_ms = 0;
        double then_ms = 0;
        for (const CommModel& model : report_.models) {
            if (!has_name(model, name)) continue;
            const TransferFit::Factors factors = model.is_launch ? TransferFit::Factors{} : growth(model);
            for (const comm::SizeReport& size : model.sizes) {
                const auto bytes = static_cast<double>(size.point.bytes);
                const auto count = static_cast<double>(size.point.collectives * model.one_in);
                now_ms += count * time_of(model, bytes, {});
                then_ms += count * time_of(model, bytes, factors);
            }
        }
        return now_ms > 0 ? then_ms / now_ms : 1;
    }

    /// With another number of ranks in the job: data-parallel groups grow or shrink with it, others stay.
    [[nodiscard]] TransferFit::Factors growth_with_ranks(const CommModel& model, std::uint64_t ranks) const {
        if (!is_data_parallel(model)) return {};
        return model.growth_in_ring(std::max<std::uint64_t>(1, model.ranks * ranks / ranks_))
            .value_or(TransferFit::Factors{});
    }

    [[nodiscard]] bool is_data_parallel(const CommModel& model) const {
        return model.ranks == ranks_ || model.group == "dp";
    }

    [[nodiscard]] bool is_data_parallel(std::string_view name) const {
        return std::any_of(report_.models.begin(), report_.models.end(),
                           [&](const CommModel& model) { return has_name(model, name) && is_data_parallel(model); });
    }

    /// The collectives of a name, if they are of one group of all ranks.
    [[nodiscard]] const CommModel* find_of_all(std::string_view name) const {
        const CommModel* found = nullptr;
        for (const CommModel& model : report_.models) {
            if (!has_name(model, name)) continue;
            if (found != nullptr || model.ranks != ranks_ || model.groups != 1 || model.is_launch ||
                model.sizes.empty())
                return nullptr;
            found = &model;
        }
        return found;
    }

    /// Those of which latency and bandwidth are not known apart; nullptr for none.
    [[nodiscard]] const CommModel* find_unfitted() const {
        const auto found = std::find_if(report_.models.begin(), report_.models.end(), [](const CommModel& model) {
            return !model.sizes.empty() && !has_latency(model);
        });
        return found == report_.models.end() ? nullptr : &*found;
    }

  private:
    [[nodiscard]] static bool has_name(const CommModel& model, std::string_view name) {
        const Operation operation = operation_of_name(name);
        return model.operation == operation && (operation != Operation::other || model.name == name);
    }

    std::uint64_t ranks_;
    comm::CommReport report_;
};

class Pricer {
  public:
    Pricer(const Job& job, std::size_t threads, std::span<const std::int64_t> left_out)
        : replay_(job, threads, left_out),
          ranks_(std::max<std::uint64_t>(1, job.coverage.ranks_expected.value_or(job.coverage.ranks_seen))),
          transfers_(job, ranks_) {}

    WhatIf price(std::vector<std::uint64_t> worlds) {
        const Replay& facts = replay_.facts();
        result_.reason = facts.reason;
        result_.step_ms = facts.observed_ms;
        result_.error = facts.error;
        if (facts.is_possible && !facts.is_usable())
            result_.reason = fmt::format("the replay does not give the steps that were observed ({} off, {} matched)",
                                         format_percent(std::abs(facts.error)), format_percent(facts.matched));
        if (!result_.reason.empty()) return std::move(result_);
        if (worlds.empty()) worlds = {ranks_ / 2, 2 * ranks_, 4 * ranks_, 8 * ranks_};
        find_buckets();
        add_changes(worlds);
        add_bucket_sizes();
        price();
        add_micro_batches();
        add_notes();
        return std::move(result_);
    }

  private:
    using Factors = std::vector<float>;  // by phase: how many times as long

    /// All-reduces of one name that begin in backward.
    struct Buckets {
        std::uint16_t name = 0;
        double in_step = 0;
        double busy_ms = 0;      // of a step: any of them was under way on all ranks
        double backward_ms = 0;  // until the last of them is ready, without waiting for the link
        double megabytes = 0;
        const CommModel* model = nullptr;
        Gradients gradients{};
    };

    [[nodiscard]] const NamedPhase& phase_of(std::uint32_t key) const {
        return replay_.rows().names()[replay_.model().keys[key].name];
    }
    template <typename FactorOf>
    [[nodiscard]] Factors by_phase(FactorOf factor_of) const {
        Factors factors;
        for (const NamedPhase& phase : replay_.rows().names()) factors.push_back(static_cast<float>(factor_of(phase)));
        return factors;
    }
    [[nodiscard]] Factors as_they_were() const {
        return by_phase([](const NamedPhase&) { return 1; });
    }
    [[nodiscard]] Factors by_transfer(const Transfers::Growth& growth) const {
        Factors factors = by_phase([&](const NamedPhase& phase) {
            return phase.is_comm() ? transfers_.times_as_long(phase.name, growth) : 1;
        });
        // Where what looks like latency is waiting for the bucket before.
        if (buckets_ && !result_.latency_is_known)
            factors[buckets_->name] = static_cast<float>(growth(*buckets_->model).byte);
        return factors;
    }

    /// What ends of backward when buckets share the link is not in the graph: they take no time there, and the end of
    /// backward what it hides of none of them.
    [[nodiscard]] Scenario scenario(Factors factors, double exposed_ms) const {
        if (!buckets_)
            return {[this, factors = std::move(factors)](const StepGraph& graph, std::span<float> own_ms) {
                for (std::size_t node = 0; node < own_ms.size(); ++node)
                    own_ms[node] *= factors[replay_.model().keys[graph.keys[node]].name];
            }};
        // The replay may take some of backward for waiting, or the other way round.
        const double replayed_ms = replayed_backward_ms();
        const auto own_share = static_cast<float>(std::min(1.0, buckets_->backward_ms / replayed_ms));
        const double missing_ms = std::max(0.0, buckets_->backward_ms - replayed_ms);
        return {[=, this, factors = std::move(factors)](const StepGraph& graph, std::span<float> own_ms) {
            std::vector<std::uint32_t> last(replay_.rows().ranks().size(), no_index);
            for (std::uint32_t node = 0; node < own_ms.size(); ++node) {
                const std::uint16_t name = replay_.model().keys[graph.keys[node]].name;
                own_ms[node] *= name == buckets_->name ? 0 : factors[name];
                if (!is_backward(phase_of(graph.keys[node]))) continue;
                own_ms[node] *= own_share;
                last[graph.ranks[node]] = node;
            }
            for (const std::uint32_t node : last)
                if (node != no_index)
                    own_ms[node] += static_cast<float>(
                        missing_ms * factors[replay_.model().keys[graph.keys[node]].name] + exposed_ms);
        }};
    }
    [[nodiscard]] Scenario scenario(Factors factors) const {
        double exposed_ms = 0;
        if (buckets_) {
            Gradients gradients = buckets_->gradients;
            for (std::size_t i = 0; i < factors.size(); ++i)
                if (is_backward(replay_.rows().names()[i])) gradients.backward_ms = buckets_->backward_ms * factors[i];
            gradients.transfer_ms = [this, times = factors[buckets_->name]](double bytes) {
                return times * buckets_->gradients.transfer_ms(bytes);
            };
            exposed_ms = try_bucket_size(gradients, buckets_->megabytes).exposed_ms;
        }
        return scenario(std::move(factors), exposed_ms);
    }

    /// `work`: of a rank in a step, over what it is now.
    void add(const std::string& key, const std::string& what, double ranks, double work, Factors factors) {
        result_.changes.push_back({key, what, ranks, 0, work});
        scenarios_.push_back(scenario(std::move(factors)));
    }

    void add_changes(const std::vector<std::uint64_t>& worlds) {
        const auto n = static_cast<double>(ranks_);
        scenarios_.push_back(scenario(as_they_were()));
        for (const int percent : {50, 0})
            add(fmt::format("data_{}_percent", percent),
                percent == 0 ? "data is there at once" : "data takes half as long", n, 1,
                by_phase(
                    [&](const NamedPhase& phase) { return phase.kind == schema::Kind::data ? percent / 100.0 : 1; }));
        for (const int times : {2, 4})
            add(fmt::format("links_{}_times", times), fmt::format("links {} times as fast", times), n, 1,
                by_transfer([&](const CommModel&) {
                    return TransferFit::Factors{1, 1.0 / times};
                }));
        for (const std::uint64_t world : worlds)
            if (world > 1 && world != ranks_) add_world(world);
    }

    void add_world(std::uint64_t world) {
        const auto ranks = static_cast<double>(world);
        Factors transfers =
            by_transfer([&](const CommModel& model) { return transfers_.growth_with_ranks(model, world); });
        add(fmt::format("weak_{}", world), fmt::format("{} ranks, each with its batch", world), ranks, 1, transfers);
        const double share = static_cast<double>(ranks_) / ranks;
        for (std::size_t i = 0; i < transfers.size(); ++i)
            if (grows_with_samples(replay_.rows().names()[i])) transfers[i] = static_cast<float>(share);
        add(fmt::format("strong_{}", world), fmt::format("{} ranks share the batch", world), ranks, share, transfers);
    }

    void price() {
        const std::vector<double> means_ms = replay_.replayer().mean_steps_ms(scenarios_);
        as_it_was_ms_ = means_ms.front();
        std::size_t next = 1;
        for (Change& change : result_.changes) set_step(change, means_ms[next++]);
        for (BucketSize& size : result_.buckets) size.step_ms = result_.step_ms + means_ms[next++] - as_it_was_ms_;
        std::erase_if(result_.changes, [&](const Change& change) {
            constexpr double least = 5e-4;
            return change.ranks == static_cast<double>(ranks_) && std::abs(change.speed - 1) < least;
        });
    }

    /// `change.speed` is the work until then.
    void set_step(Change& change, double replayed_ms) {
        change.step_ms = result_.step_ms * replayed_ms / as_it_was_ms_;
        change.speed *= result_.step_ms / change.step_ms;
    }

    /// What a step has once for each micro-batch, of the rank that has the most: a further one adds that, and nothing
    /// to filling a pipeline, to gradients and to the optimizer.
    [[nodiscard]] double repeated_ms() const {
        std::vector<double> of_rank(replay_.rows().ranks().size());
        for (const StepGraph& graph : replay_.graphs())
            for (std::size_t node = 0; node < graph.size(); ++node) {
                const NamedPhase& phase = phase_of(graph.keys[node]);
                const bool is_repeated = phase.is_comm() ? !transfers_.is_data_parallel(phase.name) &&
                                                               operation_of_name(phase.name) != Operation::send_recv
                                                         : grows_with_samples(phase);
                if (is_repeated) of_rank[graph.ranks[node]] += graph.weight * static_cast<double>(graph.own_ms[node]);
            }
        return *std::max_element(of_rank.begin(), of_rank.end()) /
               static_cast<double>(std::max<std::size_t>(1, replay_.graphs().size()));
    }

    void add_micro_batches() {
        const auto n = static_cast<double>(ranks_);
        const double more_ms = repeated_ms() + (buckets_ ? buckets_->backward_ms - replayed_backward_ms() : 0);
        for (const int times : {2, 4}) {
            Change change{fmt::format("micro_batches_{}_times", times),
                          fmt::format("{} times as many micro-batches", times), n, 0, static_cast<double>(times)};
            set_step(change, as_it_was_ms_ + (times - 1) * more_ms);
            result_.changes.push_back(std::move(change));
        }
    }

    [[nodiscard]] std::optional<Buckets> find_in_backward() const {
        constexpr std::size_t most_rows = 1'000'000;
        const std::vector<StepRows> sample = read_sample(replay_.rows(), most_rows, 1);
        std::map<std::uint16_t, std::pair<double, double>> counts;  // by name: rows, and those in backward
        double rank_steps = 0;
        for (const StepRows& step : sample)
            for (const RankRows& rank : step.ranks) {
                count_in_backward(std::span(step.rows).subspan(rank.first, rank.last - rank.first), counts);
                ++rank_steps;
            }
        std::erase_if(counts, [](const auto& one) { return one.second.second < most_of * one.second.first; });
        if (counts.size() != 1) return std::nullopt;
        const auto& [name, count] = *counts.begin();
        Buckets buckets{name, count.first / rank_steps};
        for (const StepRows& step : sample) add_step(buckets, step, static_cast<double>(sample.size()));
        return buckets;
    }

    /// A collective is under way from when its last rank has begun to when its first one has ended. One that begins as
    /// the one before it ends has waited for that; the last one that has not tells how fast backward was.
    void add_step(Buckets& buckets, const StepRows& step, double steps) const {
        double begin_ms = -INFINITY;                               // of backward, on the last rank
        std::map<std::uint32_t, std::pair<double, double>> spans;  // by collective
        for (const RankRows& rank : step.ranks) {
            const auto rows = std::span(step.rows).subspan(rank.first, rank.last - rank.first);
            double first_ms = INFINITY;
            for (const TimedRow& row : rows) {
                if (is_backward(replay_.rows().names()[row.name])) first_ms = std::min(first_ms, row.start_ms);
                if (row.name != buckets.name || row.collective == 0) continue;
                auto& [from_ms, to_ms] = spans.try_emplace(row.collective, row.start_ms, row.end_ms).first->second;
                from_ms = std::max(from_ms, row.start_ms);
                to_ms = std::min(to_ms, row.end_ms);
            }
            if (std::isfinite(first_ms)) begin_ms = std::max(begin_ms, first_ms);
        }
        std::vector<std::pair<double, double>> ordered;
        for (const auto& [collective, span] : spans) ordered.push_back(span);
        std::sort(ordered.begin(), ordered.end());
        double end_ms = -INFINITY;
        double transfers_ms = 0;  // as gradients are: a share of them for a share of the bytes
        double pace = 0;          // of backward, over transfers
        for (const auto& [from_ms, to_ms] : ordered) {
            const double length_ms = std::max(0.0, to_ms - from_ms);
            const double tolerance_ms = held_up_within_ms(length_ms, replay_.model().tolerance_ms);
            transfers_ms += length_ms;
            if (std::abs(from_ms - end_ms) > tolerance_ms && transfers_ms > 0)
                pace = (from_ms - begin_ms) / transfers_ms;
            buckets.busy_ms += std::max(0.0, to_ms - std::max(from_ms, end_ms)) / steps;
            end_ms = std::max(end_ms, to_ms);
        }
        if (ordered.empty()) return;
        const double most_ms = std::max(0.0, ordered.back().first - begin_ms);
        buckets.backward_ms += std::clamp(pace * transfers_ms, 0.0, most_ms) / steps;
    }

    void count_in_backward(std::span<const TimedRow> rows,
                           std::map<std::uint16_t, std::pair<double, double>>& counts) const {
        const std::vector<NamedPhase>& names = replay_.rows().names();
        for (const TimedRow& row : rows) {
            if (!row.is_comm || operation_of_name(names[row.name].name) != Operation::all_reduce) continue;
            auto& [all, inside] = counts[row.name];
            ++all;
            inside += std::any_of(rows.begin(), rows.end(), [&](const TimedRow& other) {
                return is_backward(names[other.name]) && other.start_ms < row.start_ms && row.start_ms < other.end_ms;
            });
        }
    }

    /// Local work that is backward, of a rank in a step, as the replay has it.
    [[nodiscard]] double replayed_backward_ms() const {
        double sum_ms = 0;
        for (const StepGraph& graph : replay_.graphs())
            for (std::size_t node = 0; node < graph.size(); ++node)
                if (is_backward(phase_of(graph.keys[node])))
                    sum_ms += graph.weight * static_cast<double>(graph.own_ms[node]);
        return sum_ms / static_cast<double>(replay_.graphs().size() * replay_.rows().ranks().size());
    }

    /// In its first step, DDP reduces all gradients at once.
    [[nodiscard]] static double usual_bytes(const CommModel& model) {
        std::uint64_t most = 0;
        double bytes = 0;
        for (const comm::SizeReport& size : model.sizes) most = std::max(most, size.point.collectives);
        for (const comm::SizeReport& size : model.sizes)
            if (2 * size.point.collectives >= most) bytes = static_cast<double>(size.point.bytes);
        return bytes;
    }

    void find_buckets() {
        std::optional<Buckets> found = find_in_backward();
        const CommModel* const model =
            found ? transfers_.find_of_all(replay_.rows().names()[found->name].name) : nullptr;
        if (model == nullptr) return;
        double bytes = 0;
        double fitted_ms = 0;
        double collectives = 0;
        for (const comm::SizeReport& size : model->sizes) {
            const auto of_size = static_cast<double>(size.point.collectives);
            collectives += of_size;
            bytes += of_size * static_cast<double>(size.point.bytes);
            fitted_ms += of_size * time_of(*model, static_cast<double>(size.point.bytes), {});
        }
        // What is paid is more than what is typical, and less where spans contain waiting for the bucket before: then
        // the fit's latency is that waiting.
        constexpr double least_paid = 0.9;
        const double paid = found->busy_ms / (found->in_step * fitted_ms / collectives);
        const double gradient_bytes = found->in_step * bytes / collectives;
        result_.bucket_bytes = usual_bytes(*model);
        result_.latency_is_known = has_latency(*model) && paid >= least_paid;
        found->megabytes = result_.bucket_bytes / 1048576;
        found->model = model;
        found->gradients = {gradient_bytes, found->backward_ms,
                            [model, paid, busy_ms = found->busy_ms, gradient_bytes,
                             is_known = result_.latency_is_known](double of_bucket) {
                                return is_known ? paid * time_of(*model, of_bucket, {})
                                                : busy_ms * of_bucket / gradient_bytes;
                            }};
        buckets_ = std::move(found);
    }

    void add_bucket_sizes() {
        if (!buckets_) return;
        for (const double megabytes : tried_megabytes) {
            const BucketSize size = try_bucket_size(buckets_->gradients, megabytes);
            scenarios_.push_back(scenario(as_they_were(), size.exposed_ms));
            result_.buckets.push_back(size);
        }
        if (!result_.latency_is_known)
            result_.notes.emplace_back(
                "the latency of a bucket is not known: small ones take longer than the table says");
    }

    void add_notes() {
        const CommModel* const model = transfers_.find_unfitted();
        if (model != nullptr)
            result_.notes.push_back(
                fmt::format("{}: no latency is known, all of a transfer is taken to grow with bytes{}", model->name,
                            model->refused.empty() ? "" : " (" + model->refused + ")"));
    }

    const JobReplay replay_;
    const std::uint64_t ranks_;
    const Transfers transfers_;
    std::optional<Buckets> buckets_;
    std::vector<Scenario> scenarios_;  // the first: as it was; then of each change and size
    double as_it_was_ms_ = 0;
    WhatIf result_;
};

}  // namespace

WhatIf find_what_if(const Job& job, std::vector<std::uint64_t> worlds, std::size_t threads,
                    std::span<const std::int64_t> left_out) {
    return Pricer(job, threads, left_out).price(std::move(worlds));
}

}  // namespace cep::estimate
