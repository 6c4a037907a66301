// SPDX-License-Identifier: Apache-2.0
/* libFuzzer target: any bytes as the text of a rule file. The first byte is 't' for the file of a target. Invalid text
   is refused with a status. Valid rules, together with the built-in ones, are applied to a small graph, and the graphs
   of all passes verify. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/core/verify.h"
#include "rewrite/language/expansion_parts.h"
#include "rewrite/passes/functions.h"
#include "rewrite/passes/simulate.h"
#include "simq/plan/plan.h"
#include "tests/graph_reader/graph_reader.h"

enum { LIMIT = 8 << 20 };

static const char NETWORK[] = "graph \"g\"\n"
                              "input %1 \"x\" f32[N,2,4,4]\n"
                              "const %2 \"w\" f32[2,2,1,1] = {0.5, -0.25, 0.125, 1}\n"
                              "const %3 \"b\" f32[2] = {0.5, -0.5}\n"
                              "const %4 \"wd\" f32[2,2] = {1, 2, 3, 4}\n"
                              "%5 \"c\" = Conv \"conv\"(%1, %2, %3)\n"
                              "%6 \"r\" = Relu \"relu\"(%5)\n"
                              "%7 \"a\" = Add \"add\"(%6, %1)\n"
                              "%8 \"p\" = AveragePool \"average\"(%7) {kernel_shape=[2,2], strides=[2,2]}\n"
                              "%9 \"g\" = GlobalAveragePool \"global\"(%8)\n"
                              "%10 \"f\" = Flatten \"flatten\"(%9)\n"
                              "%11 \"d\" = Gemm \"gemm\"(%10, %4)\n"
                              "%12 \"y\" = Softmax \"softmax\"(%11)\n"
                              "output \"y\" %12\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool made(bool ok, const struct qc_graph *g, const struct qc_status *st)
{
    struct qc_status unsound = QC_STATUS_INIT;
    if (ok != (st->code == QC_OK) || (ok && g && !qc_graph_verify(g, &unsound))) {
        fprintf(stderr, "%s, code %d: %s%s\n", ok ? "success" : "failure", (int)st->code, st->message, unsound.message);
        abort();
    }
    return ok;
}

static void apply(const struct qc_rules *rules)
{
    struct qc_status st = QC_STATUS_INIT;
    static struct qc_graph *g; /* read once */
    struct qc_graph *normalised = NULL, *joined = NULL, *simulated = NULL, *moved = NULL;
    struct qc_partition *p = NULL;
    const struct qc_partition_options options = QC_PARTITION_INIT;
    if (!g && !qc_graph_parse(&g, NETWORK, sizeof NETWORK - 1, &st)) abort();
    g->budget.memory_limit = LIMIT;
    if (made(qc_normalise(&normalised, g, rules, qc_evaluate, &st), normalised, &st) &&
        made(qc_join_functions(&joined, normalised, rules, &options, &st), joined, &st) &&
        made(qc_partition_new(&p, joined, rules, &options, &st), NULL, &st) &&
        made(qc_simulate(&simulated, p, &st), simulated, &st))
        made(qc_propagate_qdq(&moved, simulated, rules, false, &st), moved, &st);
    qc_graph_free(moved);
    qc_graph_free(simulated);
    qc_partition_free(p);
    qc_graph_free(joined);
    qc_graph_free(normalised);
}

/* Built-in files, read once: they take longer than most texts. Freed by nobody. */
static const struct qc_rules *read_builtin(const char *const *builtin)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_rules *rules = qc_rules_new(&st);
    bool ok = rules != NULL;
    for (; ok && *builtin; builtin++) ok = qc_rules_add_builtin(rules, *builtin, &st);
    if (!ok) abort();
    return rules;
}

/* Returns an array of the exact size, so that a later item must grow it. */
static void *copy(const void *items, size_t count, size_t size)
{
    void *made = malloc(count ? count * size : 1);
    if (!made) abort();
    if (count) memcpy(made, items, count * size);
    return made;
}

/* The text behind built-in files; NULL: it is refused. The parser replaces whole rules, so the copy has lists of its
   own, and borrows what they name. */
static struct qc_rules *read_rules(const uint8_t *data, size_t size, const struct qc_rules *builtin)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_rules *rules = copy(builtin, 1, sizeof *builtin);
    rules->rules = copy(builtin->rules, rules->capacity = builtin->count, sizeof *builtin->rules);
    rules->allows = copy(builtin->allows, rules->allow_capacity = builtin->allow_count, sizeof *builtin->allows);
    rules->sets = copy(builtin->sets, rules->set_capacity = builtin->set_count, sizeof *builtin->sets);
    rules->functions =
        copy(builtin->functions, rules->function_capacity = builtin->function_count, sizeof *builtin->functions);
    if (!(rules->arena = qc_arena_new())) abort();
    rules->target_file = data[0] == 't';
    if (made(qc_rules_parse(rules, "my.rules", (const char *)data + 1, size - 1, &st), NULL, &st)) return rules;
    qc_rules_free(rules);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const none[] = {NULL}, *const all[] = {"normalise.rules", "patterns.rules", "islands.rules",
                                                              "allow.rules", NULL};
    static const struct qc_rules *alone, *builtin;
    if (!alone) alone = read_builtin(none);
    if (!builtin) builtin = read_builtin(all);
    if (!size) return 0;
    struct qc_rules *rules = read_rules(data, size, alone);
    if (!rules) return 0;
    qc_rules_free(rules);
    rules = read_rules(data, size, builtin);
    if (rules) apply(rules);
    qc_rules_free(rules);
    return 0;
}
