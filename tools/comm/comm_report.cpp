// SPDX-License-Identifier: Apache-2.0
#include "comm/comm_report.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "comm/comm_channels.hpp"
#include "matching/process_group.hpp"
#include "stats/quantiles.hpp"

namespace cep::comm {
namespace {

using namespace tool;

/// One line of the report.
using ModelKey = std::tuple<Operation, std::string, std::string, std::uint64_t>;  // name, group, ranks

struct SizeSamples {
    std::vector<double> transfers_ms;
    std::vector<double> waits_ms;
};

/// The matches of one model, before they are added up.
struct ModelSamples {
    CommModel model;
    std::set<std::string> groups;
    std::map<std::int64_t, SizeSamples> sizes;
    double sampled_ms = 0;
    double waiting_ms = 0;
};

/// Bus bandwidth over algorithm bandwidth: the share of the bytes that each rank sends, as nccl-tests defines it
/// (doc/PERFORMANCE.md). Nothing for one rank, or an operation that is not known or moves no bytes.
std::optional<double> bus_factor(Operation operation, std::uint64_t ranks) {
    if (ranks < 2) return std::nullopt;
    const auto n = static_cast<double>(ranks);
    switch (operation) {
        case Operation::all_reduce:
            return 2 * (n - 1) / n;
        case Operation::all_gather:
        case Operation::reduce_scatter:
        case Operation::all_to_all:
        case Operation::gather:
        case Operation::scatter:
            return (n - 1) / n;
        case Operation::broadcast:
        case Operation::reduce:
        case Operation::send_recv:
            return 1.0;
        default:
            return std::nullopt;
    }
}

enum class Algorithm : std::uint8_t { ring, tree };

/// Transfers that follow one another from the first to the last. In a ring: n − 1, of an all-reduce twice as many. In
/// a tree: ⌈log2 n⌉, of an all-reduce twice as many, up and down. (Thakur, Rabenseifner, Gropp, "Optimization of
/// collective communication operations in MPICH", IJHPCA 19(1), 2005; Patarasuk and Yuan, "Bandwidth optimal
/// all-reduce algorithms", JPDC 69(2), 2009; Sanders, Speck, Träff, "Two-tree algorithms", Parallel Computing 35(12),
/// 2009, for the trees that use the whole bandwidth.) Nothing for an operation that is not known.
std::optional<double> hops(Operation operation, Algorithm algorithm, std::uint64_t ranks) {
    if (!bus_factor(operation, ranks)) return std::nullopt;
    if (operation == Operation::send_recv) return 1.0;
    const std::uint64_t one_way = algorithm == Algorithm::ring ? ranks - 1 : std::bit_width(ranks - 1);
    return static_cast<double>(operation == Operation::all_reduce ? 2 * one_way : one_way);
}

/// What a collective of other sizes and numbers of ranks would take. Alpha grows as the hops, and the bytes that a rank
/// sends as bus_factor(); what a link does is taken to stay the same. Nothing where one of these is not known.
std::optional<double> predict_ms(const CommModel& model, Algorithm algorithm, double bytes, std::uint64_t world) {
    const auto hops_measured = hops(model.operation, algorithm, model.ranks);
    const auto hops_wanted = hops(model.operation, algorithm, world);
    if (!hops_measured || !hops_wanted || !model.fit->beta_gb_per_s) return std::nullopt;
    const double alpha_ms = model.fit->alpha_us / 1e3 * *hops_wanted / *hops_measured;
    const double sent = *bus_factor(model.operation, world) / *bus_factor(model.operation, model.ranks);
    return alpha_ms + bytes / (*model.fit->beta_gb_per_s * 1e6) * sent;
}

class ReportMaker {
  public:
    ReportMaker(const Job& job, const CommOptions& options)
        : channels_(job), one_in_(std::uint64_t{1} << std::min(63U, job.choice.halvings())), options_(options) {
        report_.inputs = job.inputs;
        report_.coverage = job.coverage;
        report_.options = options;
        for (const Channel& channel : channels_.all()) models_of_.push_back(&add_channel(channel));
        channels_.for_each_message([this](const Message& message) { add_message(message); });
    }

    CommReport make() {
        double sampled_ms = 0;
        double waiting_ms = 0;
        for (auto& [key, samples] : samples_) {
            sampled_ms += samples.sampled_ms;
            waiting_ms += samples.waiting_ms;
            report_.models.push_back(finish(samples));
        }
        if (sampled_ms > 0) report_.wait_fraction = waiting_ms / sampled_ms;
        std::stable_sort(report_.models.begin(), report_.models.end(),
                         [](const CommModel& a, const CommModel& b) { return a.total_ms > b.total_ms; });
        limit_models();
        limit_sizes();
        if (options_.predicts)
            for (CommModel& model : report_.models) predict(model);
        return std::move(report_);
    }

  private:
    void limit_models() {
        LeftOut& left_out = report_.left_out;
        left_out.spans = channels_.left_out().spans;
        left_out.total_ms = channels_.left_out().total_ms;
        while (report_.models.size() > CommReport::max_models) {
            ++left_out.models;
            left_out.spans += report_.models.back().spans;
            left_out.total_ms += report_.models.back().total_ms;
            report_.models.pop_back();
        }
    }

    void limit_sizes() {
        std::size_t room = CommReport::max_sizes;
        for (CommModel& model : report_.models) {
            if (model.sizes.size() > room) {
                report_.left_out.sizes += model.sizes.size() - room;
                model.sizes.resize(room);
            }
            room -= model.sizes.size();
        }
    }

    // With ranks missing, a group has as many as the largest of its kind.
    [[nodiscard]] std::uint64_t ranks_of(const Channel& channel) const {
        if (channel.operation == Operation::send_recv && channels_.ranks_of(channel.group) > 1) return 2;
        if (report_.coverage.missing_ranks.empty()) return channels_.ranks_of(channel.group);
        return channels_.most_ranks_of_kind(channel.group);
    }

    ModelSamples& add_channel(const Channel& channel) {
        const std::string name = channel.name.empty() ? std::string(operation_name(channel.operation)) : channel.name;
        const std::string group = options_.by_group ? channel.group : group_kind(channel.group);
        ModelSamples& samples = samples_[{channel.operation, name, group, ranks_of(channel)}];
        CommModel& model = samples.model;
        model.operation = channel.operation;
        model.name = name;
        model.group = group;
        model.ranks = ranks_of(channel);
        model.one_in = one_in_;
        model.spans += channel.totals.spans;
        model.spans_without_bytes += channel.totals.spans_without_bytes;
        model.total_ms += channel.totals.total_ms;
        samples.groups.insert(channel.group);
        return samples;
    }

    // Of a collective without most of its ranks, the one that came last may be missing: its transfer is not known.
    void add_message(const Message& message) {
        ModelSamples& samples = *models_of_[message.channel];
        const std::uint64_t ranks =
            std::min(samples.model.ranks, channels_.ranks_of(channels_.all()[message.channel].group));
        if (message.spans < 2 || 2 * message.spans < ranks) {
            ++samples.model.lone_spans;
            return;
        }
        const double waiting_ms = std::max(0.0, message.total_ms - message.spans * message.transfer_ms);
        ++samples.model.collectives;
        samples.sampled_ms += message.total_ms;
        samples.waiting_ms += waiting_ms;
        if (message.bytes <= 0) return;
        SizeSamples& size = samples.sizes[moved_bytes(samples.model, message.bytes)];
        size.transfers_ms.push_back(message.transfer_ms);
        size.waits_ms.push_back(waiting_ms / message.spans);
    }

    [[nodiscard]] std::int64_t moved_bytes(const CommModel& model, std::int64_t bytes) const {
        const bool is_sharded =
            model.operation == Operation::all_gather || model.operation == Operation::reduce_scatter;
        const auto ranks = static_cast<std::int64_t>(model.ranks);
        const bool fits = bytes <= std::numeric_limits<std::int64_t>::max() / ranks;
        return options_.shard_bytes && is_sharded && fits ? bytes * ranks : bytes;
    }

    CommModel finish(ModelSamples& samples) const {
        CommModel& model = samples.model;
        model.groups = samples.groups.size();
        if (samples.sampled_ms > 0) model.wait_fraction = samples.waiting_ms / samples.sampled_ms;
        for (auto& [bytes, size] : samples.sizes) model.sizes.push_back(finish_size(model, bytes, size));
        fit(model);
        if (model.fit && model.fit->beta_gb_per_s) {
            const auto factor = bus_factor(model.operation, model.ranks);
            if (factor) model.bus_gb_per_s = *model.fit->beta_gb_per_s * *factor;
            model.link_efficiency = efficiency(model.bus_gb_per_s);
        }
        return std::move(model);
    }

    [[nodiscard]] std::optional<double> efficiency(const std::optional<double>& bus_gb_per_s) const {
        if (!bus_gb_per_s || !options_.link_gb_per_s) return std::nullopt;
        return *bus_gb_per_s / *options_.link_gb_per_s;
    }

    [[nodiscard]] SizeReport finish_size(const CommModel& model, std::int64_t bytes, SizeSamples& size) const {
        SizeReport report;
        report.point = {bytes, size.transfers_ms.size(), exact_quantile(size.transfers_ms, 0.5)};
        report.wait_ms = exact_quantile(size.waits_ms, 0.5);
        if (report.point.transfer_ms <= 0) return report;
        report.algorithm_gb_per_s = static_cast<double>(bytes) / report.point.transfer_ms / 1e6;
        const auto factor = bus_factor(model.operation, model.ranks);
        if (factor) report.bus_gb_per_s = report.algorithm_gb_per_s * *factor;
        report.link_efficiency = efficiency(report.bus_gb_per_s);
        return report;
    }

    static void fit(CommModel& model) {
        if (model.ranks < 2) {
            model.refused = "only one rank has spans, so its waiting cannot be separated from the transfer";
        } else if (model.collectives == 0) {
            model.refused = "no collective has the spans of at least half of its ranks";
        } else if (model.sizes.empty()) {
            model.refused = "the rows say no bytes";
        } else {
            std::vector<SizePoint> points;
            for (const SizeReport& size : model.sizes) points.push_back(size.point);
            model.fit = fit_transfers(points, model.refused);
        }
    }

    void predict(CommModel& model) const {
        if (!model.fit) return;
        std::vector<std::int64_t> sizes = options_.predicted_bytes;
        if (sizes.empty())
            for (const SizeReport& size : model.sizes) sizes.push_back(size.point.bytes);
        std::vector<std::uint64_t> worlds = options_.worlds;
        if (worlds.empty()) worlds.push_back(model.ranks);
        for (const std::uint64_t world : worlds)
            for (const std::int64_t bytes : sizes) {
                Prediction one{bytes, world, {}, {}, bytes < model.fit->min_bytes || bytes > model.fit->max_bytes};
                const auto size = static_cast<double>(bytes);
                one.ring_ms = predict_ms(model, Algorithm::ring, size, world);
                one.tree_ms = predict_ms(model, Algorithm::tree, size, world);
                model.predictions.push_back(one);
            }
    }

    const CommChannels channels_;
    const std::uint64_t one_in_;
    const CommOptions& options_;
    CommReport report_;
    std::map<ModelKey, ModelSamples> samples_;
    std::vector<ModelSamples*> models_of_;  // by channel
};

}  // namespace

bool CommReport::any_bytes() const {
    return std::any_of(models.begin(), models.end(),
                       [](const CommModel& model) { return model.spans_without_bytes < model.spans; });
}

CommReport make_report(const tool::Job& job, const CommOptions& options) {
    return ReportMaker(job, options).make();
}

}  // namespace cep::comm
