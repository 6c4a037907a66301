// SPDX-License-Identifier: Apache-2.0
/* What the tests of all rooms share: Criterion, the status of a call, values that free themselves, graphs from text. */
#pragma once

#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/scope.h"
#include "base/status.h"
#include "tests/extent.h"
#include "tests/graph_reader/graph_reader.h"
#include "tests/splitmix.h"

/* The status of this thread's last call that was given ST. */
extern _Thread_local struct qc_status failure;
static inline struct qc_status *clear_failure(void)
{
    failure = QC_STATUS_INIT;
    return &failure;
}
#define ST clear_failure()

/* The call succeeds; MUST ends the test if it does not. */
#define MUST(...) cr_assert((__VA_ARGS__), "%s", failure.message)
#define SHOULD(...) cr_expect((__VA_ARGS__), "%s", failure.message)

/* The call fails, and its message has this part. */
#define FAILS(call, part) cr_expect(!(call) && strstr(failure.message, part), "'%s' in '%s'", part, failure.message)
/* It fails with this code too; in a table, of the row of this name. */
#define REFUSES(call, refusal, part) REFUSES_ROW("", call, refusal, part)
#define REFUSES_ROW(name, call, refusal, part)                                                                         \
    cr_expect(!(call) && failure.code == (refusal) && strstr(failure.message, part),                                   \
              "%s: code %d and '%s' in %d '%s'", name, (int)(refusal), part, (int)failure.code, failure.message)

/* All of these hold; the number of the first that does not is in the message. MUST_HOLD ends the test. */
#define HOLD(...) ALL_HOLD(cr_expect_eq, __VA_ARGS__)
#define MUST_HOLD(...) ALL_HOLD(cr_assert_eq, __VA_ARGS__)
#define ALL_HOLD(equal, ...)                                                                                           \
    do {                                                                                                               \
        const bool held[] = {__VA_ARGS__};                                                                             \
        const size_t held_count = sizeof held;                                                                         \
        equal(count_held(held, held_count), held_count, "condition %zu of %s", 1 + count_held(held, held_count),       \
              #__VA_ARGS__);                                                                                           \
    } while (0)
static inline size_t count_held(const bool *held, size_t count)
{
    size_t n = 0;
    while (n < count && held[n]) n++;
    return n;
}

/* {.a = 1, .b = 2}, in lines that clang-format fills. */
#define FIELDS(...)                                                                                                    \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* OWN(qc_graph) *g = ...: freed at the end of the scope; see base/scope.h. */
#define OWN(type) __attribute__((cleanup(own_##type), unused)) struct type
#define OWNED(type, end)                                                                                               \
    struct type;                                                                                                       \
    void end(struct type *owned);                                                                                      \
    static inline void own_##type(struct type **owned)                                                                 \
    {                                                                                                                  \
        end(*owned);                                                                                                   \
    }
OWNED(qc_tensor, qc_tensor_unref)
OWNED(qc_activation_cache, qc_activation_cache_free)
OWNED(qc_archive, qc_archive_free)
OWNED(qc_channel_histogram, qc_channel_histogram_free)
OWNED(qc_channel_locks, qc_channel_locks_free)
OWNED(qc_collection, qc_collection_free)
OWNED(qc_dataset, qc_dataset_free)
OWNED(qc_dataset_scratch, qc_dataset_scratch_free)
OWNED(qc_deflate, qc_deflate_free)
OWNED(qc_graph, qc_graph_free)
OWNED(qc_histogram, qc_histogram_free)
OWNED(qc_job, qc_job_free)
OWNED(qc_json, qc_json_free)
OWNED(qc_known_outputs, qc_known_outputs_free)
OWNED(qc_measurement, qc_measurement_free)
OWNED(qc_memo, qc_memo_free)
OWNED(qc_memory_data, qc_memory_data_free)
OWNED(qc_moments, qc_moments_free)
OWNED(qc_output, qc_output_free)
OWNED(qc_partition, qc_partition_free)
OWNED(qc_plan, qc_plan_free)
OWNED(qc_plugins, qc_plugins_free)
OWNED(qc_product, qc_product_free)
OWNED(qc_rules, qc_rules_free)
OWNED(qc_runner, qc_runner_free)
OWNED(qc_scan, qc_scan_free)
OWNED(qc_second_moments, qc_second_moments_free)
OWNED(qc_sensitivity, qc_sensitivity_free)
OWNED(qc_trials, qc_trials_free)
OWNED(qc_variants, qc_variants_free)
OWNED(qc_weight_rounding, qc_weight_rounding_free)
OWNED(qc_writer, qc_writer_free)

/* The arena of this thread, which lives as long as its process: for a case that needs one until its end. */
struct qc_arena *test_arena(void);

/* Reads a graph; ends the test if the text is wrong. */
struct qc_graph *test_graph(const char *text);
/* Adds a quantizer that is bound to one scale. */
qc_id test_quantizer(struct qc_graph *g, const char *name, enum qc_dtype t, bool weight, float scale, int32_t zero);
