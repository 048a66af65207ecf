// SPDX-License-Identifier: Apache-2.0
#include "base/wakeup.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace {

constexpr std::int64_t an_hour_ns = 3'600'000'000'000;

TEST(Wakeup, RemembersANotificationThatCameFirst) {
    cep::Wakeup wakeup;
    wakeup.notify();
    wakeup.notify();
    wakeup.wait(an_hour_ns);
    wakeup.wait(1);  // no notification is left: this wait ends by its timeout
}

TEST(Wakeup, EndsTheSleepOfAnotherThreadEveryTime) {
    constexpr int rounds = 2000;
    cep::Wakeup there;
    cep::Wakeup back;
    std::thread sleeper([&] {
        for (int i = 0; i < rounds; ++i) {
            there.wait(an_hour_ns);
            back.notify();
        }
    });
    for (int i = 0; i < rounds; ++i) {
        there.notify();
        back.wait(an_hour_ns);
    }
    sleeper.join();
}

}  // namespace
