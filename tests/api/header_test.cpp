// SPDX-License-Identifier: Apache-2.0
// Compiles the header alone as C++.
#include <cep/cep.h>

#include <type_traits>

static_assert(std::is_standard_layout<cep_options>::value && std::is_trivial<cep_options>::value, "a C struct");
static_assert(std::is_standard_layout<cep_stats>::value && std::is_trivial<cep_stats>::value, "a C struct");
static_assert(std::is_standard_layout<cep_attrs>::value && std::is_trivial<cep_attrs>::value, "a C struct");
static_assert(std::is_same<decltype(cep_begin(nullptr, CEP_HOST)), cep_span>::value, "declared with C linkage");
