// SPDX-License-Identifier: Apache-2.0
//
// CEP_TEST_SANITIZED: 1 where a sanitizer has the allocator, the clocks and the loader to itself.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CEP_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CEP_TEST_SANITIZED 1
#endif
#endif
#ifndef CEP_TEST_SANITIZED
#define CEP_TEST_SANITIZED 0
#endif
