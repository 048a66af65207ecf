// SPDX-License-Identifier: Apache-2.0
//
// The templates of made-up steps. In their times nothing is left to chance, so what waits for what is known.
#include "replay/role_template.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace cep::tool {
namespace {

constexpr double tolerance_ms = 0.02;
constexpr std::uint16_t compute_stream = 0;
constexpr std::uint16_t comm_stream = 1;

TimedRow work(std::uint16_t name, double start_ms, double end_ms) {
    return {start_ms, end_ms, 0, 0, name, compute_stream, 0, false};
}
TimedRow transfer(std::uint16_t name, double start_ms, double end_ms) {
    return {start_ms, end_ms, 1, 0, name, comm_stream, 0, true};
}

RoleSample sample_of(int steps, const std::function<std::vector<TimedRow>(int step)>& rows_of) {
    RoleSample sample;
    for (int step = 0; step < steps; ++step) {
        std::vector<TimedRow> rows = rows_of(step);
        RankRows of_rank;
        of_rank.step_start_ms = 0;
        of_rank.step_end_ms = 1000;
        cut_into_pieces(rows, of_rank, tolerance_ms, sample.emplace_back());
    }
    return sample;
}

RoleTemplate template_of(int steps, const std::function<std::vector<TimedRow>(int step)>& rows_of) {
    std::vector<RoleSample> samples{sample_of(steps, rows_of)};
    return find_templates(samples, tolerance_ms).front();
}

/// No slot of that name fails the test.
std::uint32_t slot_of(const RoleTemplate& role, std::uint16_t name) {
    for (std::uint32_t slot = 0; slot < role.slots.size(); ++slot)
        if (PieceKey::name(role.slots[slot].key) == name) return slot;
    ADD_FAILURE() << "no slot of phase " << name;
    return 0;
}

using Slots = std::vector<std::uint32_t>;

enum : std::uint16_t { forward, backward, optimizer, all_reduce };

TEST(TemplateMiner, ARoleHasItsPiecesStreamByStreamInTheOrderOfTheirStarts) {
    const RoleTemplate role = template_of(10, [](int step) {
        const double late = step;  // the whole step is this much later
        return std::vector<TimedRow>{work(backward, late + 10, late + 16), work(forward, late, late + 10),
                                     transfer(all_reduce, late + 20, late + 23)};
    });
    ASSERT_EQ(role.slots.size(), 3U);
    EXPECT_EQ(slot_of(role, forward), 0U);
    EXPECT_EQ(slot_of(role, backward), 1U);
    EXPECT_EQ(slot_of(role, all_reduce), 2U);
    EXPECT_EQ(role.streams, (Slots{0, 2}));
    EXPECT_EQ(role.end_of_stream(0), 2U);
    EXPECT_EQ(role.end_of_stream(1), 3U);
    EXPECT_EQ(role.slots[1].position, 1U);
    EXPECT_EQ(role.slots[2].position, 0U);
    EXPECT_TRUE(role.slots[2].is_comm);
    EXPECT_DOUBLE_EQ(role.slots[0].offset_ms, 4.5) << "the median of 0 to 9";
    EXPECT_DOUBLE_EQ(role.slots[0].typical_ms, 10);
    EXPECT_DOUBLE_EQ(role.slots[1].typical_ms, 6);
    EXPECT_EQ(role.by_offset, (Slots{0, 1, 2}));
}

TEST(TemplateMiner, WhatHalfOfTheStepsHaveBelongsToTheRole) {
    const auto with_an_evaluation_in = [](int steps) {
        return template_of(10, [=](int step) {
            std::vector<TimedRow> rows{work(forward, 0, 10)};
            if (step < steps) rows.push_back(work(optimizer, 20, 21));
            return rows;
        });
    };
    EXPECT_EQ(with_an_evaluation_in(4).slots.size(), 1U);
    EXPECT_EQ(with_an_evaluation_in(5).slots.size(), 2U);
}

TEST(TemplateMiner, StepsThatHaveBothShowWhoComesFirstAgainstTheMedians) {
    // In all steps that have both, forward is first. Its median start is 30, that of backward 10.
    const RoleTemplate role = template_of(10, [](int step) {
        if (step < 5) return std::vector<TimedRow>{work(forward, 0, 5), work(backward, 10, 12)};
        return std::vector<TimedRow>{work(forward, 60, 65)};
    });
    ASSERT_EQ(role.slots.size(), 2U);
    EXPECT_DOUBLE_EQ(role.slots[slot_of(role, forward)].offset_ms, 30);
    EXPECT_EQ(slot_of(role, forward), 0U);
    EXPECT_EQ(slot_of(role, backward), 1U);
}

TEST(TemplateMiner, WhatBeginsWhereTheWorkBeforeItEndsFollowsIt) {
    const RoleTemplate role = template_of(10, [](int step) {
        const double end_ms = 10 + step;
        return std::vector<TimedRow>{work(forward, 0, end_ms), work(backward, end_ms, end_ms + 5),
                                     work(optimizer, 50, 51)};
    });
    EXPECT_FALSE(role.slots[slot_of(role, forward)].follows);
    EXPECT_TRUE(role.slots[slot_of(role, backward)].follows);
    EXPECT_FALSE(role.slots[slot_of(role, optimizer)].follows);
}

TEST(TemplateMiner, WorkThatBeginsWhereATransferEndsWaitsForIt) {
    const RoleTemplate role = template_of(20, [](int step) {
        const double sent_ms = 12 + step;  // transfers take 2 to 21 ms
        return std::vector<TimedRow>{work(backward, 0, 10), transfer(all_reduce, 10, sent_ms),
                                     work(optimizer, sent_ms, sent_ms + 1)};
    });
    const std::uint32_t sent = slot_of(role, all_reduce);
    const std::uint32_t last = slot_of(role, optimizer);
    EXPECT_EQ(role.slots[last].waits_for, (Slots{sent}));
    EXPECT_EQ(role.slots[last].begun_by, (Slots{sent}));
    EXPECT_EQ(role.slots[sent].awaited_by, (Slots{last}));
    EXPECT_EQ(role.slots[sent].waits_for, (Slots{slot_of(role, backward)})) << "it sends what backward has made";
    EXPECT_TRUE(role.slots[slot_of(role, backward)].waits_for.empty());
}

TEST(TemplateMiner, WorkThatNeverBeginsBehindATransferDoesNotWaitForIt) {
    const RoleTemplate role = template_of(20, [](int step) {
        const double sent_ms = 12 + 2 * step;  // ends before optimizer in some steps, and behind it in others
        return std::vector<TimedRow>{work(backward, 0, 10), transfer(all_reduce, 10, sent_ms), work(optimizer, 25, 26)};
    });
    EXPECT_TRUE(role.slots[slot_of(role, optimizer)].waits_for.empty());
}

TEST(TemplateMiner, ATransferThatBeginsAtAShareOfTheWorkIsLaunchedInIt) {
    const RoleTemplate role = template_of(20, [](int step) {
        const double backward_ms = 20 + step;
        const double sent_ms = 0.25 * backward_ms;
        return std::vector<TimedRow>{work(backward, 0, backward_ms),
                                     transfer(all_reduce, sent_ms, sent_ms + 0.5 + 0.1 * (step % 7))};
    });
    const TemplateSlot& sent = role.slots[slot_of(role, all_reduce)];
    EXPECT_EQ(sent.launched_in, slot_of(role, backward));
    EXPECT_NEAR(sent.launch_share, 0.25, 1e-9);
}

TEST(TemplateMiner, ASpanThatWaitsInsideForItsTransferEndsItsWorkWithTheLaunch) {
    // As backward of DistributedDataParallel: it launches at 8, and ends 0.1 ms behind the transfer.
    std::vector<RoleSample> samples{sample_of(20, [](int step) {
        const double sent_ms = 12 + step;
        return std::vector<TimedRow>{work(backward, 0, sent_ms + 0.1), transfer(all_reduce, 8, sent_ms)};
    })};
    const RoleTemplate role = find_templates(samples, tolerance_ms).front();
    const TemplateSlot& own = role.slots[slot_of(role, backward)];
    EXPECT_EQ(role.blocked.size(), 1U);
    EXPECT_NEAR(own.typical_ms, 8, 0.2);
}

}  // namespace
}  // namespace cep::tool
