// SPDX-License-Identifier: Apache-2.0
#include "model/phase_series.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace cep::tool {
namespace {

constexpr std::size_t chunk = SampleList::chunk_samples;
constexpr std::size_t sizes[] = {
    0, 1, 2, 15, 16, 17, chunk / 2, chunk - 1, chunk, chunk + 1, 2 * chunk, 7 * chunk, 7 * chunk + 9, 40 * chunk + 1};

Sample sample_of(std::size_t i) {
    const auto number = static_cast<std::uint32_t>(i);
    return {static_cast<double>(i),
            static_cast<std::int64_t>(i) << 33,
            0.5F * static_cast<float>(i),
            3 * number + 1,
            number / 3,
            number % 4};
}

std::vector<Sample> first_samples(std::size_t count) {
    std::vector<Sample> samples;
    for (std::size_t i = 0; i < count; ++i) samples.push_back(sample_of(i));
    return samples;
}

SampleList list_of(std::size_t size) {
    SampleList list;
    for (std::size_t i = 0; i < size; ++i) list.push_back(sample_of(i));
    return list;
}

bool are_same(const Sample& a, const Sample& b) {
    return a.duration_ms == b.duration_ms && a.start_ns == b.start_ns && a.lag_ms == b.lag_ms &&
           a.collective == b.collective && a.step_index == b.step_index && a.attributes == b.attributes;
}

/// By each way to read it.
void expect_samples(const SampleList& list, const std::vector<Sample>& expected, const std::string& what) {
    ASSERT_EQ(list.size(), expected.size()) << what;
    EXPECT_EQ(list.empty(), expected.empty()) << what;
    std::size_t different = 0;
    std::size_t next = 0;
    for (const Sample& sample : list) different += !are_same(sample, expected[next++]);
    EXPECT_EQ(next, expected.size()) << what;
    for (std::size_t i = 0; i < expected.size(); ++i) different += !are_same(list[i], expected[i]);
    std::size_t first = 0;
    for (std::size_t i = 0; i < list.chunks(); first += list.chunk(i++).size())
        for (std::size_t at = 0; at < list.chunk(i).size(); ++at)
            different += !are_same(list.chunk(i)[at], expected.at(first + at));
    EXPECT_EQ(first, expected.size()) << what;
    EXPECT_EQ(different, 0U) << what;
    if (expected.empty()) return;
    EXPECT_TRUE(are_same(list.back(), expected.back())) << what;
}

TEST(SampleList, HoldsItsSamplesInOrder) {
    for (const std::size_t size : sizes) expect_samples(list_of(size), first_samples(size), std::to_string(size));
}

TEST(SampleList, LeavesWhatFilledAChunkWhereItIs) {
    SampleList list = list_of(3 * chunk);
    std::vector<const Sample*> places;
    for (std::size_t i = 0; i < list.chunks(); ++i) places.push_back(list.chunk(i).data());
    for (std::size_t i = 0; i < 20 * chunk; ++i) list.push_back(sample_of(i));
    list.seal();
    for (std::size_t i = 0; i < places.size(); ++i) EXPECT_EQ(list.chunk(i).data(), places[i]);
}

TEST(SampleList, GrowsOnAfterItWasSealed) {
    for (const std::size_t size : sizes) {
        SampleList list = list_of(size);
        list.seal();
        expect_samples(list, first_samples(size), "sealed");
        for (std::size_t i = size; i < size + 3 * chunk; ++i) list.push_back(sample_of(i));
        expect_samples(list, first_samples(size + 3 * chunk), "grown on");
    }
}

TEST(SampleList, ErasesWhatIsGoneAndKeepsTheOrderOfTheRest) {
    for (const std::size_t size : sizes)
        for (const std::size_t divisor : {1U, 2U, 5U, 3000U, 1'000'000U}) {
            std::vector<Sample> expected = first_samples(size);
            SampleList list = list_of(size);
            if (divisor == 5) list.seal();
            const auto is_gone = [divisor](const Sample& sample) {
                return static_cast<std::size_t>(sample.duration_ms) % divisor == 0;
            };
            const std::size_t erased = std::erase_if(expected, is_gone);
            EXPECT_EQ(list.erase_if(is_gone), erased);
            expect_samples(list, expected, std::to_string(size) + " by " + std::to_string(divisor));
            list.push_back(sample_of(size));
            expected.push_back(sample_of(size));
            expect_samples(list, expected, "and one more");
        }
}

TEST(SampleList, AMovedOneLeavesNothingAndACopyIsItsOwn) {
    for (const std::size_t size : sizes) {
        SampleList list = list_of(size);
        const SampleList copy = list;
        SampleList moved = std::move(list);
        expect_samples(moved, first_samples(size), "moved");
        list = SampleList{sample_of(7)};
        moved = {};
        expect_samples(list, {sample_of(7)}, "used again");
        EXPECT_TRUE(moved.empty());
        expect_samples(copy, first_samples(size), "copied");
    }
}

}  // namespace
}  // namespace cep::tool
