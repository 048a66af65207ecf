// SPDX-License-Identifier: Apache-2.0
//
// Exposition: metrics in the text format of Prometheus.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cep::tool {

struct Label {
    std::string_view name;
    std::string_view value;  // may be any text
};
using Labels = std::initializer_list<Label>;

enum class MetricType : std::uint8_t { gauge, counter, summary };

class Exposition {
  public:
    /// Begins a metric; its samples follow. `help` is one sentence without a full stop.
    void begin(std::string_view name, MetricType type, std::string_view help);
    /// A sample of the metric, or of the metric with an ending such as "_sum".
    void sample(Labels labels, double value, std::string_view ending = "");

    /// A metric with one sample; nothing where the value is not known.
    void gauge(std::string_view name, std::string_view help, const std::optional<double>& value);
    void counter(std::string_view name, std::string_view help, const std::optional<double>& value);

    [[nodiscard]] const std::string& text() const { return text_; }

  private:
    void single(std::string_view name, MetricType type, std::string_view help, const std::optional<double>& value);

    std::string name_;
    std::string text_;
};

}  // namespace cep::tool
