// SPDX-License-Identifier: Apache-2.0
//
// What tools/wheel/old_glibc.c puts in the place of newer functions of the C library, with the static C++ runtime that
// uses it: exceptions are caught in every thread, and random numbers differ.
#include <cstdint>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <thread>

extern "C" std::uint32_t arc4random();
extern "C" int _dl_find_object(void* address, void* found);

namespace {

int failures = 0;

void check(bool holds, const char* what) {
    if (!holds) {
        std::printf("not so: %s\n", what);
        ++failures;
    }
}

[[noreturn]] void throw_from_depth(int depth) {
    if (depth > 0) throw_from_depth(depth - 1);
    throw std::runtime_error("from the depth");
}

bool catches_exceptions() {
    for (int depth = 0; depth < 20; ++depth) {
        try {
            throw_from_depth(depth);
        } catch (const std::runtime_error&) {
            continue;
        }
    }
    return true;
}

}  // namespace

int main() {
    check(catches_exceptions(), "the main thread catches exceptions");
    bool caught = false;
    std::thread([&caught] { caught = catches_exceptions(); }).join();
    check(caught, "another thread catches exceptions");

    alignas(void*) unsigned char found[128];
    int on_stack = 0;
    check(_dl_find_object(reinterpret_cast<void*>(&throw_from_depth), found) == 0, "a function is in an object");
    check(_dl_find_object(&on_stack, found) == -1, "the stack is in none");

    std::random_device device;
    check(device() != device() || device() != device(), "a random device gives different numbers");
    check(arc4random() != arc4random() || arc4random() != arc4random(), "random numbers differ");
    return failures == 0 ? 0 : 1;
}
