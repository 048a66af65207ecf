// SPDX-License-Identifier: Apache-2.0
//
// Memory runs out in the library's threads while spans are on a GPU.
#include <string>

#include "allocations.h"
#include "profiler_fixture.hpp"

namespace cep::test {
namespace {

class MemoryFaultTest : public FakeProfilerTest {
  protected:
    void SetUp() override {
        if (!allocations_can_be_counted()) GTEST_SKIP() << "the sanitizer replaces the allocator";
        FakeProfilerTest::SetUp();
        allocations_spare_this_thread();
    }
    void TearDown() override {
        allocations_work();
        FakeProfilerTest::TearDown();
    }

    /// The threads run, and the fake driver has allocated its memory for each of them.
    void open_warm() {
        open();
        span("warm", new_stream());
        (void)flushed_rows();
    }

    /// Records spans while memory runs out. All later spans must be written.
    void train_through_a_shortage() {
        CUstream stream = new_stream();
        cep_attrs attrs = CEP_ATTRS_INIT;
        attrs.meta = "{\"note\":\"text that is longer than a short string holds\"}";
        for (int i = 0; i < 50; ++i) {
            const cep_span begun = cep_begin_with(region("during"), stream, &attrs);
            cep_end(region("during"), begun, stream);
            if (i % 10 == 9) (void)cep_flush(profiler, 20);
        }
        allocations_work();
        for (int i = 0; i < 10; ++i) span("after", stream);
        const Rows written = flushed_rows();
        EXPECT_EQ(written.spans("after").size(), 10U);
        expect_all_accounted_for();
        EXPECT_EQ(cep_close(profiler, patience_ms), CEP_OK) << cep_last_error();
        EXPECT_EQ(stats().pending, 0U);
        expect_all_accounted_for();
        EXPECT_EQ(rows().spans().size(), stats().written);
        std::filesystem::remove(path());
    }

    /// `fail` makes the allocation at a place fail, or all from there on.
    void train_through_shortages(long places, void (*fail)(long place)) {
        for (long place = 1; place <= places; ++place) {
            SCOPED_TRACE("place " + std::to_string(place));
            open_warm();
            fail(place);
            train_through_a_shortage();
            if (HasFailure()) return;
        }
    }
};

TEST_F(MemoryFaultTest, OneFailedAllocationOfTheLibrarysThreadsIsSurvived) {
    train_through_shortages(200, allocations_fail_nth);
}

TEST_F(MemoryFaultTest, ShortageInTheLibrarysThreadsIsTemporary) {
    train_through_shortages(60, allocations_fail_from);
}

// Memory runs out while the poller works on its queues.
TEST_F(MemoryFaultTest, ShortageWhileSpansArePendingLeavesThemToBeResolved) {
    for (long place = 1; place <= 60; ++place) {
        SCOPED_TRACE("place " + std::to_string(place));
        CUstream stream = open_with_stream();
        for (int i = 0; i < 10; ++i) write_span("warm", stream);
        plug(stream);
        allocations_fail_nth(place);
        for (int i = 0; i < 20; ++i) span("pending", stream);
        (void)cep_flush(profiler, 5);
        unplug();
        (void)cep_flush(profiler, patience_ms);
        allocations_work();
        for (int i = 0; i < 10; ++i) span("after", stream);
        EXPECT_EQ(flushed_rows().spans("after").size(), 10U);
        expect_all_accounted_for();
        EXPECT_EQ(cep_close(profiler, patience_ms), CEP_OK) << cep_last_error();
        expect_all_accounted_for();
        std::filesystem::remove(path());
        if (HasFailure()) return;
    }
}

}  // namespace
}  // namespace cep::test
