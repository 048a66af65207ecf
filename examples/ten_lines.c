/* SPDX-License-Identifier: Apache-2.0 */
#include <cep/cep.h>

int main(void) {
    cep_options options;
    cep_profiler *profiler;
    if (cep_options_init(&options, sizeof options) != CEP_OK || cep_open(&options, &profiler) != CEP_OK) return 1;
    cep_region *forward = cep_region_get(profiler, "forward", CEP_KIND_AUTO);
    for (int64_t step = 0; step < 100; ++step) {
        cep_step(profiler, step);
        cep_span span = cep_begin(forward, CEP_HOST);
        for (volatile int work = 0; work < 10000000; ++work) continue;
        cep_end(forward, span, CEP_HOST);
    }
    return cep_close(profiler, 5000) == CEP_OK ? 0 : 1;
}
