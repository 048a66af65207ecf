// SPDX-License-Identifier: Apache-2.0
#include "model/sample_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cep::tool {
namespace {

constexpr std::size_t chunk = SampleList::chunk_samples;
constexpr std::size_t sizes[] = {
    0, 1, 2, 15, 16, 17, chunk / 2, chunk - 1, chunk, chunk + 1, 2 * chunk, 7 * chunk, 7 * chunk + 9, 40 * chunk + 1};

/// What a sample would be without a column of its own for anything but its duration.
Sample plain_sample(std::size_t i) {
    return {static_cast<double>(i), Sample::no_start, std::nanf(""), 0, 5 + static_cast<std::uint32_t>(i), 9, 4, 7};
}

Sample full_sample(std::size_t i) {
    const auto number = static_cast<std::uint32_t>(i);
    return {static_cast<double>(i),
            static_cast<std::int64_t>(i),
            0.5F * static_cast<float>(i),
            3 * number + 1,
            number / 3,
            number % 4,
            number % 5,
            static_cast<std::int64_t>(i) << 33};
}

/// One more column of each, in its bit.
Sample sample_with(unsigned columns, std::size_t i) {
    Sample sample = plain_sample(i);
    const Sample full = full_sample(i);
    if ((columns & 1U) != 0) sample.start_ns = full.start_ns;
    if ((columns & 2U) != 0) sample.lag_ms = full.lag_ms;
    if ((columns & 4U) != 0) sample.collective = full.collective;
    if ((columns & 8U) != 0) sample.step_index = full.step_index;
    if ((columns & 16U) != 0) sample.place = full.place;
    if ((columns & 32U) != 0) sample.channel = full.channel;
    if ((columns & 64U) != 0) sample.bytes = full.bytes;
    return sample;
}

constexpr unsigned all_columns = 127;

std::vector<Sample> first_samples(std::size_t count, const std::function<Sample(std::size_t)>& sample_of) {
    std::vector<Sample> samples;
    for (std::size_t i = 0; i < count; ++i) samples.push_back(sample_of(i));
    return samples;
}

SampleList list_of(const std::vector<Sample>& samples) {
    SampleList list;
    for (const Sample& sample : samples) list.push_back(sample);
    return list;
}

SampleList list_of(std::size_t size) {
    return list_of(first_samples(size, full_sample));
}

/// To the last bit, but for the bits of a lag that is not a number.
bool are_same(const Sample& a, const Sample& b) {
    const bool same_lag = std::isnan(a.lag_ms) ? std::isnan(b.lag_ms) : a.lag_ms == b.lag_ms;
    return std::bit_cast<std::uint64_t>(a.duration_ms) == std::bit_cast<std::uint64_t>(b.duration_ms) &&
           a.start_ns == b.start_ns && same_lag && a.collective == b.collective && a.step_index == b.step_index &&
           a.place == b.place && a.channel == b.channel && a.bytes == b.bytes;
}

/// By each way to read it.
void expect_samples(const SampleList& list, const std::vector<Sample>& expected, const std::string& what) {
    ASSERT_EQ(list.size(), expected.size()) << what;
    EXPECT_EQ(list.empty(), expected.empty()) << what;
    std::size_t different = 0;
    std::size_t next = 0;
    for (const Sample sample : list) different += !are_same(sample, expected[next++]);
    EXPECT_EQ(next, expected.size()) << what;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        different += !are_same(list[i], expected[i]);
        different += list.step_index(i) != expected[i].step_index;
    }
    std::size_t first = 0;
    for (std::size_t i = 0; i < list.chunks(); first += list.chunk(i++).size())
        for (std::size_t at = 0; at < list.chunk(i).size(); ++at) {
            const Sample& sample = expected.at(first + at);
            different += list.chunk(i).durations_ms()[at] != sample.duration_ms;
            different += list.chunk(i).place(at) != sample.place;
        }
    EXPECT_EQ(first, expected.size()) << what;
    EXPECT_EQ(different, 0U) << what;
    if (expected.empty()) return;
    EXPECT_TRUE(are_same(list.back(), expected.back())) << what;
    EXPECT_EQ(list.last_step_index(), expected.back().step_index) << what;
}

TEST(SampleList, HoldsItsSamplesInOrder) {
    for (const std::size_t size : sizes) {
        const std::vector<Sample> plain = first_samples(size, plain_sample);
        expect_samples(list_of(plain), plain, std::to_string(size) + " plain");
        expect_samples(list_of(size), first_samples(size, full_sample), std::to_string(size) + " full");
    }
}

TEST(SampleList, AllChunksButTheLastAreFull) {
    for (const std::size_t size : sizes) {
        const SampleList list = list_of(size);
        EXPECT_EQ(list.chunks(), (size + chunk - 1) / chunk);
        for (std::size_t i = 0; i + 1 < list.chunks(); ++i) EXPECT_EQ(list.chunk(i).size(), chunk);
        if (size > 0) {
            EXPECT_EQ(list.chunk(list.chunks() - 1).size(), (size - 1) % chunk + 1);
        }
    }
}

TEST(SampleList, AnyColumnsThatAreNeededFromTheFirstSampleOnAreThere) {
    for (unsigned columns = 0; columns <= all_columns; ++columns) {
        const auto samples = first_samples(2 * chunk + 7, [&](std::size_t i) { return sample_with(columns, i); });
        expect_samples(list_of(samples), samples, std::to_string(columns));
    }
}

TEST(SampleList, AColumnThatIsNeededLateHasWhatCameBefore) {
    for (unsigned late = 1; late <= all_columns; late += late < 16 ? late : 5)
        for (const unsigned early : {0U, all_columns & ~late})
            for (const std::size_t first : {std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{700},
                                            chunk - 1, chunk, chunk + 1, 2 * chunk + 300}) {
                const auto samples = first_samples(
                    4 * chunk, [&](std::size_t i) { return sample_with(i < first ? early : early | late, i); });
                expect_samples(list_of(samples), samples, std::to_string(late) + " from " + std::to_string(first));
            }
}

TEST(SampleList, ASampleMayNeedAColumnThatThoseBehindItDoNot) {
    for (const std::size_t only : {std::size_t{0}, std::size_t{3}, chunk + 5}) {
        const auto samples = first_samples(
            3 * chunk, [only](std::size_t i) { return i == only ? sample_with(all_columns, i) : plain_sample(i); });
        expect_samples(list_of(samples), samples, std::to_string(only));
    }
}

TEST(SampleList, KeepsTheColumnsOfEachChunkToItself) {
    const auto samples = first_samples(3 * chunk, [](std::size_t i) {
        Sample sample = plain_sample(i);
        if (i >= chunk) sample.place = static_cast<std::uint32_t>(i);
        return sample;
    });
    const SampleList list = list_of(samples);
    EXPECT_FALSE(list.chunk(0).has_places());
    EXPECT_TRUE(list.chunk(1).has_places());
    EXPECT_TRUE(list.chunk(2).has_places());
}

TEST(SampleList, CountsStepsPastTheLargestIndex) {
    const auto samples = first_samples(2 * chunk, [](std::size_t i) {
        Sample sample = plain_sample(i);
        sample.step_index = UINT32_MAX - 20 + static_cast<std::uint32_t>(i);
        return sample;
    });
    expect_samples(list_of(samples), samples, "wrapped");
}

TEST(SampleList, LeavesWhatFilledAChunkWhereItIs) {
    SampleList list = list_of(3 * chunk);
    std::vector<const double*> places;
    for (std::size_t i = 0; i < list.chunks(); ++i) places.push_back(list.chunk(i).durations_ms().data());
    for (std::size_t i = 0; i < 20 * chunk; ++i) list.push_back(full_sample(i));
    list.seal();
    for (std::size_t i = 0; i < places.size(); ++i) EXPECT_EQ(list.chunk(i).durations_ms().data(), places[i]);
}

TEST(SampleList, GrowsOnAfterItWasSealed) {
    for (const std::size_t size : sizes)
        for (const unsigned columns : {0U, 1U, all_columns}) {
            const auto sample_of = [columns, size](std::size_t i) {
                return sample_with(i < size + 3 ? columns : all_columns, i);
            };
            SampleList list = list_of(first_samples(size, sample_of));
            list.seal();
            expect_samples(list, first_samples(size, sample_of), "sealed");
            for (std::size_t i = size; i < size + 3 * chunk; ++i) list.push_back(sample_of(i));
            expect_samples(list, first_samples(size + 3 * chunk, sample_of), "grown on");
        }
}

TEST(SampleList, ErasesWhatIsGoneAndKeepsTheOrderOfTheRest) {
    for (const std::size_t size : sizes)
        for (const std::size_t divisor : {1U, 2U, 5U, 3000U, 1'000'000U})
            for (const unsigned columns : {0U, 5U, all_columns}) {
                const auto sample_of = [columns](std::size_t i) { return sample_with(columns, i); };
                std::vector<Sample> expected = first_samples(size, sample_of);
                SampleList list = list_of(expected);
                if (divisor == 5) list.seal();
                const auto is_gone = [divisor](const Sample& sample) {
                    return static_cast<std::size_t>(sample.duration_ms) % divisor == 0;
                };
                const std::size_t erased = std::erase_if(expected, is_gone);
                EXPECT_EQ(list.erase_if(is_gone), erased);
                expect_samples(list, expected, std::to_string(size) + " by " + std::to_string(divisor));
                list.push_back(full_sample(size));
                expected.push_back(full_sample(size));
                expect_samples(list, expected, "and one more");
            }
}

TEST(SampleList, AsksOnceForEachSampleWhetherItIsGone) {
    SampleList list = list_of(2 * chunk);
    std::vector<std::size_t> asked;
    list.erase_if([&asked](const Sample& sample) {
        asked.push_back(static_cast<std::size_t>(sample.duration_ms));
        return asked.size() % 3 == 0;
    });
    ASSERT_EQ(asked.size(), 2 * chunk);
    for (std::size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(asked[i], i);
}

TEST(SampleList, AMovedOneLeavesNothingAndACopyIsItsOwn) {
    for (const std::size_t size : sizes) {
        SampleList list = list_of(size);
        const SampleList copy = list;
        SampleList moved = std::move(list);
        expect_samples(moved, first_samples(size, full_sample), "moved");
        list = SampleList{full_sample(7)};
        moved = {};
        expect_samples(list, {full_sample(7)}, "used again");
        EXPECT_TRUE(moved.empty());
        expect_samples(copy, first_samples(size, full_sample), "copied");
    }
}

TEST(SampleList, ListsOfSeveralThreadsHaveChunksOfTheirOwn) {
    std::vector<std::vector<SampleList>> of_thread(4);
    const auto samples_of = [](std::size_t thread) {
        return first_samples(9 * chunk, [thread](std::size_t i) {
            return sample_with(thread % 2 == 0 ? all_columns : 1U, i + 100 * thread);
        });
    };
    {
        std::vector<std::jthread> threads;
        for (std::size_t thread = 0; thread < of_thread.size(); ++thread)
            threads.emplace_back([&lists = of_thread[thread], samples = samples_of(thread)] {
                for (std::size_t i = 0; i < 24; ++i) {
                    if (i % 3 == 0) lists.clear();
                    lists.push_back(list_of(samples));
                }
            });
    }
    for (std::size_t thread = 0; thread < of_thread.size(); ++thread)
        for (const SampleList& list : of_thread[thread])
            expect_samples(list, samples_of(thread), "of thread " + std::to_string(thread));
}

}  // namespace
}  // namespace cep::tool
