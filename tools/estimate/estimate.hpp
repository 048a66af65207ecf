// SPDX-License-Identifier: Apache-2.0
//
// Estimate: the figures of a training, each with the formula that it comes from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimate/formulas.hpp"
#include "estimate/training.hpp"
#include "estimate/what_if.hpp"
#include "show/document.hpp"

namespace cep::estimate {

enum class Unit : std::uint8_t { number, flops, bytes, ms, share };

struct Figure {
    std::string key;  // of JSON and CSV, unique in its section
    std::string name;
    double value = 0;
    Unit unit = Unit::number;
    std::string how{};  // the formula, with its numbers or its source
    std::optional<double> measured{};
};

struct Section {
    std::string key;
    std::string title;
    std::vector<Figure> figures;
};

struct Estimate {
    Training training;
    std::vector<Section> sections;
    std::vector<BucketSize> buckets;
    std::optional<WhatIf> what_if{};  // of a job
};

/// For a model that is known. Throws UsageError where numbers contradict each other.
[[nodiscard]] Estimate make_estimate(Training training, const Measured& measured);

/// `measured` is the name of the job whose figures stand beside the estimate; "" for none.
[[nodiscard]] tool::Document make_document(Estimate estimate, const std::string& measured);

}  // namespace cep::estimate
