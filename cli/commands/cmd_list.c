// SPDX-License-Identifier: Apache-2.0
/* qcalib list TABLE: the program's own tables. Each table has rows of texts under fixed keys, printed as text or
   JSON. */
#include <stdio.h>
#include <string.h>

#include "base/words.h"
#include "cli/commands/cmd.h"
#include "cli/terminal/screen.h"
#include "evaluate/evaluate.h"
#include "export/formats/exporter.h"
#include "observers/plugin.h"
#include "onnx/read/import.h"
#include "quantize/setup/passes.h"
#include "rewrite/language/expansion.h"
#include "rewrite/language/rule.h"
#include "rewrite/language/target.h"

enum { COLUMNS = 5 };

struct table {
    struct qc_arena *arena;
    const struct qc_text_list *plugins;
    const char *name;
    const char *const *keys; /* [columns] */
    size_t columns, count, room;
    const char **cells; /* [count][COLUMNS] */
};

static bool add_all(struct table *t, struct qc_status *st, const char *a, const char *b, const char *c, const char *d,
                    const char *e)
{
    const char *const row[COLUMNS] = {a, b, c, d, e};
    if (t->count == t->room) {
        size_t room = t->room ? 2 * t->room : 64;
        const char **cells = QC_NEW_ARRAY(t->arena, const char *, room *COLUMNS, st);
        if (!cells) return false;
        if (t->count) memcpy(cells, t->cells, t->count * COLUMNS * sizeof *cells);
        t->cells = cells;
        t->room = room;
    }
    memcpy(&t->cells[t->count++ * COLUMNS], row, sizeof row);
    return true;
}

static bool add_item(struct table *t, struct qc_status *st, const char *a, const char *b, const char *c)
{
    return add_all(t, st, a, b, c, NULL, NULL);
}

static bool list_ops(struct table *t, struct qc_status *st)
{
    static const char *const affine[] = {[QC_AFFINE_NONE] = "float",
                                         [QC_AFFINE_KEEP] = "keeps parameters",
                                         [QC_AFFINE_BOUND] = "clamp, keeps parameters",
                                         [QC_AFFINE_JOIN] = "joins inputs of the same parameters",
                                         [QC_AFFINE_MERGE] = "integers to new parameters",
                                         [QC_AFFINE_PRODUCT] = "int32 accumulator"};
    for (unsigned op = QC_OP_INVALID + 1; op < QC_OP_COUNT; op++) {
        const struct qc_op_info *i = qc_op_info((enum qc_op)op);
        if (*i->onnx && !add_item(t, st, i->onnx, affine[i->affine], NULL)) return false;
    }
    return true;
}

static bool add_observer(struct table *t, const struct qc_observer *o, struct qc_status *st)
{
    const char *name = qc_arena_strdup(t->arena, o->name, st), *summary = qc_arena_strdup(t->arena, o->summary, st);
    if (!name || !summary || !add_item(t, st, name, summary, NULL)) return false;
    for (size_t k = 0; k < o->option_count; k++) {
        char limits[256];
        const char *option = qc_arena_printf(t->arena, st, "%s:%s=", o->name, o->options[k].name);
        const char *text = qc_arena_printf(t->arena, st, "%s (%s)", o->options[k].help,
                                           qc_observer_option_text(limits, sizeof limits, &o->options[k]));
        if (!option || !text || !add_item(t, st, option, text, NULL)) return false;
    }
    return true;
}

/* Lists the built-in observers and those of --plugin, whose texts are copied because the plugins are closed. */
static bool list_observers(struct table *t, struct qc_status *st)
{
    for (size_t i = 0; i < qc_observer_count(); i++)
        if (!add_observer(t, qc_observer_at(i), st)) return false;
    struct qc_plugins *plugins = NULL;
    bool ok = qc_plugins_new(&plugins, st);
    for (size_t i = 0; ok && i < t->plugins->count; i++)
        ok = qc_plugins_load(plugins, t->plugins->items[i], st) || qc_where(st, "--plugin");
    for (size_t i = 0; ok && i < qc_plugins_count(plugins); i++) ok = add_observer(t, qc_plugins_at(plugins, i), st);
    qc_plugins_free(plugins);
    return ok;
}

static bool list_formats(struct table *t, struct qc_status *st)
{
    for (size_t i = 0; i < qc_exporter_count(); i++) {
        const struct qc_exporter *e = qc_exporter_at(i);
        if (!add_item(t, st, qc_exporter_name(e), e->suffix, e->summary)) return false;
    }
    return true;
}

static bool list_roundings(struct table *t, struct qc_status *st)
{
    for (unsigned i = 0; i < QC_CONTRACT_COUNT; i++) {
        const struct qc_contract_info *c = qc_contract_info((enum qc_contract)i);
        const char *name = *c->alias ? qc_arena_printf(t->arena, st, "%s, %s", c->name, c->alias) : c->name;
        if (!name || !add_item(t, st, name, c->summary, NULL)) return false;
    }
    return true;
}

/* Lists each file separately, because files may replace patterns of others. */
static bool list_rule_file(struct table *t, const char *name, const struct qc_target *target, const char *used,
                           struct qc_status *st)
{
    static const char *const kinds[] = {[QC_RULE_REWRITE] = "rewrite",
                                        [QC_RULE_PATTERN] = "pattern",
                                        [QC_RULE_ISLAND] = "island",
                                        [QC_RULE_COST] = "cost",
                                        [QC_RULE_REFUSE] = "refuse"};
    static const char *const allowed[] = {[QC_ALLOW_KEEP] = "allow keep",
                                          [QC_ALLOW_BOUND] = "allow bound",
                                          [QC_ALLOW_JOIN] = "allow join",
                                          [QC_ALLOW_TABLE] = "allow table"};
    struct qc_rules *rules = qc_rules_new(st);
    bool ok = rules && (target ? qc_rules_add_target_file(rules, target, st) : qc_rules_add_builtin(rules, name, st));
    for (size_t i = 0; ok && i < rules->count; i++) {
        const struct qc_rule *r = &rules->rules[i];
        const char *rule = qc_arena_strdup(t->arena, r->name, st), *ops = qc_arena_printf(t->arena, st, "%u", r->size);
        const char *file = qc_arena_printf(t->arena, st, "%s:%u", r->file, r->line);
        const char *when = r->target ? qc_arena_printf(t->arena, st, "--target %s", r->target) : used;
        ok = rule && ops && file && when && add_all(t, st, rule, kinds[r->kind], ops, file, when);
    }
    for (size_t i = 0; ok && i < rules->allow_count; i++) {
        const struct qc_allow *r = &rules->allows[i];
        const char *when = r->target ? qc_arena_printf(t->arena, st, "--target %s", r->target) : used;
        ok = when && add_all(t, st, qc_op_info(r->op)->name, allowed[r->kind], "1", name, when);
    }
    for (size_t i = 0; ok && i < rules->function_count; i++) {
        const struct qc_function_info f = qc_rules_function(rules, i);
        const char *function = qc_arena_strdup(t->arena, f.name, st);
        const char *file = qc_arena_printf(t->arena, st, "%s:%u", f.file, f.line), *when = used;
        if (f.opset_to < QC_ONNX_OPSET_MAX)
            when = qc_arena_printf(t->arena, st, "opset %d to %d", f.opset_from, f.opset_to);
        else if (f.opset_from > 1)
            when = qc_arena_printf(t->arena, st, "from opset %d", f.opset_from);
        ok = function && file && when && add_all(t, st, function, "function", "1", file, when);
    }
    qc_rules_free(rules);
    return ok;
}

static const char *use_of_rules(const char *file)
{
    static const struct {
        const char *file, *used;
    } sometimes[] = {
        {"functions.rules", "import"},
        {"functions_ml.rules", "import"},
        {"functions_products.rules", "to quantize, after import"},
        {"functions_written.rules", "export"},
        {"costs.rules", "unless --prefer integers"},
        {"bias_apart.rules", "--bias narrowed, after normalise.rules"},
        {"bias_narrowed.rules", "--bias narrowed, in place of patterns of these names"},
    };
    for (size_t i = 0; i < sizeof sometimes / sizeof *sometimes; i++)
        if (strcmp(file, sometimes[i].file) == 0) return sometimes[i].used;
    return "always";
}

static bool list_rules(struct table *t, struct qc_status *st)
{
    const char *file;
    for (size_t i = 0; (file = qc_builtin_rules_name(i)); i++)
        if (!list_rule_file(t, file, NULL, use_of_rules(file), st)) return false;
    const struct qc_target *target;
    const char *name, *used;
    for (size_t i = 0; (name = qc_builtin_target(i, t->arena, st)); i++)
        if (!qc_target_load(&target, name, t->arena, st) ||
            !(used = qc_arena_printf(t->arena, st, "--target %s, and those like it", name)) ||
            !(file = qc_arena_printf(t->arena, st, "%s.rules", name)) || !list_rule_file(t, file, target, used, st))
            return false;
    return st->code == QC_OK;
}

static bool list_targets(struct table *t, struct qc_status *st)
{
    const struct qc_target *target;
    const char *name;
    for (size_t i = 0; (name = qc_builtin_target(i, t->arena, st)); i++)
        if (!qc_target_load(&target, name, t->arena, st) || !add_item(t, st, name, target->summary, NULL)) return false;
    return st->code == QC_OK;
}

static bool list_passes(struct table *t, struct qc_status *st)
{
    for (int p = 0; p < QC_PASS_COUNT; p++)
        if (!add_item(t, st, qc_pass_name((enum qc_pass)p), "quantize", qc_pass_summary((enum qc_pass)p))) return false;
    return add_item(t, st, QC_CANONICAL_PASS, "run, eval, compare, convert", QC_CANONICAL_SUMMARY);
}

static const struct {
    const char *name, *keys[COLUMNS]; /* keys: of the columns */
    bool (*list)(struct table *t, struct qc_status *st);
} tables[] = {
    {"ops", {"op", "quantized"}, list_ops},
    {"observers", {"observer", "summary"}, list_observers},
    {"formats", {"format", "suffix", "summary"}, list_formats},
    {"roundings", {"rounding", "summary"}, list_roundings},
    {"rules", {"rule", "kind", "ops", "file", "used"}, list_rules},
    {"passes", {"pass", "commands", "summary"}, list_passes},
    {"targets", {"target", "summary"}, list_targets},
};
enum { TABLES = sizeof tables / sizeof *tables };

bool qc_cmd_list(const struct qc_cli_options *o, struct qc_status *st)
{
    struct table t = {.arena = o->job.arena, .plugins = &o->job.method.plugins, .name = o->operands.items[0]};
    const char *names[TABLES];
    for (size_t i = 0; i < TABLES; i++) {
        names[i] = tables[i].name;
        if (strcmp(t.name, names[i]) != 0) continue;
        t.keys = tables[i].keys;
        while (t.columns < COLUMNS && t.keys[t.columns]) t.columns++;
        if (!tables[i].list(&t, st)) return false;
        if (o->json) {
            struct qc_json *root = qc_json_object(), *rows = qc_json_array();
            for (size_t r = 0; r < t.count; r++) {
                struct qc_json *row = qc_json_object();
                for (size_t c = 0; c < t.columns; c++)
                    qc_json_set(row, t.keys[c], qc_json_string(t.cells[r * COLUMNS + c]));
                qc_json_add(rows, row);
            }
            qc_json_set(root, t.name, rows);
            return qc_print_json(root, st);
        }
        size_t width[COLUMNS] = {0};
        for (size_t c = 0; c < t.columns; c++) {
            width[c] = strlen(t.keys[c]);
            for (size_t r = 0; r < t.count; r++) {
                size_t n = strlen(t.cells[r * COLUMNS + c]);
                if (n > width[c]) width[c] = n;
            }
        }
        fputs(qc_style(stdout, QC_STYLE_BOLD), stdout);
        for (size_t c = 0; c < t.columns; c++)
            qc_say("%-*s%s", c + 1 < t.columns ? (int)width[c] : 0, t.keys[c], c + 1 < t.columns ? "  " : "");
        puts(qc_style(stdout, QC_STYLE_PLAIN));
        for (size_t r = 0; r < t.count; r++) {
            for (size_t c = 0; c < t.columns; c++) {
                bool last = c + 1 == t.columns;
                qc_say("%-*s%s", last ? 0 : (int)width[c], t.cells[r * COLUMNS + c], last ? "" : "  ");
            }
            qc_say("\n");
        }
        return true;
    }
    static const struct {
        const char *given, *table;
    } others[] = {/* names that other programs use */
                  {"methods", "observers"}, {"method", "observers"}, {"calibrators", "observers"},
                  {"operators", "ops"},     {"patterns", "rules"},   {"stages", "passes"},
                  {"backends", "targets"},  {"runtimes", "targets"}};
    const char *meant = qc_closest(t.name, names, TABLES);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(t.name, others[i].given) == 0) meant = others[i].table;
    return qc_fail(st, QC_USAGE, "list: there is no table '%s'%s; there is %s", t.name, QC_MEANT("", meant),
                   qc_command_info(QC_COMMAND_list)->operands);
}
