// SPDX-License-Identifier: Apache-2.0
//
// cep.hpp with a library of another version. This program is linked to other_library.cpp.
#include <gtest/gtest.h>

#include <cep/cep.hpp>
#include <cstdlib>
#include <string>

namespace {

constexpr std::int32_t code_of_the_future = -99;

class OtherLibrary : public testing::Test {
  protected:
    ~OtherLibrary() override {
        unsetenv("TEST_CEP_VERSION");
        unsetenv("TEST_CEP_OPEN_FAILS");
    }
};

template <typename Call>
void expect_unknown_code(Call call) {
    try {
        call();
        FAIL() << "nothing thrown";
    } catch (const cep::Error& error) {
        EXPECT_EQ(error.code(), code_of_the_future);
        EXPECT_STREQ(error.what(), "flux: capacitor empty");
    }
}

TEST_F(OtherLibrary, UnknownCodesAreKeptInExceptions) {
    cep::Profiler profiler(cep::Options{});
    expect_unknown_code([&] { profiler.set_meta("{}"); });
    expect_unknown_code([&] { (void)profiler.stats(); });
    expect_unknown_code([&] { profiler.flush(); });
    expect_unknown_code([&] { profiler.close(); });
}

TEST_F(OtherLibrary, UnknownCodesOfTheStepLoopAreReturned) {
    cep::Profiler profiler(cep::Options{});
    EXPECT_EQ(profiler.step(0), code_of_the_future);
    EXPECT_EQ(profiler.counter("loss", 1.0), code_of_the_future);
    EXPECT_EQ(profiler.mark("restart"), code_of_the_future);
    EXPECT_EQ(profiler.region("forward").record(0, 1), code_of_the_future);
    EXPECT_EQ(profiler.region("forward").begin().end(cep::Attributes()), code_of_the_future);
}

TEST_F(OtherLibrary, UnknownCodeOfOpenIsAnException) {
    setenv("TEST_CEP_OPEN_FAILS", "1", 1);
    expect_unknown_code([] { cep::Profiler(cep::Options{}); });
}

TEST_F(OtherLibrary, AnotherMinorVersionIsRefused) {
    setenv("TEST_CEP_VERSION", "0.99.0", 1);
    try {
        const cep::Options options;
        FAIL() << "nothing thrown";
    } catch (const cep::Error& error) {
        const std::string needed = std::to_string(CEP_VERSION_MAJOR) + "." + std::to_string(CEP_VERSION_MINOR);
        EXPECT_EQ(error.what(), "this is libcep 0.99.0; this program needs " + needed + ".x");
    }
}

}  // namespace
