// SPDX-License-Identifier: Apache-2.0
#include "record/name_table.hpp"

#include <array>
#include <string>

#include "checks.hpp"

namespace {

using namespace model;

/// A name that records its reads.
struct Watched {
    explicit Watched(std::string_view name) : text{std::string(name), 0} {}
    struct Text {
        std::string name;
        Plain<char> watch;
        bool operator==(std::string_view other) const noexcept { return std::string_view(*this) == other; }
        operator std::string_view() const noexcept {  // NOLINT(google-explicit-constructor)
            (void)static_cast<char>(watch);
            return name;
        }
    } text;
    Plain<Watched*> older = nullptr;
    Plain<Watched*> next = nullptr;
    Plain<std::size_t> number = 0;
};

Watched* make(std::string_view name) {
    return new Watched(name);
}

/// Each thread adds its names to a table of `Limit`.
template <std::size_t Limit>
struct Adding : Scenario {
    Watched* add(std::string_view name) { return table.find_or_add(name, make); }
    cep::NameTable<Watched> table{Limit};
};

/// Two threads add the same name to the last free place: both get its node.
struct SameName : Adding<1> {
    void run(std::size_t thread) override { got.at(thread) = add("a"); }
    void finish() override {
        require(got[1] != nullptr && got[1] == got[2], "refused, or there twice");
        require(table.find("a") == got[1], "not found");
        require(add("b") == nullptr, "more than the limit");
    }
    std::array<Watched*, 3> got{};
};

TEST_THAT(NameTableModel, GivesBothThreadsTheNodeOfTheSameNameInTheLastPlace, model::expect_holds(maker_of<SameName>()))

/// Two places, two threads that add the same name, and a third with another name: none is refused.
struct SameNameAndAnother : Adding<2> {
    [[nodiscard]] std::size_t threads() const override { return 3; }
    void run(std::size_t thread) override { got.at(thread) = add(thread == 3 ? "b" : "a"); }
    void finish() override {
        require(got[1] != nullptr && got[3] != nullptr, "refused although there is a place");
        require(got[1] == got[2], "there twice");
        require(table.find("a") == got[1] && table.find("b") == got[3], "not found");
        require(add("c") == nullptr, "more than the limit");
    }
    std::array<Watched*, 4> got{};
};

TEST_THAT(NameTableModel, RefusesNoThreadForANameThatIsAddedTwice, model::expect_holds(maker_of<SameNameAndAnother>()))

/// One place, two names: one of them gets it.
struct LastPlace : Adding<1> {
    void run(std::size_t thread) override { got.at(thread) = add(thread == 1 ? "a" : "b"); }
    void finish() override { require((got[1] == nullptr) != (got[2] == nullptr), "not one of the two"); }
    std::array<Watched*, 3> got{};
};

TEST_THAT(NameTableModel, GivesTheLastPlaceToOneOfTwoNames, model::expect_holds(maker_of<LastPlace>()))

/// Two threads add two names of one bucket in opposite order. Each finds the names that it has added.
struct SameBucket : Adding<2> {
    void run(std::size_t thread) override {
        for (std::size_t i = 0; i < 2; ++i) {
            const std::size_t name = thread == 1 ? i : 1 - i;
            got.at(thread).at(name) = add(name == 0 ? "b" : "a334");
        }
    }
    void finish() override {
        require(got[1] == got[2] && got[1][0] != nullptr, "not the same names");
        require(table.find("b") == got[1][0] && table.find("a334") == got[1][1], "not found");
    }
    std::array<std::array<Watched*, 2>, 3> got{};
};

TEST_THAT(NameTableModel, AgreesOnNamesThatAreAddedInOppositeOrder, model::expect_holds(maker_of<SameBucket>()))

TEST(NameTableModel, NeedsEachOfItsOrders) {
    model::expect_no_survivor(
        {maker_of<SameName>(), maker_of<LastPlace>(), maker_of<SameBucket>(), maker_of<SameNameAndAnother>()},
        "name_table.hpp",
        // A lost update of this count only costs time: the table then searches all names.
        {"link: update in two steps"});
}

}  // namespace
