// SPDX-License-Identifier: Apache-2.0
//
// A warm trainer's thread allocates nothing.
#include <stddef.h>

#include "allocations.h"
#include "trainer.h"

typedef struct phases {
    cep_profiler* profiler;
    cep_region *step, *forward, *backward;
} phases;

static void train(const phases* job, int64_t step) {
    (void)cep_step(job->profiler, step);
    const cep_span whole = cep_begin(job->step, CEP_HOST);
    const cep_span forward = cep_begin(job->forward, CEP_HOST);
    const cep_span backward = cep_switch(forward, job->backward, CEP_HOST);
    cep_end(job->backward, backward, CEP_HOST);
    (void)cep_phase(job->profiler, job->forward, CEP_HOST);
    (void)cep_phase(job->profiler, job->backward, CEP_HOST);
    (void)cep_record(job->forward, 0, 1000, NULL);
    (void)cep_counter(job->profiler, "loss", 0.5);
    cep_end(job->step, whole, CEP_HOST);
}

static phases open_job(int64_t stride) {
    cep_profiler* profiler = open_every(stride);
    return (phases){profiler, cep_region_get(profiler, "training_step", CEP_KIND_AUTO),
                    cep_region_get(profiler, "forward", CEP_KIND_AUTO),
                    cep_region_get(profiler, "backward", CEP_KIND_AUTO)};
}

static void check_no_allocation(int64_t stride) {
    if (!allocations_can_be_counted()) check_skip("the allocator is the sanitizer's");
    enum { warm_up_steps = 100, steps = 1000 };
    const phases job = open_job(stride);
    CHECK(allocations_of_this_thread() > 0);
    for (int64_t step = 0; step < warm_up_steps; ++step) train(&job, step);
    const unsigned long before = allocations_of_this_thread();
    for (int64_t step = warm_up_steps; step < warm_up_steps + steps; ++step) train(&job, step);
    CHECK_EQ(allocations_of_this_thread() - before, 0);
    close_now(job.profiler);
}

TEST_THAT(a_warm_trainer_thread_allocates_nothing_when_every_step_is_recorded, check_no_allocation(1))
TEST_THAT(a_warm_trainer_thread_allocates_nothing_when_every_tenth_step_is_recorded, check_no_allocation(10))

TEST(metadata_is_copied_without_allocation_by_a_warm_thread) {
    if (!allocations_can_be_counted()) check_skip("the allocator is the sanitizer's");
    const phases job = open_job(1);
    const cep_attrs attrs = {.struct_size = sizeof attrs, .bytes = 1, .group = "dp", .coll = 3, .meta = "{\"a\":[1]}"};
    unsigned long before = 0;
    for (int64_t step = 0; step < 400; ++step) {
        if (step == 200) before = allocations_of_this_thread();
        (void)cep_step(job.profiler, step);
        cep_end(job.forward, cep_begin_with(job.forward, CEP_HOST, &attrs), CEP_HOST);
    }
    CHECK_EQ(allocations_of_this_thread() - before, 0);
    close_now(job.profiler);
}
