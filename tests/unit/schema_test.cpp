// SPDX-License-Identifier: Apache-2.0
#include "schema.hpp"

#include <gtest/gtest.h>

#include "cep/cep.h"

namespace {

using cep::schema::infer_kind;
using cep::schema::Kind;

TEST(Schema, KindsHaveTheValuesOfTheHeader) {
    EXPECT_EQ(static_cast<int>(Kind::infer), CEP_KIND_AUTO);
    EXPECT_EQ(static_cast<int>(Kind::step), CEP_KIND_STEP);
    EXPECT_EQ(static_cast<int>(Kind::compute), CEP_KIND_COMPUTE);
    EXPECT_EQ(static_cast<int>(Kind::comm), CEP_KIND_COMM);
    EXPECT_EQ(static_cast<int>(Kind::data), CEP_KIND_DATA);
    EXPECT_EQ(static_cast<int>(Kind::memory), CEP_KIND_MEMORY);
    EXPECT_EQ(static_cast<int>(Kind::host), CEP_KIND_HOST);
    EXPECT_EQ(static_cast<int>(Kind::other), CEP_KIND_OTHER);
}

TEST(Schema, KindNamesGoBothWays) {
    for (int i = CEP_KIND_STEP; i <= CEP_KIND_OTHER; ++i) {
        const Kind kind = static_cast<Kind>(i);
        EXPECT_EQ(cep::schema::kind_from_name(cep::schema::kind_name(kind)), kind);
    }
    EXPECT_EQ(cep::schema::kind_from_name("a kind of the future"), Kind::other);
}

struct Named {
    const char* name;
    Kind kind;
};

class InferredKind : public testing::TestWithParam<Named> {};

TEST_P(InferredKind, FollowsTheWordsOfTheName) {
    EXPECT_EQ(infer_kind(GetParam().name), GetParam().kind);
}

INSTANTIATE_TEST_SUITE_P(
    Names, InferredKind,
    testing::Values(Named{"all_reduce", Kind::comm}, Named{"AllReduce", Kind::comm},
                    Named{"grad-reduce-scatter", Kind::comm}, Named{"dp.all_gather", Kind::comm},
                    Named{"ncclAllGather", Kind::comm}, Named{"comm", Kind::comm}, Named{"mm", Kind::compute},
                    Named{"command", Kind::other}, Named{"forward", Kind::compute},
                    Named{"forward/layer.3", Kind::compute}, Named{"optimizer_step", Kind::compute},
                    Named{"training_step", Kind::step}, Named{"step", Kind::step}, Named{"stepwise", Kind::other},
                    Named{"data_load", Kind::data}, Named{"DataLoader", Kind::data}, Named{"h2d", Kind::data},
                    Named{"host_to_device", Kind::data}, Named{"device_to_host", Kind::memory},
                    Named{"training_metrics", Kind::host}, Named{"save_checkpoint", Kind::host},
                    Named{"summary", Kind::other}, Named{"data_parallel_forward", Kind::compute},
                    Named{"activation_checkpoint_recompute", Kind::compute}, Named{"embedding_gather", Kind::compute},
                    Named{"send_metrics_to_wandb", Kind::host}, Named{"layer_norm", Kind::compute},
                    Named{"batch_norm", Kind::compute}, Named{"update_weights", Kind::compute}, Named{"", Kind::other},
                    Named{"___", Kind::other}, Named{"été", Kind::other}));

TEST(Schema, InfersFromNamesLongerThanItReads) {
    EXPECT_EQ(infer_kind("all_reduce_" + std::string(4000, 'x')), Kind::comm);
}

}  // namespace
