// SPDX-License-Identifier: Apache-2.0
//
// A variable of the environment for each option, with a value that it can have.
#ifndef CEP_TESTS_API_OPTION_VARIABLES_H
#define CEP_TESTS_API_OPTION_VARIABLES_H

static const char* const option_variables[][2] = {
    {"CEP_ENABLE", "1"},
    {"CEP_DIRECTORY", "d"},
    {"CEP_RANK", "3"},
    {"CEP_WORLD_SIZE", "8"},
    {"CEP_LOCAL_RANK", "1"},
    {"CEP_LAYOUT", "flat"},
    {"CEP_START_STEP", "5"},
    {"CEP_END_STEP", "500"},
    {"CEP_RECORD_EVERY_N_STEPS", "2"},
    {"CEP_RANKS", "0,3,7"},
    {"CEP_MAX_FILE_BYTES", "1000000"},
    {"CEP_FLUSH_EVERY_N_STEPS", "4"},
    {"CEP_RING_CAPACITY", "64"},
    {"CEP_POOL_LIMIT", "128"},
    {"CEP_BACKEND", "host"},
    {"CEP_RUN_ID", "r1"},
    {"CEP_META", "{\"model\":1}"},
    {"CEP_MAX_OVERHEAD_PERCENT", "0.125"},
    {"CEP_CAPTURE_RANGE", "100-104@0,8"},
};

#endif
