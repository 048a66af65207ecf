// SPDX-License-Identifier: Apache-2.0
#include "sample_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

namespace cep::analysis {
namespace {

constexpr std::size_t chunk = SampleList::chunk_samples;
constexpr std::size_t sizes[] = {
    0, 1, 2, 15, 16, 17, chunk / 2, chunk - 1, chunk, chunk + 1, 2 * chunk, 7 * chunk, 7 * chunk + 9, 40 * chunk + 1};

Sample sample_of(std::size_t i) {
    return {static_cast<double>(i), static_cast<std::int64_t>(i), 0, 0, static_cast<std::uint32_t>(i), 0};
}

SampleList list_of(std::size_t size) {
    SampleList list;
    for (std::size_t i = 0; i < size; ++i) list.push_back(sample_of(i));
    return list;
}

std::vector<std::int64_t> starts_of(const SampleList& list) {
    std::vector<std::int64_t> starts;
    for (const Sample& sample : list) starts.push_back(sample.start_ns);
    return starts;
}

std::vector<std::int64_t> first_starts(std::size_t count) {
    std::vector<std::int64_t> starts;
    for (std::size_t i = 0; i < count; ++i) starts.push_back(static_cast<std::int64_t>(i));
    return starts;
}

TEST(SampleList, HoldsItsSamplesInOrder) {
    for (const std::size_t size : sizes) {
        const SampleList list = list_of(size);
        EXPECT_EQ(list.size(), size);
        EXPECT_EQ(list.empty(), size == 0);
        EXPECT_EQ(starts_of(list), first_starts(size));
        for (std::size_t i = 0; i < size; i += 97) EXPECT_EQ(list[i].start_ns, static_cast<std::int64_t>(i));
        if (size > 0) {
            EXPECT_EQ(list.back().start_ns, static_cast<std::int64_t>(size) - 1);
        }
    }
}

TEST(SampleList, CanBeSearchedByHalves) {
    for (const std::size_t size : sizes) {
        const SampleList list = list_of(size);
        for (std::size_t wanted = 0; wanted <= size; wanted += 1 + size / 37) {
            const auto found = std::partition_point(list.begin(), list.end(), [&](const Sample& sample) {
                return sample.start_ns < static_cast<std::int64_t>(wanted);
            });
            EXPECT_EQ(found - list.begin(), static_cast<std::ptrdiff_t>(wanted));
            EXPECT_EQ(list.end() - found, static_cast<std::ptrdiff_t>(size - wanted));
            EXPECT_EQ(found == list.end(), wanted == size);
            if (wanted > 0) {
                EXPECT_EQ((found - 1)->start_ns, static_cast<std::int64_t>(wanted) - 1);
            }
        }
    }
}

TEST(SampleList, LeavesWhatFilledAChunkWhereItIs) {
    SampleList list = list_of(3 * chunk);
    std::vector<const Sample*> places;
    for (const Sample& sample : list) places.push_back(&sample);
    for (std::size_t i = 0; i < 20 * chunk; ++i) list.push_back(sample_of(i));
    list.seal();
    for (std::size_t i = 0; i < places.size(); ++i) EXPECT_EQ(&list[i], places[i]);
}

TEST(SampleList, GrowsOnAfterItWasSealed) {
    for (const std::size_t size : sizes) {
        SampleList list = list_of(size);
        list.seal();
        EXPECT_EQ(starts_of(list), first_starts(size));
        for (std::size_t i = size; i < size + 3 * chunk; ++i) list.push_back(sample_of(i));
        EXPECT_EQ(starts_of(list), first_starts(size + 3 * chunk));
    }
}

TEST(SampleList, ErasesWhatIsGoneAndKeepsTheOrderOfTheRest) {
    for (const std::size_t size : sizes)
        for (const std::int64_t divisor : {1, 2, 5, 3000, 1'000'000}) {
            SampleList list = list_of(size);
            if (divisor == 5) list.seal();
            std::vector<std::int64_t> expected = first_starts(size);
            const std::size_t erased = std::erase_if(expected, [&](std::int64_t i) { return i % divisor == 0; });
            EXPECT_EQ(list.erase_if([&](const Sample& sample) { return sample.start_ns % divisor == 0; }), erased);
            EXPECT_EQ(starts_of(list), expected);
            EXPECT_EQ(list.empty(), expected.empty());
            list.push_back(sample_of(size));
            expected.push_back(static_cast<std::int64_t>(size));
            EXPECT_EQ(starts_of(list), expected);
        }
}

TEST(SampleList, AMovedOneLeavesNothingAndACopyIsItsOwn) {
    for (const std::size_t size : sizes) {
        SampleList list = list_of(size);
        const SampleList copy = list;
        SampleList moved = std::move(list);
        EXPECT_EQ(starts_of(moved), first_starts(size));
        list = SampleList{sample_of(7)};
        moved = {};
        EXPECT_EQ(starts_of(list), (std::vector<std::int64_t>{7}));
        EXPECT_TRUE(moved.empty());
        EXPECT_EQ(starts_of(copy), first_starts(size));
    }
}

TEST(SampleList, ListsOfSeveralThreadsHaveChunksOfTheirOwn) {
    std::vector<std::vector<SampleList>> of_thread(4);
    {
        std::vector<std::jthread> threads;
        for (std::vector<SampleList>& lists : of_thread)
            threads.emplace_back([&lists] {
                for (std::size_t i = 0; i < 24; ++i) {
                    if (i % 3 == 0) lists.clear();
                    lists.push_back(list_of(9 * chunk));
                }
            });
    }
    for (const std::vector<SampleList>& lists : of_thread)
        for (const SampleList& list : lists) EXPECT_EQ(starts_of(list), first_starts(9 * chunk));
}

}  // namespace
}  // namespace cep::analysis
