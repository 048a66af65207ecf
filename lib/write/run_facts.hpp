// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/device.hpp"

namespace cep {

/// The members given to cep_set_meta(), as JSON texts by key. Known keys and other keys are kept apart.
class RunMeta {
  public:
    /// Checks and merges an object. Returns CEP_EJSON, or CEP_ELIMIT if all members together would take more than
    /// max_run_meta_bytes. May throw bad_alloc. On any error nothing is merged.
    [[nodiscard]] std::int32_t merge(const char* json);

    /// Appends `,"dp":0,…,"meta":{…}`.
    void append_members(std::string& out) const;
    /// All members as one object.
    [[nodiscard]] std::string as_object() const;

  private:
    struct Member {
        std::string quoted_key;
        std::string value;
        bool known;
    };

    [[nodiscard]] std::int32_t add(std::string_view object);
    void set(std::string_view quoted_key, std::string_view value, bool known);
    void append(std::string& out, bool known) const;

    std::vector<Member> members_;
};

/// The contents of a `run` row beyond the options.
struct RunFacts {
    std::int64_t attempt = 1;
    std::int64_t start_unix_ns = 0;
    std::int64_t clock_error_ns = 0;  ///< of UNIX time against the monotonic clock
    DeviceFacts device;
    RunMeta meta;
};

}  // namespace cep
