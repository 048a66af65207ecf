// SPDX-License-Identifier: Apache-2.0
//
// Time that a test lets pass. A program that links passing_time.cpp has clocks that run as always and jump forward when
// the test says so; what the program loads (libcep, the fake driver) reads the same clocks.
#pragma once

#include <cstdint>

namespace cep::test {

/// Lets time pass while both threads of the library sleep, and wakes those that slept until then. So no measurement of
/// theirs falls into the jump. False: they did not sleep within a minute.
[[nodiscard]] bool pass_time(std::int64_t ns);

/// Lets time pass at once, whatever the library's threads do.
void skip_time(std::int64_t ns);

}  // namespace cep::test
