// SPDX-License-Identifier: Apache-2.0
/* docs/rules.md: its example is run. docs/rule-language.md: its tables are those of the program. */
#include "base/file.h"
#include "graph/text/text.h"
#include "rewrite/language/expression.h"
#include "rewrite_passes.h"

static const char *source(const char *name, struct qc_arena *a)
{
    char path[512];
    void *text = NULL;
    size_t size;
    qc_text(path, sizeof path, "%s/%s", QC_TEST_SOURCE, name);
    MUST(qc_file_read(&text, &size, path, a, ST));
    return text;
}

/* The text between "```WORD" and "```". */
static const char *block(const char *page, const char *word, struct qc_arena *a)
{
    char fence[32];
    const char *from = strstr(page, qc_text(fence, sizeof fence, "\n```%s\n", word));
    const char *to = from ? strstr(from + strlen(fence), "\n```") : NULL;
    cr_assert(to, "docs/rules.md has no block '%s'", word);
    from += strlen(fence);
    return qc_arena_strndup(a, from, (size_t)(to + 1 - from), ST);
}

Test(rules_page, the_example_gives_what_the_page_says)
{
    const char *page = source("docs/rules.md", test_arena()), *text = block(page, "graph", test_arena());
    struct pass_setup setup = PASS_SETUP;
    struct passes p;
    setup.rules = block(page, "rules", test_arena());
    setup.binding_count = 1;
    setup.bindings[0].quantizer = "b";
    setup.bindings[0].scale = 0.0625f;
    OWN(qc_graph) *g = test_graph(text);
    MUST(passes_run(&p, g, &setup, ST));
    char *folded = qc_graph_print(p.folded, &QC_TEXT_SHORT, ST);
    cr_expect_str_eq(folded, block(page, "fold", test_arena()), "the page should have\n%s", folded);
    for (qc_id id = 1; id <= p.produced->node_count; id++) { /* "everything from the input to the last accumulator" */
        const struct qc_node *n = &p.produced->nodes[id];
        cr_expect(n->op == QC_OP_Dequantize || p.produced->values[n->outputs].type.qparams != QC_REAL, "%s is real",
                  qc_op_info(n->op)->name);
    }
    free(folded);
    passes_free(&p);

    setup.rules = NULL; /* "without the file" */
    setup.binding_count = 0;
    MUST(passes_run(&p, g, &setup, ST));
    static const enum qc_op ops[] = {QC_OP_Max, QC_OP_Tanh, QC_OP_GatherElements};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (qc_id id = 1; id <= p.produced->node_count; id++)
            cr_expect(p.produced->nodes[id].op != ops[i] ||
                          p.produced->values[p.produced->nodes[id].outputs].type.qparams == QC_REAL,
                      "%s is not real", qc_op_info(ops[i])->name);
    passes_free(&p);
}

Test(rules_page, the_table_has_all_that_functions_may_ask)
{
    const char *page = source("docs/rule-language.md", test_arena()), *table = strstr(page, "| asked | is |");
    char row[80];
    size_t in_code = 0, in_page = 0;
    cr_assert(table);
    for (const struct qc_builtin *f = qc_function_builtins; f->name; f++, in_code++)
        cr_expect(strstr(table, qc_text(row, sizeof row, "\n| `%s(", f->name)),
                  "docs/rule-language.md says nothing of '%s'", f->name);
    for (const char *at = table; at && *at == '|'; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        in_page += strncmp(at, "| `", 3) == 0;
    cr_expect_eq(in_page, in_code);
}

Test(rules_page, the_table_has_every_guard)
{
    const char *page = source("docs/rule-language.md", test_arena());
    size_t in_code = 0, in_page = 0;
    char row[80];
    for (const struct qc_builtin *g = qc_guards; g->name; g++, in_code++)
        cr_expect(strstr(page, qc_text(row, sizeof row, "\n| `%s(", g->name)),
                  "docs/rule-language.md says nothing of guard '%s'", g->name);
    for (const char *at = strstr(page, "| guard |"); at && *at == '|';
         at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        in_page += strncmp(at, "| `", 3) == 0;
    cr_expect_gt(in_code, 10);
    cr_expect_eq(in_page, in_code + 1); /* and attribute(...) */
}
