// SPDX-License-Identifier: Apache-2.0
#include "comm/comm_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "comm/comm_channels.hpp"
#include "comm/slow_transfers.hpp"
#include "matching/process_group.hpp"
#include "stats/confidence.hpp"
#include "stats/quantiles.hpp"

namespace cep::comm {
namespace {

using namespace tool;

/// One kind of the report; its groups may differ.
using KindKey = std::tuple<Operation, std::string, std::string, std::uint64_t>;  // name, group, ranks

/// What is known of one group.
struct GroupTotals {
    std::string name;
    tool::CommTotals totals{};
    std::uint64_t collectives = 0;
    std::uint64_t lone_spans = 0;
    double sampled_ms = 0;
    double waiting_ms = 0;

    void merge(const GroupTotals& other) {
        totals.merge(other.totals);
        collectives += other.collectives;
        lone_spans += other.lone_spans;
        sampled_ms += other.sampled_ms;
        waiting_ms += other.waiting_ms;
    }
};

/// The matches of one kind, before they are added up.
struct KindSamples {
    CommModel model;  // what all lines of the kind have in common
    bool is_host_timed = true;
    std::map<std::string, std::uint32_t> indices;  // of groups, by name
    std::vector<GroupTotals> groups;
    Transfers transfers;
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
std::optional<TransferFit::Factors> growth(const CommModel& model, Algorithm algorithm, std::uint64_t world) {
    const auto hops_measured = hops(model.operation, algorithm, model.ranks);
    const auto hops_wanted = hops(model.operation, algorithm, world);
    if (!hops_measured || !hops_wanted) return std::nullopt;
    return TransferFit::Factors{*hops_wanted / *hops_measured,
                                *bus_factor(model.operation, world) / *bus_factor(model.operation, model.ranks)};
}

/// How the transfers scatter round their fit: two quantiles of their times over the fitted ones.
struct Scatter {
    double low = 1;
    double high = 1;
};

std::optional<PredictedTime> predict_time(const CommModel& model, Algorithm algorithm, double bytes,
                                          std::uint64_t world, const Scatter& scatter) {
    const auto factors = growth(model, algorithm, world);
    if (!factors || !model.fit->beta_gb_per_s) return std::nullopt;
    const double ms = model.fit->time_ms(bytes, *factors);
    const double error_ms = tool::normal_quantile * model.fit->time_error_ms(bytes, *factors);
    return PredictedTime{ms, std::max(0.0, scatter.low * ms - error_ms), scatter.high * ms + error_ms};
}

bool exceeds_links(const SizeReport& size) {
    return size.bus_gb_per_s.value_or(size.algorithm_gb_per_s.value_or(0)) > link_limit_gb_per_s;
}

class ReportMaker {
  public:
    ReportMaker(const Job& job, const CommOptions& options)
        : channels_(job), one_in_(std::uint64_t{1} << std::min(63U, job.choice.level())), options_(options) {
        report_.inputs = job.inputs;
        report_.coverage = job.coverage;
        report_.options = options;
        for (const Channel& channel : channels_.all()) group_indices_.push_back(add_channel(channel));
        channels_.for_each_message([this](const Message& message) { add_message(message); });
    }

    CommReport make() {
        GroupTotals all;
        for (auto& [key, kind] : kinds_) {
            for (const GroupTotals& group : kind.groups) all.merge(group);
            add_models(kind);
        }
        report_.wait_fraction = share_of_spans(all);
        report_.wait_of_step = share_of_steps(all);
        std::stable_sort(report_.models.begin(), report_.models.end(),
                         [](const CommModel& a, const CommModel& b) { return a.total_ms > b.total_ms; });
        limit_models();
        limit_sizes();
        return std::move(report_);
    }

  private:
    /// A channel's kind, and its group there.
    struct GroupIndex {
        KindSamples* kind = nullptr;
        std::uint32_t group = 0;
    };

    [[nodiscard]] static std::optional<double> share_of_spans(const GroupTotals& totals) {
        return totals.sampled_ms > 0 ? std::optional(totals.waiting_ms / totals.sampled_ms) : std::nullopt;
    }
    /// More than all of it: the starts of the rows are not what their durations say.
    [[nodiscard]] std::optional<double> share_of_steps(const GroupTotals& totals) const {
        const double steps_ms = channels_.steps_ms();
        return totals.waiting_ms <= steps_ms && steps_ms > 0 ? std::optional(totals.waiting_ms / steps_ms)
                                                             : std::nullopt;
    }

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

    GroupIndex add_channel(const Channel& channel) {
        const std::string name = channel.name.empty() ? std::string(operation_name(channel.operation)) : channel.name;
        const std::string group = options_.by_group ? channel.group : group_kind(channel.group);
        KindSamples& kind = kinds_[{channel.operation, name, group, ranks_of(channel)}];
        kind.model.operation = channel.operation;
        kind.model.name = name;
        kind.model.group = group;
        kind.model.ranks = ranks_of(channel);
        kind.model.one_in = one_in_;
        kind.is_host_timed &= channel.is_host_timed;
        const auto next = static_cast<std::uint32_t>(kind.groups.size());
        const auto [index, is_new] = kind.indices.try_emplace(channel.group, next);
        if (is_new) kind.groups.push_back({channel.group});
        kind.groups[index->second].totals.merge(channel.totals);
        return {&kind, index->second};
    }

    // Where most ranks of a collective are missing, so may be the one that came last: its transfer is not known.
    void add_message(const Message& message) {
        const auto& [kind, group] = group_indices_[message.channel];
        GroupTotals& totals = kind->groups[group];
        const std::uint64_t ranks =
            std::min(kind->model.ranks, channels_.ranks_of(channels_.all()[message.channel].group));
        if (message.spans < 2 || 2 * message.spans < ranks) {
            ++totals.lone_spans;
            return;
        }
        const double waiting_ms = std::max(0.0, message.total_ms - message.spans * message.transfer_ms);
        ++totals.collectives;
        totals.sampled_ms += message.total_ms;
        totals.waiting_ms += waiting_ms;
        if (message.bytes <= 0) return;
        kind->transfers.push_back({whole_bytes(kind->model.operation, message.bytes, kind->model.ranks), message.step,
                                   group, message.transfer_ms, waiting_ms / message.spans});
    }

    /// The bytes of the whole operation, where the options say that bytes are those of a rank's shard.
    [[nodiscard]] std::int64_t whole_bytes(Operation operation, std::int64_t bytes, std::uint64_t of_ranks) const {
        const auto ranks = static_cast<std::int64_t>(of_ranks);
        const bool fits = bytes <= std::numeric_limits<std::int64_t>::max() / ranks;
        return has_shards(operation) && fits ? bytes * ranks : bytes;
    }
    [[nodiscard]] bool has_shards(Operation operation) const {
        return options_.shard_bytes && (operation == Operation::all_gather || operation == Operation::reduce_scatter);
    }

    /// A line for each class of groups.
    void add_models(KindSamples& kind) {
        const std::vector<GroupClass> classes = find_group_classes(kind.transfers, kind.groups.size());
        std::vector<std::size_t> class_of_group(kind.groups.size());
        for (std::size_t i = 0; i < classes.size(); ++i)
            for (const std::uint32_t group : classes[i].groups) class_of_group[group] = i;
        std::vector<Transfers> transfers(classes.size());
        for (const Transfer& one : kind.transfers) transfers[class_of_group[one.group]].push_back(one);
        kind.transfers = {};
        for (std::size_t i = 0; i < classes.size(); ++i) {
            CommModel model = kind.model;
            add_totals(model, kind, classes[i]);
            if (classes.size() > 1) model.times_usual = classes[i].times_usual;
            add_transfers(model, std::move(transfers[i]), kind.is_host_timed);
            report_.models.push_back(std::move(model));
        }
    }

    void add_totals(CommModel& model, const KindSamples& kind, const GroupClass& of_class) const {
        GroupTotals all;
        for (const std::uint32_t group : of_class.groups) {
            all.merge(kind.groups[group]);
            if (model.members.size() < CommModel::max_members && of_class.groups.size() < kind.groups.size())
                model.members.push_back(kind.groups[group].name);
        }
        model.groups = of_class.groups.size();
        model.spans = all.totals.spans;
        model.spans_without_bytes = all.totals.spans_without_bytes;
        model.total_ms = all.totals.total_ms;
        model.collectives = all.collectives;
        model.lone_spans = all.lone_spans;
        model.wait_fraction = share_of_spans(all);
        model.wait_of_step = share_of_steps(all);
    }

    void add_transfers(CommModel& model, Transfers transfers, bool is_host_timed) const {
        std::stable_sort(transfers.begin(), transfers.end(),
                         [](const Transfer& a, const Transfer& b) { return a.bytes < b.bytes; });
        for (std::size_t first = 0, next = 0; first < transfers.size(); first = next) {
            while (next < transfers.size() && transfers[next].bytes == transfers[first].bytes) ++next;
            model.sizes.push_back(make_size(model, std::span(transfers).subspan(first, next - first)));
        }
        add_fit(model);
        if (is_host_timed) find_launches(model);
        if (!model.is_launch) model.paid_gb_per_s = paid_bandwidth(transfers);
        if (model.fit && model.fit->beta_gb_per_s) {
            const auto factor = bus_factor(model.operation, model.ranks);
            if (factor) model.bus_gb_per_s = *model.fit->beta_gb_per_s * *factor;
            model.link_efficiency = efficiency(model.bus_gb_per_s);
        }
        add_scatter(model, transfers);
    }

    [[nodiscard]] static std::optional<double> paid_bandwidth(const Transfers& transfers) {
        double bytes = 0;
        double ms = 0;
        for (const Transfer& one : transfers) {
            bytes += static_cast<double>(one.bytes);
            ms += one.ms;
        }
        return ms > 0 ? std::optional(bytes / ms / 1e6) : std::nullopt;
    }

    /// What is called from the host and not waited for takes as long as the call.
    static void find_launches(CommModel& model) {
        constexpr std::int64_t wide = 16;  // sizes, from the smallest to the largest
        const bool never_grows =
            model.fit && !model.fit->beta_gb_per_s && model.fit->max_bytes / model.fit->min_bytes >= wide;
        if (!never_grows && std::none_of(model.sizes.begin(), model.sizes.end(), exceeds_links)) return;
        model.is_launch = true;
        model.fit.reset();
        model.refused = "its spans are timed on the host and end before the bytes can have moved: they are launches";
        for (SizeReport& size : model.sizes) {
            size.algorithm_gb_per_s.reset();
            size.paid_gb_per_s.reset();
            size.bus_gb_per_s.reset();
            size.link_efficiency.reset();
        }
    }

    /// How the single transfers are distributed, and what is predicted from that.
    void add_scatter(CommModel& model, const Transfers& transfers) const {
        std::unordered_map<std::int64_t, double> medians;
        for (const SizeReport& size : model.sizes) medians[size.point.bytes] = size.point.transfer_ms;
        model.slow = find_slow_transfers(transfers, medians);
        if (!model.fit) return;
        std::vector<double> ratios;
        ratios.reserve(transfers.size());
        for (const Transfer& one : transfers)
            ratios.push_back(one.ms / model.fit->time_ms(static_cast<double>(one.bytes)));
        model.errors = errors_of(ratios);
        if (!options_.predicts) return;
        const std::vector<double> ends = quantiles_of(ratios, {0.05, 0.95});
        predict(model, {ends[0], ends[1]});
    }

    [[nodiscard]] std::optional<double> efficiency(const std::optional<double>& bus_gb_per_s) const {
        if (!bus_gb_per_s || !options_.link_gb_per_s) return std::nullopt;
        return *bus_gb_per_s / *options_.link_gb_per_s;
    }

    /// `transfers`: all of the same size.
    [[nodiscard]] SizeReport make_size(const CommModel& model, std::span<const Transfer> transfers) const {
        std::vector<double> times_ms;
        std::vector<double> waits_ms;
        SizeReport report;
        for (const Transfer& one : transfers) {
            times_ms.push_back(one.ms);
            waits_ms.push_back(one.wait_ms);
            report.mean_ms += one.ms / static_cast<double>(transfers.size());
        }
        const std::vector<double> quantiles = quantiles_of(times_ms, {0.5, 0.9});
        report.point = {transfers.front().bytes, transfers.size(), quantiles[0]};
        report.p90_ms = quantiles[1];
        report.wait_ms = quantile_of(waits_ms, 0.5);
        const auto slow = std::count_if(times_ms.begin(), times_ms.end(),
                                        [&](double ms) { return ms > slow_ratio * report.point.transfer_ms; });
        report.slow_share = static_cast<double>(slow) / static_cast<double>(transfers.size());
        add_bandwidths(model, report);
        return report;
    }

    void add_bandwidths(const CommModel& model, SizeReport& report) const {
        if (report.point.transfer_ms <= 0) return;
        const double megabytes = static_cast<double>(report.point.bytes) / 1e6;
        report.algorithm_gb_per_s = megabytes / report.point.transfer_ms;
        report.paid_gb_per_s = megabytes / report.mean_ms;
        const auto factor = bus_factor(model.operation, model.ranks);
        if (factor) report.bus_gb_per_s = *report.algorithm_gb_per_s * *factor;
        report.link_efficiency = efficiency(report.bus_gb_per_s);
    }

    static void add_fit(CommModel& model) {
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

    void predict(CommModel& model, const Scatter& scatter) const {
        std::vector<std::uint64_t> worlds = options_.worlds;
        if (worlds.empty()) worlds.push_back(model.ranks);
        for (const std::uint64_t world : worlds) {
            if (options_.predicted_bytes.empty())
                for (const SizeReport& size : model.sizes)
                    add_prediction(model, {.bytes = size.point.bytes, .world = world}, scatter);
            for (const std::int64_t bytes : options_.predicted_bytes) {
                Prediction one{.bytes = whole_bytes(model.operation, bytes, world), .world = world};
                if (has_shards(model.operation)) one.shard_bytes = bytes;
                add_prediction(model, one, scatter);
            }
        }
    }

    static void add_prediction(CommModel& model, Prediction one, const Scatter& scatter) {
        const auto bytes = static_cast<double>(one.bytes);
        one.beyond_sizes = one.bytes < model.fit->min_bytes || one.bytes > model.fit->max_bytes;
        one.ring = predict_time(model, Algorithm::ring, bytes, one.world, scatter);
        one.tree = predict_time(model, Algorithm::tree, bytes, one.world, scatter);
        model.predictions.push_back(one);
    }

    const CommChannels channels_;
    const std::uint64_t one_in_;
    const CommOptions& options_;
    CommReport report_;
    std::map<KindKey, KindSamples> kinds_;
    std::vector<GroupIndex> group_indices_;  // by channel
};

}  // namespace

std::string_view Prediction::faster() const {
    constexpr double much = 1.05;
    if (!ring || !tree) return "";
    if (ring->ms > much * tree->ms) return "tree";
    return tree->ms > much * ring->ms ? "ring" : "either";
}

std::optional<TransferFit::Factors> CommModel::growth_in_ring(std::uint64_t world) const {
    return growth(*this, Algorithm::ring, world);
}

std::string CommModel::group_label() const {
    if (!times_usual || *times_usual == 1) return group;
    if (groups == 1) return members.front();
    return fmt::format("{}{}({} {})", group, group.empty() ? "" : " ", groups, *times_usual > 1 ? "slow" : "fast");
}

bool CommReport::any_bytes() const {
    return std::any_of(models.begin(), models.end(),
                       [](const CommModel& model) { return model.spans_without_bytes < model.spans; });
}

CommReport make_report(const tool::Job& job, const CommOptions& options) {
    return ReportMaker(job, options).make();
}

}  // namespace cep::comm
