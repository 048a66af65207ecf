// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <new>

#include "base/error.hpp"
#include "base/system_call.hpp"
#include "cep/cep.h"

namespace cep {

/// Runs `body` and turns an exception into a code: no function of cep.h throws.
template <class Body>
std::int32_t guarded(const char* function, Body body) noexcept {
    const KeepErrno keep;
    try {
        return body();
    } catch (const std::bad_alloc&) {
        return fail(CEP_ENOMEM, "%s: out of memory", function);
    } catch (const std::exception& error) {
        return fail(CEP_EINTERNAL, "%s: %s", function, error.what());
    } catch (...) {
        return fail(CEP_EINTERNAL, "%s: unknown exception", function);
    }
}

}  // namespace cep
