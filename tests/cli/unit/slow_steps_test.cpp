// SPDX-License-Identifier: Apache-2.0
#include "verdict/slow_steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "job_tables.hpp"
#include "stats/robust.hpp"

namespace cep::tool {
namespace {

constexpr std::size_t slow_ranks = 9;
constexpr std::size_t slow_steps = 200;

/// Ranks that take 20 ms with noise of 0.1 ms, but rank 4, which takes `more_ms(step)` more.
struct SlowRank {
    explicit SlowRank(const std::function<double(std::size_t)>& more_ms) {
        Normal normal(7);
        phase = phase_of("forward", slow_ranks, slow_steps, [&](std::size_t rank, std::size_t step) {
            return 20 + 0.1 * normal() + (rank == 4 ? more_ms(step) : 0);
        });
        deviation = std::make_unique<Deviation>(deviation_of(phase, group));
    }
    [[nodiscard]] std::optional<Straggler> find(const SearchScale& scale) const {
        ExceedancesByThreshold exceedances(*deviation);
        return find_slow_steps(*deviation, 4, exceedances, scale);
    }

    const PeerGroup group = peers_of(slow_ranks);
    LocalPhase phase;
    std::unique_ptr<Deviation> deviation;
};

SearchScale scale_of(double tests) {
    return {.floor_ms = 0.4, .tests = tests, .threshold_ms = 1};
}

/// P(X >= k) by all terms.
double binomial_by_terms(std::size_t k, std::size_t n, double p) {
    double sum = 0;
    for (std::size_t i = k; i <= n; ++i) {
        double term = std::pow(p, double(i)) * std::pow(1 - p, double(n - i));
        for (std::size_t j = 0; j < i; ++j) term *= double(n - j) / double(j + 1);
        sum += term;
    }
    return sum;
}

TEST(SlowSteps, SingleOnesAreWeighedAgainstThoseOfOtherRanksAndTheNumberOfTests) {
    // Five steps that no other of nine ranks has: (1 / 9)⁵ = 1.7e-5.
    const std::set<std::size_t> places = {10, 50, 95, 130, 170};
    const SlowRank job([&](std::size_t step) { return places.contains(step) ? 4.0 : 0; });
    const double chance = binomial_by_terms(5, 5, 1.0 / 9);
    const auto found = job.find(scale_of(5));
    ASSERT_TRUE(found) << "five tests: less than false_alarms of 1e-4";
    EXPECT_NEAR(found->confidence, 1 - 5 * chance, 1e-9);
    EXPECT_FALSE(job.find(scale_of(6))) << "six tests: more than that";
}

TEST(Exceedances, StepsInARowCountOnceIfOtherRanksHaveSuchRowsToo) {
    for (const bool others_too : {false, true}) {
        Normal normal(8);
        const LocalPhase phase = phase_of("forward", 8, 400, [&](std::size_t rank, std::size_t step) {
            const bool is_slow = rank == 4 ? step % 40 >= 10 && step % 40 < 13
                                           : others_too && step >= 40 * rank + 20 && step < 40 * rank + 23;
            return 20 + 0.1 * normal() + (is_slow ? 4.0 : 0);
        });
        const PeerGroup group = peers_of(8);
        EXPECT_EQ(Exceedances(deviation_of(phase, group), 2).bursts_of(4), others_too ? 10 : 30) << others_too;
    }
}

TEST(Exceedances, ARankHasItsShareOfWhatAllHave) {
    Normal normal(9);
    const LocalPhase phase = phase_of("forward", 8, 400, [&](std::size_t rank, std::size_t step) {
        return 20 + 0.1 * normal() + ((step * 7 + rank * 31) % 50 == 0 || (rank == 2 && step % 20 == 7) ? 5.0 : 0);
    });
    const PeerGroup group = peers_of(8);
    const Deviation deviation = deviation_of(phase, group);
    const Exceedances exceedances(deviation, 2);
    EXPECT_EQ(exceedances.count_of_others(2), 7 * 8);
    EXPECT_EQ(exceedances.bursts_of(2), 28);
    EXPECT_NEAR(exceedances.chance_of(2) / binomial_by_terms(28, 84, 1.0 / 8), 1, 1e-6);
    EXPECT_EQ(exceedances.chance_of(3), 1);
}

TEST(SlowSteps, ThreeAreTooFew) {
    EXPECT_FALSE(SlowRank([](std::size_t step) { return step % 80 == 10 ? 9.0 : 0; }).find(scale_of(1e-9)));
}

TEST(SlowSteps, ARangeIsWeighedAgainstChanceAndTheNumberOfTests) {
    // Thirty steps of 0.25 ms in noise of 0.1 ms: some 9 standard errors, but any of 200² / 2 ranges may be the best,
    // and other ranks exceed half of it now and then as well.
    const SlowRank job([](std::size_t step) { return step >= 100 && step < 130 ? 0.25 : 0; });
    SearchScale scale = scale_of(1);
    scale.floor_ms = 0.15;
    scale.threshold_ms = 1000;  // no single step counts
    const auto found = job.find(scale);
    ASSERT_TRUE(found);
    std::vector<double> range;
    for (std::size_t step = found->steps.first; step <= found->steps.last; ++step)
        range.push_back(job.deviation->excess_ms(4)[step]);
    const double median_ms = sorted_quantile(range, 0.5);
    const double inflation = job.deviation->inflation();
    const double z = median_ms / (1.2533 * job.deviation->noise_ms() * std::sqrt(inflation / double(range.size())));
    const double ranges = std::pow(slow_steps / inflation, 2) / 2;
    const double by_median = ranges * student_tail(z, job.deviation->independent_values() - 1);
    const auto above_half = std::count_if(range.begin(), range.end(), [&](double ms) { return ms > median_ms / 2; });
    ExceedancesByThreshold thresholds(*job.deviation);
    const Exceedances& exceedances = thresholds.of(median_ms / 2);
    const double by_count = ranges * exceedances.chance_of(4, double(above_half), double(range.size()));
    const double chance = std::max(by_median, by_count);
    ASSERT_LT(chance, 1e-4);
    EXPECT_NEAR((1 - found->confidence) / chance, 1, 0.01);
    scale.tests = 1.01e-4 / chance;
    EXPECT_FALSE(job.find(scale));
    scale.tests = 0.99e-4 / chance;
    EXPECT_TRUE(job.find(scale));
}

}  // namespace
}  // namespace cep::tool
