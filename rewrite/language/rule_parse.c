// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "graph/core/function.h"
#include "rewrite/language/expansion_parts.h"
#include "rewrite/language/match.h"
#include "rewrite/language/rule_parser.h"

#include "rewrite/builtin_rules.h"

struct qc_rules *qc_rules_new(struct qc_status *st)
{
    struct qc_rules *r = calloc(1, sizeof *r);
    if (r) r->arena = qc_arena_new();
    if (!r || !r->arena) {
        free(r);
        qc_fail_memory(st, sizeof *r);
        return NULL;
    }
    return r;
}

void qc_rules_free(struct qc_rules *r)
{
    if (!r) return;
    qc_arena_free(r->arena);
    free(r->rules);
    free(r->allows);
    free(r->functions);
    free(r);
}

static const enum qc_affine_behaviour behaviour_of[] = {[QC_ALLOW_KEEP] = QC_AFFINE_KEEP,
                                                        [QC_ALLOW_BOUND] = QC_AFFINE_BOUND,
                                                        [QC_ALLOW_JOIN] = QC_AFFINE_JOIN,
                                                        [QC_ALLOW_TABLE] = QC_AFFINE_NONE};

/* Returns 1 + the index of a target among the chosen ones, the last of which has priority; 0 if it is none of them. */
static unsigned place_of(const struct qc_rules *r, const char *target)
{
    unsigned i = r->target_count;
    while (i && strcmp(target, r->targets[i - 1]) != 0) i--;
    return i;
}

bool qc_rules_for_target(const struct qc_rules *r, const char *target)
{
    return !target || place_of(r, target);
}

static bool node_fits(const struct qc_rules *r, const struct qc_allow *a, const struct qc_graph *g,
                      const struct qc_node *n)
{
    return a->op == n->op && qc_rules_for_target(r, a->target) && qc_guards_fit_node(a->guards, a->guard_count, g, n);
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
        const unsigned place = t->target ? place_of(r, t->target) : 0;
        if (t->target && !place) continue;
        if (!rule->give || place > best) rule->give = t->give;
        best = place > best ? place : best;
    }
}

bool qc_rules_add_target(struct qc_rules *r, const char *target, struct qc_status *st)
{
    if (!target || place_of(r, target)) return true;
    if (r->target_count == QC_TARGET_NAMES) return qc_fail(st, QC_BAD_INPUT, "target '%s' is like too many", target);
    if (!(r->targets[r->target_count] = qc_arena_strdup(r->arena, target, st))) return false;
    r->target_count++;
    for (size_t i = 0; i < r->count; i++) choose_template(r, &r->rules[i]);
    return true;
}

static bool add_rule(struct qc_rules *rs, const struct qc_rule *rule, struct qc_status *st)
{
    for (size_t i = 0; i < rs->count; i++)
        if (rs->rules[i].kind == rule->kind && strcmp(rs->rules[i].name, rule->name) == 0) {
            rs->rules[i] = *rule;
            return true;
        }
    struct qc_rule *more = qc_grown(rs->rules, rs->count, &rs->capacity, sizeof *more, st);
    if (!more) return false;
    rs->rules = more;
    rs->rules[rs->count++] = *rule;
    return true;
}

/* Returns true if the expression contains a dq(...); its result is then real. */
static bool has_dequantize(const struct qc_expr *e)
{
    bool found = e->kind == QC_EXPR_OP && e->op == QC_OP_Dequantize;
    for (unsigned i = 0; !found && e->kind == QC_EXPR_OP && i < e->arg_count; i++) found = has_dequantize(e->args[i]);
    return found;
}

static bool parse_template(struct qc_rule_parser *p, const char *target, struct qc_status *st)
{
    struct qc_rule *rule = p->rule;
    struct qc_lexer before = p->x;
    for (unsigned i = 0; i < rule->template_count; i++) {
        const char *known = rule->templates[i].target;
        if (known == target || (known && target && strcmp(known, target) == 0))
            return qc_lexer_error(&before, "one template for each target", st);
    }
    if (rule->template_count == QC_RULE_TARGETS) return qc_lexer_error(&before, "at most 4 templates", st);
    struct qc_expr *give = qc_parse_expr(p, st);
    if (!give) return false;
    if (rule->kind == QC_RULE_PATTERN && (give->op == QC_OP_Quantize || !has_dequantize(give)))
        return qc_lexer_error(&before, "a template of the form dq(... : QPARAMS)", st);
    rule->templates[rule->template_count++] = (struct qc_template){.target = target, .give = give};
    return true;
}

/* scheme activation|weight WORD ... */
bool qc_parse_scheme(struct qc_rule_parser *p, struct qc_status *st)
{
    bool weight = qc_lexer_take(&p->x, "weight", st);
    if (!weight && !qc_lexer_expect(&p->x, "activation", st)) return false;
    struct qc_scheme_clause *s = weight ? &p->rule->weight : &p->rule->activation;
    for (unsigned count = 0;; count++) {
        char name[16] = "";
        const struct qc_token *t = &p->x.token;
        if (t->kind == QC_TOKEN_NAME && t->size < sizeof name) memcpy(name, t->start, t->size);
        enum qc_dtype dtype = qc_dtype_from_name(name);
        const struct qc_dtype_info *info = qc_dtype_info(dtype);
        if (dtype != QC_NONE && !info->is_float && info->bits >= 4 && info->bits <= 16 && info->hi > 1)
            s->dtype = dtype;
        else if (strcmp(name, "symmetric") == 0 || strcmp(name, "asymmetric") == 0) {
            s->symmetry_given = true;
            s->symmetry = *name == 's' ? QC_SYMMETRIC : QC_ASYMMETRIC;
        } else if (strcmp(name, "restricted") == 0 || strcmp(name, "full") == 0) {
            s->restricted_given = true;
            s->restricted = *name == 'r';
        } else if (strcmp(name, "per_channel") == 0 || strcmp(name, "per_tensor") == 0) {
            s->per_channel_given = true;
            s->per_channel = name[4] == 'c';
        } else if (count)
            return true;
        else
            return qc_lexer_error(
                &p->x, "a type of 4 to 16 bits, symmetric, asymmetric, restricted, full, per_channel or per_tensor",
                st);
        if (!qc_lexer_next(&p->x, st)) return false;
    }
}

/* Templates and, for patterns, clauses in any order; at least one template. */
static bool parse_clauses(struct qc_rule_parser *p, struct qc_status *st)
{
    struct qc_rule *rule = p->rule;
    bool pattern = rule->kind == QC_RULE_PATTERN;
    const char *give = pattern ? "affine" : "give", *target;
    for (;;) {
        if (qc_lexer_take(&p->x, give, st)) {
            if (!parse_template(p, NULL, st)) return false;
        } else if (qc_lexer_take(&p->x, "target", st)) {
            if (!qc_lexer_name(&target, &p->x, "the name of a target", p->rules->arena, st) ||
                !qc_lexer_expect(&p->x, give, st) || !parse_template(p, target, st))
                return false;
        } else if (!rule->template_count) {
            return qc_lexer_expect(&p->x, give, st);
        } else if (pattern && qc_lexer_take(&p->x, "scheme", st)) {
            if (!qc_parse_scheme(p, st)) return false;
        } else if (pattern && qc_lexer_take(&p->x, "joins", st)) {
            rule->joins = true;
        } else if (pattern && qc_lexer_take(&p->x, "result", st)) {
            if (!qc_lexer_expect(&p->x, "quantized", st)) return false;
            rule->result_quantized = true;
        } else {
            return st->code == QC_OK;
        }
    }
}

static enum qc_cost_where parse_where(struct qc_rule_parser *p, struct qc_status *st)
{
    static const char *const words[] = {
        [QC_COST_OUTPUTS] = "outputs", [QC_COST_FLOATS] = "floats", [QC_COST_PARTLY] = "partly"};
    for (unsigned i = 1; i < sizeof words / sizeof *words; i++)
        if (qc_lexer_take(&p->x, words[i], st)) return (enum qc_cost_where)i;
    return QC_COST_ANYWHERE;
}

/* [ target NAME ] ( inside | [ outputs | floats | partly ] because ) TEXT */
static bool parse_inside(struct qc_rule_parser *p, struct qc_status *st)
{
    const char *word = p->rule->kind == QC_RULE_ISLAND ? "inside" : "because";
    struct qc_rule *rule = p->rule;
    if (qc_lexer_take(&p->x, "target", st) &&
        !qc_lexer_name(&rule->target, &p->x, "the name of a target", p->rules->arena, st))
        return false;
    if (rule->kind == QC_RULE_COST) rule->where = parse_where(p, st);
    return st->code == QC_OK && qc_lexer_expect(&p->x, word, st) &&
           qc_lexer_text(&rule->inside, &p->x, p->rules->arena, st);
}

static bool parse_rule(struct qc_rule_parser *p, enum qc_rule_kind kind, struct qc_status *st)
{
    struct qc_rule rule = {.kind = kind, .file = p->x.file, .line = p->x.token.line};
    p->rule = &rule;
    p->in_template = false;
    if (!qc_lexer_name(&rule.name, &p->x, "the name of the rule", p->rules->arena, st) ||
        !qc_lexer_expect(&p->x, "match", st))
        return false;
    struct qc_lexer before = p->x;
    if (!(rule.match = qc_parse_expr(p, st))) return false;
    if (!qc_expr_begins_with_op(rule.match)) return qc_lexer_error(&before, "a match that begins with an op", st);
    if ((rule.size = qc_expr_size(rule.match)) > (kind == QC_RULE_ISLAND ? QC_ISLAND_OPS : QC_RULE_OPS))
        return qc_lexer_error(&before,
                              kind == QC_RULE_ISLAND ? "at most 40 ops in an island" : "at most 8 ops in a match", st);
    p->in_template = true;
    p->in_guard = true;
    if (qc_lexer_take(&p->x, "when", st) && !qc_parse_guards(rule.guards, &rule.guard_count, QC_RULE_GUARDS, p, st))
        return false;
    p->in_guard = false;
    const bool has_text = kind == QC_RULE_ISLAND || kind == QC_RULE_COST || kind == QC_RULE_REFUSE;
    if (has_text ? !parse_inside(p, st) : !parse_clauses(p, st)) return false;
    choose_template(p->rules, &rule);
    return st->code == QC_OK && add_rule(p->rules, &rule, st);
}

static bool add_allow(struct qc_rules *r, const struct qc_allow *a, struct qc_status *st)
{
    struct qc_allow *more = qc_grown(r->allows, r->allow_count, &r->allow_capacity, sizeof *more, st);
    if (!more) return false;
    r->allows = more;
    r->allows[r->allow_count++] = *a;
    return true;
}

static bool may_be(enum qc_allow_kind kind, enum qc_op op)
{
    if (kind == QC_ALLOW_TABLE) return qc_op_in_function(op);
    return qc_op_info(op)->affine == behaviour_of[kind] ||
           (op == QC_OP_Resize && kind == QC_ALLOW_KEEP); /* Nearest neighbours copy elements. */
}

bool qc_parse_allow_kind(enum qc_allow_kind *out, struct qc_rule_parser *p, struct qc_status *st)
{
    static const char *const words[] = {
        [QC_ALLOW_KEEP] = "keep", [QC_ALLOW_BOUND] = "bound", [QC_ALLOW_JOIN] = "join", [QC_ALLOW_TABLE] = "table"};
    for (size_t kind = 0; kind < sizeof words / sizeof *words; kind++)
        if (qc_lexer_take(&p->x, words[kind], st)) {
            *out = (enum qc_allow_kind)kind;
            return true;
        }
    return qc_lexer_error(&p->x, "keep, bound, join or table", st);
}

static bool parse_allow(struct qc_rule_parser *p, struct qc_status *st)
{
    struct qc_rules *r = p->rules;
    struct qc_rule rule = {0}; /* for guards, which have no names to refer to */
    const size_t first = r->allow_count;
    const char *target = NULL;
    enum qc_allow_kind kind = QC_ALLOW_KEEP;
    if (!qc_parse_allow_kind(&kind, p, st)) return false;
    while (p->x.token.kind == QC_TOKEN_NAME && isupper((unsigned char)*p->x.token.start)) {
        struct qc_lexer before = p->x;
        const char *name;
        if (!qc_lexer_name(&name, &p->x, "an op", r->arena, st)) return false;
        struct qc_allow a = {.kind = kind, .op = qc_op_from_name(name)};
        if (a.op == QC_OP_INVALID || !may_be(a.kind, a.op))
            return qc_lexer_error(&before, "an op that behaves so on affine values (qcalib list ops)", st);
        if (!add_allow(r, &a, st)) return false;
    }
    if (qc_lexer_take(&p->x, "target", st) && !qc_lexer_name(&target, &p->x, "the name of a target", r->arena, st))
        return false;
    if (qc_lexer_take(&p->x, "when", st)) {
        p->rule = &rule;
        p->in_guard = true;
        if (!qc_parse_guards(rule.guards, &rule.guard_count, QC_RULE_GUARDS, p, st)) return false;
        p->in_guard = false;
    }
    struct qc_guard *guards = qc_arena_dup(r->arena, rule.guards, rule.guard_count, sizeof *rule.guards, st);
    if (!guards && rule.guard_count) return false;
    for (size_t i = first; i < r->allow_count; i++) {
        r->allows[i].target = target;
        r->allows[i].guard_count = rule.guard_count;
        r->allows[i].guards = guards;
    }
    return st->code == QC_OK;
}

static const struct {
    const char *word;
    enum qc_rule_kind kind; /* if parse is NULL */
    bool (*parse)(struct qc_rule_parser *p, struct qc_status *st);
} statements[] = {
    {"rule", QC_RULE_REWRITE, NULL},
    {"pattern", QC_RULE_PATTERN, NULL},
    {"island", QC_RULE_ISLAND, NULL},
    {"cost", QC_RULE_COST, NULL},
    {"refuse", QC_RULE_REFUSE, NULL},
    {.word = "allow", .parse = parse_allow},
    {.word = "function", .parse = qc_parse_function},
    {.word = "target", .parse = qc_parse_target},
    {.word = "drop", .parse = qc_parse_drop},
};
enum { STATEMENTS = sizeof statements / sizeof *statements };

bool qc_rules_parse(struct qc_rules *r, const char *file, const char *text, size_t size, struct qc_status *st)
{
    struct qc_rule_parser p = {.rules = r};
    const char *kept = qc_arena_strdup(r->arena, file, st);
    if (!kept || !qc_lexer_start(&p.x, kept, text, size, st)) return false;
    while (p.x.token.kind != QC_TOKEN_END) {
        size_t i = 0;
        while (i < STATEMENTS && !qc_lexer_take(&p.x, statements[i].word, st)) i++;
        if (i == STATEMENTS) return qc_lexer_error(&p.x, "rule, pattern, island, cost, refuse, function or allow", st);
        if (!(statements[i].parse ? statements[i].parse(&p, st) : parse_rule(&p, statements[i].kind, st)) ||
            st->code != QC_OK)
            return false;
    }
    return true;
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
