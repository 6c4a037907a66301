// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "graph/core/function.h"
#include "rewrite/language/match.h"
#include "rewrite/language/rule_parser.h"

#include "rewrite/builtin_rules.h"

struct qc_rules *qc_rules_new(struct qc_status *st)
{
    struct qc_rules *r = calloc(1, sizeof *r);
    if (r) r->arena = qc_arena_new();
    if (r && r->arena ? qc_rules_add_builtin(r, "sets.rules", st) : qc_fail_memory(st, sizeof *r)) return r;
    qc_rules_free(r);
    return NULL;
}

void qc_rules_free(struct qc_rules *r)
{
    if (!r) return;
    qc_arena_free(r->arena);
    free(r->rules);
    free(r->allows);
    free(r->functions);
    free(r->sets);
    free(r);
}

static const enum qc_affine_behaviour behaviour_of[] = {[QC_ALLOW_KEEP] = QC_AFFINE_KEEP,
                                                        [QC_ALLOW_BOUND] = QC_AFFINE_BOUND,
                                                        [QC_ALLOW_JOIN] = QC_AFFINE_JOIN,
                                                        [QC_ALLOW_TABLE] = QC_AFFINE_NONE};

/* Returns 1 + the index of a target among the chosen ones, the last of which has priority; 0 if it is none of them. */
static unsigned target_place(const struct qc_rules *r, const char *target)
{
    unsigned i = r->target_count;
    while (i && strcmp(target, r->targets[i - 1]) != 0) i--;
    return i;
}

bool qc_rules_for_target(const struct qc_rules *r, const char *target)
{
    return !target || target_place(r, target);
}

static bool node_fits(const struct qc_rules *r, const struct qc_allow *a, const struct qc_graph *g,
                      const struct qc_node *n)
{
    return a->op == n->op && qc_rules_for_target(r, a->target) && qc_guard_fits_node(a->when, g, n);
}

enum qc_affine_behaviour qc_rules_behaviour(const struct qc_rules *r, const struct qc_graph *g, const struct qc_node *n)
{
    for (size_t i = 0; i < r->allow_count; i++) {
        const struct qc_allow *a = &r->allows[i];
        if (a->kind != QC_ALLOW_TABLE && behaviour_of[a->kind] == qc_node_affine(n) && node_fits(r, a, g, n))
            return behaviour_of[a->kind];
    }
    return QC_AFFINE_NONE;
}

bool qc_rules_in_table(const struct qc_rules *r, const struct qc_graph *g, const struct qc_node *n)
{
    for (size_t i = 0; i < r->allow_count; i++)
        if (r->allows[i].kind == QC_ALLOW_TABLE && node_fits(r, &r->allows[i], g, n)) return true;
    return false;
}

/* Chooses the template of the last target that has its own, or the one without a target. */
static void choose_template(const struct qc_rules *r, struct qc_rule *rule)
{
    unsigned best = 0;
    rule->give = NULL;
    for (unsigned i = 0; i < rule->template_count; i++) {
        const struct qc_template *t = &rule->templates[i];
        const unsigned place = t->target ? target_place(r, t->target) : 0;
        if (t->target && !place) continue;
        if (!rule->give || place > best) rule->give = t->give;
        best = place > best ? place : best;
    }
}

bool qc_rules_add_target(struct qc_rules *r, const char *target, struct qc_status *st)
{
    if (!target || target_place(r, target)) return true;
    if (r->target_count == QC_TARGET_NAMES) return qc_fail(st, QC_BAD_INPUT, "target '%s' is like too many", target);
    if (!(r->targets[r->target_count] = qc_arena_strdup(r->arena, target, st))) return false;
    r->target_count++;
    for (size_t i = 0; i < r->count; i++) choose_template(r, &r->rules[i]);
    return true;
}

/* Returns true if the expression contains a dq(...); its result is then real. */
static bool has_dequantize(const struct qc_expr *e)
{
    bool found = e->kind == QC_EXPR_OP && e->op == QC_OP_Dequantize;
    for (unsigned i = 0; !found && e->kind == QC_EXPR_OP && i < e->arg_count; i++) found = has_dequantize(e->args[i]);
    return found;
}

static void parse_template(struct qc_rule_parser *p, const char *target)
{
    struct qc_rule *rule = p->rule;
    const struct qc_token before = p->x.token;
    for (unsigned i = 0; i < rule->template_count; i++) {
        const char *known = rule->templates[i].target;
        if (known == target || (known && target && strcmp(known, target) == 0))
            qc_lexer_error(&p->x, before, "one template for each target");
    }
    if (rule->template_count == QC_RULE_TARGETS) qc_lexer_error(&p->x, before, "at most 4 templates");
    struct qc_expr *give = qc_parse_expr(p);
    if (p->x.st->code != QC_OK) return;
    if (rule->kind == QC_RULE_PATTERN && (give->op == QC_OP_Quantize || !has_dequantize(give)))
        qc_lexer_error(&p->x, before, "a template of the form dq(... : QPARAMS)");
    rule->templates[rule->template_count++] = (struct qc_template){.target = target, .give = give};
}

/* scheme activation|weight WORD ... */
void qc_parse_scheme(struct qc_rule_parser *p)
{
    const bool weight = qc_lexer_take(&p->x, "weight");
    struct qc_scheme_clause *s = weight ? &p->rule->weight : &p->rule->activation;
    if (!weight) qc_lexer_expect(&p->x, "activation");
    for (unsigned count = 0;; count++) {
        char name[16] = "";
        const struct qc_token *t = &p->x.token;
        if (t->kind == QC_TOKEN_NAME && t->size < sizeof name) memcpy(name, t->start, t->size);
        enum qc_dtype dtype = qc_dtype_from_name(name);
        const struct qc_dtype_info *info = qc_dtype_info(dtype);
        if (dtype != QC_NONE && !info->is_float && info->bits >= 4 && info->bits <= 16 && info->hi > 1) {
            s->dtype = dtype;
        } else if (strcmp(name, "symmetric") == 0 || strcmp(name, "asymmetric") == 0) {
            s->symmetry_given = true;
            s->symmetry = *name == 's' ? QC_SYMMETRIC : QC_ASYMMETRIC;
        } else if (strcmp(name, "restricted") == 0 || strcmp(name, "full") == 0) {
            s->restricted_given = true;
            s->restricted = *name == 'r';
        } else if (strcmp(name, "per_channel") == 0 || strcmp(name, "per_tensor") == 0) {
            s->per_channel_given = true;
            s->per_channel = name[4] == 'c';
        } else {
            if (!count)
                qc_lexer_error(
                    &p->x, *t,
                    "a type of 4 to 16 bits, symmetric, asymmetric, restricted, full, per_channel or per_tensor");
            return;
        }
        qc_lexer_next(&p->x);
    }
}

/* Templates and, for patterns, clauses in any order; at least one template. */
static void parse_clauses(struct qc_rule_parser *p)
{
    struct qc_rule *rule = p->rule;
    const bool pattern = rule->kind == QC_RULE_PATTERN;
    const char *give = pattern ? "affine" : "give";
    for (;;) {
        if (qc_lexer_take(&p->x, give)) {
            parse_template(p, NULL);
        } else if (qc_lexer_take(&p->x, "target")) {
            const char *target = qc_lexer_name(&p->x, "the name of a target");
            qc_lexer_expect(&p->x, give);
            parse_template(p, target);
        } else if (!rule->template_count) {
            qc_lexer_expect(&p->x, give);
            return;
        } else if (pattern && qc_lexer_take(&p->x, "scheme")) {
            qc_parse_scheme(p);
        } else if (pattern && qc_lexer_take(&p->x, "joins")) {
            rule->joins = true;
        } else if (pattern && qc_lexer_take(&p->x, "result")) {
            qc_lexer_expect(&p->x, "quantized");
            rule->result_quantized = true;
        } else {
            return;
        }
    }
}

static void parse_rule(struct qc_rule_parser *p, enum qc_rule_kind kind)
{
    struct qc_rule rule = {.kind = kind, .file = p->x.file, .line = p->x.token.line};
    p->rule = &rule;
    p->place = QC_PLACE_MATCH;
    rule.name = qc_lexer_name(&p->x, "the name of the rule");
    qc_lexer_expect(&p->x, "match");
    const struct qc_token before = p->x.token;
    rule.match = qc_parse_expr(p);
    if (p->x.st->code != QC_OK) return;
    if (!qc_expr_begins_with_op(rule.match)) qc_lexer_error(&p->x, before, "a match that begins with an op");
    if ((rule.size = qc_expr_size(rule.match)) > (kind == QC_RULE_ISLAND ? QC_ISLAND_OPS : QC_RULE_OPS))
        qc_lexer_error(&p->x, before,
                       kind == QC_RULE_ISLAND ? "at most 40 ops in an island" : "at most 8 ops in a match");
    rule.when = qc_parse_when(p);
    p->place = QC_PLACE_TEMPLATE;
    if (kind == QC_RULE_REWRITE || kind == QC_RULE_PATTERN)
        parse_clauses(p);
    else {
        /* [ target NAME ] ( inside | [ outputs | floats | partly ] because ) TEXT */
        static const char *const words[] = {
            [QC_COST_OUTPUTS] = "outputs", [QC_COST_FLOATS] = "floats", [QC_COST_PARTLY] = "partly"};
        if (qc_lexer_take(&p->x, "target")) rule.target = qc_lexer_name(&p->x, "the name of a target");
        for (unsigned i = 1; kind == QC_RULE_COST && i < sizeof words / sizeof *words; i++)
            if (rule.where == QC_COST_ANYWHERE && qc_lexer_take(&p->x, words[i])) rule.where = (enum qc_cost_where)i;
        qc_lexer_expect(&p->x, kind == QC_RULE_ISLAND ? "inside" : "because");
        rule.inside = qc_lexer_text(&p->x);
    }
    choose_template(p->rules, &rule);
    if (p->x.st->code == QC_OK) {
        struct qc_rules *const rs = p->rules;
        size_t i = 0;
        while (i < rs->count && (rs->rules[i].kind != rule.kind || strcmp(rs->rules[i].name, rule.name) != 0)) i++;
        if (i == rs->count) {
            struct qc_rule *more = qc_grown(rs->rules, rs->count, &rs->capacity, sizeof *more, p->x.st);
            if (!more) return;
            rs->rules = more;
            rs->count++;
        }
        rs->rules[i] = rule;
    }
}

static bool may_be(enum qc_allow_kind kind, enum qc_op op)
{
    if (kind == QC_ALLOW_TABLE) return qc_op_in_function(op);
    return qc_op_info(op)->affine == behaviour_of[kind] ||
           (op == QC_OP_Resize && kind == QC_ALLOW_KEEP); /* Nearest neighbours copy elements. */
}

enum qc_allow_kind qc_parse_allow_kind(struct qc_rule_parser *p)
{
    static const char *const words[] = {
        [QC_ALLOW_KEEP] = "keep", [QC_ALLOW_BOUND] = "bound", [QC_ALLOW_JOIN] = "join", [QC_ALLOW_TABLE] = "table"};
    for (size_t kind = 0; kind < sizeof words / sizeof *words; kind++)
        if (qc_lexer_take(&p->x, words[kind])) return (enum qc_allow_kind)kind;
    qc_lexer_error(&p->x, p->x.token, "keep, bound, join or table");
    return QC_ALLOW_KEEP;
}

static void parse_allow(struct qc_rule_parser *p)
{
    static const char expected[] = "an op that behaves so on affine values (qcalib list ops)";
    struct qc_rules *r = p->rules;
    struct qc_rule rule = {0}; /* for guards, which have no names to refer to */
    struct qc_allow a = {.kind = qc_parse_allow_kind(p)};
    enum qc_op *ops = NULL;
    unsigned count = 0;
    while (p->x.token.kind == QC_TOKEN_NAME && isupper((unsigned char)*p->x.token.start)) {
        const struct qc_token before = p->x.token;
        unsigned from = count;
        qc_parse_ops(&ops, &count, p, expected);
        for (; from < count; from++)
            if (!may_be(a.kind, ops[from])) qc_lexer_error(&p->x, before, expected);
    }
    if (qc_lexer_take(&p->x, "target")) a.target = qc_lexer_name(&p->x, "the name of a target");
    p->rule = &rule;
    a.when = qc_parse_when(p);
    for (unsigned i = 0; p->x.st->code == QC_OK && i < count; i++) {
        struct qc_allow *more = qc_grown(r->allows, r->allow_count, &r->allow_capacity, sizeof *more, p->x.st);
        if (!more) return;
        r->allows = more;
        a.op = ops[i];
        r->allows[r->allow_count++] = a;
    }
}

/* NAME "=" Op { "|" Op }; a later set of the name replaces the earlier one for what follows. */
static void parse_set(struct qc_rule_parser *p)
{
    struct qc_rules *r = p->rules;
    const struct qc_token at = p->x.token;
    struct qc_op_set s = {.name = qc_lexer_name(&p->x, "the name of the set")};
    enum qc_op *ops = NULL;
    if (!isupper((unsigned char)*s.name) || qc_op_from_name(s.name) != QC_OP_INVALID)
        qc_lexer_error(&p->x, at, "a name in upper case that is no op");
    qc_lexer_expect(&p->x, "=");
    do qc_parse_ops(&ops, &s.count, p, "the name of an op (qcalib list ops) or of a set");
    while (qc_lexer_take(&p->x, "|"));
    s.ops = ops;
    if (p->x.st->code != QC_OK) return;
    struct qc_op_set *more = qc_grown(r->sets, r->set_count, &r->set_capacity, sizeof *more, p->x.st);
    if (!more) return;
    r->sets = more;
    r->sets[r->set_count++] = s;
}

static const struct {
    const char *word;
    enum qc_rule_kind kind; /* if parse is NULL */
    void (*parse)(struct qc_rule_parser *p);
} statements[] = {
    {"rule", QC_RULE_REWRITE, NULL},
    {"pattern", QC_RULE_PATTERN, NULL},
    {"island", QC_RULE_ISLAND, NULL},
    {"cost", QC_RULE_COST, NULL},
    {"refuse", QC_RULE_REFUSE, NULL},
    {.word = "allow", .parse = parse_allow},
    {.word = "set", .parse = parse_set},
    {.word = "function", .parse = qc_parse_function},
    {.word = "target", .parse = qc_parse_target},
    {.word = "drop", .parse = qc_parse_drop},
};
enum { STATEMENTS = sizeof statements / sizeof *statements };

bool qc_rules_parse(struct qc_rules *r, const char *file, const char *text, size_t size, struct qc_status *st)
{
    struct qc_rule_parser p = {.rules = r};
    const char *kept = qc_arena_strdup(r->arena, file, st);
    if (!kept) return false;
    qc_lexer_start(&p.x, kept, text, size, r->arena, st);
    while (st->code == QC_OK && p.x.token.kind != QC_TOKEN_END) {
        size_t i = 0;
        while (i < STATEMENTS && !qc_lexer_take(&p.x, statements[i].word)) i++;
        p.signs = 0;
        if (i == STATEMENTS)
            qc_lexer_error(&p.x, p.x.token, "rule, pattern, island, cost, refuse, function, allow or set");
        else if (statements[i].parse)
            statements[i].parse(&p);
        else
            parse_rule(&p, statements[i].kind);
    }
    return st->code == QC_OK;
}

const char *qc_builtin_rules_name(size_t i)
{
    return i < qc_builtin_rules_count ? qc_builtin_rules[i].name : NULL;
}

bool qc_rules_add_file(struct qc_rules *r, const char *path, struct qc_status *st)
{
    void *text;
    size_t size;
    return qc_file_read(&text, &size, path, r->arena, st) && qc_rules_parse(r, path, text, size, st);
}

bool qc_rules_add_builtin(struct qc_rules *r, const char *name, struct qc_status *st)
{
    size_t i = 0;
    while (i < qc_builtin_rules_count && strcmp(qc_builtin_rules[i].name, name) != 0) i++;
    if (i == qc_builtin_rules_count) return qc_fail(st, QC_BAD_INPUT, "there are no built-in rules '%s'", name);
    if (!qc_rules_parse(r, name, qc_builtin_rules[i].text, qc_builtin_rules[i].size, st)) return false;
    for (size_t k = 0; k < r->function_count; k++)
        r->functions[k].builtin = r->functions[k].builtin || strcmp(r->functions[k].file, name) == 0;
    return true;
}
