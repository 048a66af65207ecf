// SPDX-License-Identifier: Apache-2.0
//
// The main() of programs that hold the tests of several files. It runs the tests of one file, or of all:
//
//     PROGRAM [FILE] [OPTION OF GOOGLETEST]...
//
// One program compiles what all files include once, and links once.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

/// A filter of GoogleTest for the file's tests. Empty if it has none.
std::string tests_of(std::string_view file) {
    const std::string ending = "/" + std::string(file);
    std::string filter;
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
        const testing::TestSuite& suite = *all.GetTestSuite(i);
        for (int j = 0; j < suite.total_test_count(); ++j) {
            const testing::TestInfo& test = *suite.GetTestInfo(j);
            if (("/" + std::string(test.file())).ends_with(ending)) {
                filter += std::string(filter.empty() ? "" : ":") + suite.name() + "." + test.name();
            }
        }
    }
    return filter;
}

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (argc > 2) {
        std::fprintf(stderr, "usage: %s [FILE] [OPTION OF GOOGLETEST]...\n", argv[0]);
        return 2;
    }
    if (argc == 2) {
        const std::string of_file = tests_of(argv[1]);
        if (of_file.empty()) {
            std::fprintf(stderr, "no tests of %s\n", argv[1]);
            return 2;
        }
        const bool has_filter_of_user = testing::GTEST_FLAG(filter) != "*";
        if (!has_filter_of_user) testing::GTEST_FLAG(filter) = of_file;
    }
    return RUN_ALL_TESTS();
}
