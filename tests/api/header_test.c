/* SPDX-License-Identifier: Apache-2.0 */
/* The header alone, as C99. */
#include <cep/cep.h>

int cep_header_compiles_as_c99(void);
int cep_header_compiles_as_c99(void) {
    cep_options options = {0};
    cep_stats stats = {0};
    cep_attrs attrs = {0};
    return (int)(options.struct_size + stats.struct_size + attrs.struct_size) + (CEP_SPAN_INNERMOST == CEP_SPAN_NONE);
}
