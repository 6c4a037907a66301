// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rewrite/lexer.h"
#include "rewrite/match.h"

#include "rewrite/builtin_rules.h"

struct parser {
    struct qc_lexer x;
    struct qc_rules *rules;
    struct qc_rule *rule;
    bool in_template, in_guard;
    unsigned depth;
};

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
    free(r);
}

enum qc_affine_behaviour qc_rules_allowed(const struct qc_rules *r, enum qc_op op)
{
    return r->allowed[op] ? qc_op_info(op)->affine : QC_AFFINE_NONE;
}

static bool name_slot(unsigned *slot, struct parser *p, const char *name, bool space, const struct qc_lexer *at, struct qc_status *st)
{
    const char **names = space ? p->rule->spaces : p->rule->slots;
    unsigned *count = space ? &p->rule->space_count : &p->rule->slot_count;
    bool known_only = p->in_guard || (p->in_template && !(space && p->rule->kind == QC_RULE_PATTERN));
    for (unsigned i = 0; i < *count; i++)
        if (strcmp(names[i], name) == 0) {
            *slot = i;
            return true;
        }
    if (known_only) return qc_lexer_error(at, space ? "a space of the match" : "a name of the match", st);
    if (*count == (space ? (unsigned)QC_RULE_SPACES : (unsigned)QC_RULE_SLOTS))
        return qc_lexer_error(at, space ? "at most 8 names of spaces in a rule" : "at most 16 names of values in a rule", st);
    names[*count] = name;
    *slot = (*count)++;
    return true;
}

/* Reads a name and gives its slot, new when it was not seen yet. Guards and templates take their names from the match; only a
   pattern's template brings in spaces, which are those of sites. */
static bool slot_of(unsigned *slot, struct parser *p, const char *what, bool space, struct qc_status *st)
{
    const struct qc_lexer at = p->x;
    const char *name;
    if (!qc_lexer_name(&name, &p->x, what, p->rules->arena, st)) return false;
    return name_slot(slot, p, name, space, &at, st);
}

static bool parse_space_name(unsigned *slot, struct parser *p, struct qc_status *st)
{
    const char *what = "a space (a name in upper case)";
    if (p->x.token.kind != QC_TOKEN_NAME || !isupper((unsigned char)*p->x.token.start)) return qc_lexer_error(&p->x, what, st);
    return slot_of(slot, p, what, true, st);
}

static bool parse_space(struct qc_space_expr *s, struct parser *p, struct qc_status *st)
{
    *s = (struct qc_space_expr){.given = true};
    if (!parse_space_name(&s->first, p, st)) return false;
    if (qc_lexer_take(&p->x, "*", st)) {
        s->product = true;
        if (!parse_space_name(&s->second, p, st)) return false;
    }
    if (qc_lexer_take(&p->x, "per", st)) {
        const struct qc_lexer at = p->x;
        double axis;
        if (qc_lexer_take(&p->x, "out", st)) {
            s->axis_kind = QC_AXIS_OUT;
        } else {
            if (!qc_lexer_number(&axis, &p->x, st)) return false;
            if (!(axis >= 0 && axis < QC_RANK_MAX && floor(axis) == axis)) return qc_lexer_error(&at, "an axis from 0 to 7", st);
            s->axis_kind = QC_AXIS_NUMBER;
            s->axis = (int)axis;
        }
    }
    return st->code == QC_OK;
}

static struct qc_expr *parse_expr(struct parser *p, struct qc_status *st);

static struct qc_expr *new_expr(struct parser *p, enum qc_expr_kind kind, struct qc_status *st)
{
    struct qc_expr *e = QC_NEW(p->rules->arena, struct qc_expr, st);
    if (!e) return NULL;
    e->kind = kind;
    e->line = p->x.token.line;
    e->column = p->x.token.column;
    return e;
}

/* "(" EXPR [: SPACE] {, EXPR [: SPACE]} ")"; the space of q, dq and requantize goes to the call itself. */
static bool parse_args(struct qc_expr *e, struct parser *p, struct qc_status *st)
{
    bool ours = e->op == QC_OP_Quantize || e->op == QC_OP_Dequantize || e->op == QC_OP_Requantize;
    if (!qc_lexer_expect(&p->x, "(", st)) return false;
    do {
        if (e->arg_count == QC_RULE_ARGS) return qc_lexer_error(&p->x, "at most 8 arguments", st);
        struct qc_expr *arg = parse_expr(p, st);
        if (!arg) return false;
        e->args[e->arg_count++] = arg;
        if (qc_lexer_take(&p->x, ":", st) && !parse_space(ours ? &e->space : &arg->space, p, st)) return false;
    } while (qc_lexer_take(&p->x, ",", st));
    if (ours && (e->arg_count != 1 || !e->space.given)) return qc_lexer_error(&p->x, "one argument and its space, as in q(x : X)", st);
    return qc_lexer_expect(&p->x, ")", st);
}

/* attribute(Op.name = default) */
static bool parse_attribute(enum qc_op *op, const char **attribute, double *otherwise, struct parser *p, struct qc_status *st)
{
    const char *name;
    if (!qc_lexer_expect(&p->x, "(", st)) return false;
    struct qc_lexer before = p->x;
    if (!qc_lexer_name(&name, &p->x, "an op", p->rules->arena, st)) return false;
    if ((*op = qc_op_from_name(name)) == QC_OP_INVALID) return qc_lexer_error(&before, "the name of an op (qcalib list ops)", st);
    return qc_lexer_expect(&p->x, ".", st) && qc_lexer_name(attribute, &p->x, "an attribute", p->rules->arena, st) &&
           qc_lexer_expect(&p->x, "=", st) && qc_lexer_number(otherwise, &p->x, st) && qc_lexer_expect(&p->x, ")", st);
}

static bool parse_ints(struct qc_expr *e, struct parser *p, struct qc_status *st)
{
    do {
        const struct qc_lexer at = p->x;
        double v;
        if (e->int_count == QC_RANK_MAX) return qc_lexer_error(&p->x, "at most 8 numbers", st);
        if (!qc_lexer_number(&v, &p->x, st)) return false;
        if (!(fabs(v) <= 0x1p53 && floor(v) == v)) return qc_lexer_error(&at, "a whole number", st);
        e->ints[e->int_count++] = (int64_t)v;
    } while (qc_lexer_take(&p->x, ",", st));
    return qc_lexer_expect(&p->x, "]", st);
}

static bool parse_number(struct qc_expr *e, struct parser *p, struct qc_status *st)
{
    double v;
    if (!qc_lexer_number(&v, &p->x, st)) return false;
    e->number = (float)v;
    return true;
}

static struct qc_expr *parse_else(struct parser *p, struct qc_status *st)
{
    struct qc_expr *e = new_expr(p, QC_EXPR_ELSE, st), *otherwise;
    if (!e || !qc_lexer_expect(&p->x, "(", st) || !slot_of(&e->slot, p, "a name", false, st) || !qc_lexer_expect(&p->x, "else", st) || !(otherwise = parse_expr(p, st)) ||
        !qc_lexer_expect(&p->x, ")", st))
        return NULL;
    e->args[e->arg_count++] = otherwise;
    return e;
}

static struct qc_expr *parse_capture(struct parser *p, const char *name, bool constant, const struct qc_lexer *at, struct qc_status *st)
{
    struct qc_expr *e = new_expr(p, QC_EXPR_CAPTURE, st);
    if (!e || !name_slot(&e->slot, p, name, false, at, st)) return NULL;
    e->constant = constant;
    e->optional = qc_lexer_take(&p->x, "?", st);
    return st->code == QC_OK ? e : NULL;
}

static enum qc_op op_of_call(const char *name)
{
    static const struct {
        const char *name;
        enum qc_op op;
    } ours[] = {{"q", QC_OP_Quantize}, {"dq", QC_OP_Dequantize}, {"requantize", QC_OP_Requantize}};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(ours[i].name, name) == 0) return ours[i].op;
    return isupper((unsigned char)*name) ? qc_op_from_name(name) : QC_OP_INVALID;
}

static struct qc_expr *parse_call(struct parser *p, const char *name, const struct qc_lexer *at, struct qc_status *st)
{
    struct qc_expr *e = new_expr(p, QC_EXPR_OP, st);
    if (!e) return NULL;
    if (p->in_template && strcmp(name, "attribute") == 0) {
        double otherwise = 0;
        e->kind = QC_EXPR_ATTRIBUTE;
        if (!parse_attribute(&e->op, &e->attribute, &otherwise, p, st)) return NULL;
        e->number = (float)otherwise;
        return e;
    }
    bool vector = strcmp(name, "vector") == 0, column = strcmp(name, "column") == 0;
    if (p->in_template && (vector || column)) {
        e->kind = vector ? QC_EXPR_VECTOR : QC_EXPR_COLUMN;
        if (!parse_args(e, p, st)) return NULL;
        if (e->arg_count == (vector ? 1u : 2u)) return e;
        qc_lexer_error(at, vector ? "vector(e)" : "column(e, w)", st);
        return NULL;
    }
    if ((e->op = op_of_call(name)) == QC_OP_INVALID) {
        qc_lexer_error(at, "the name of an op (qcalib list ops), q, dq or requantize", st);
        return NULL;
    }
    if (!parse_args(e, p, st)) return NULL;
    if (!p->in_template && ++p->rule->size > QC_RULE_OPS) {
        qc_lexer_error(at, "at most 8 ops in a match", st);
        return NULL;
    }
    return e;
}

static struct qc_expr *parse_primary(struct parser *p, struct qc_status *st)
{
    const char *name;
    if (p->in_template && p->x.token.kind == QC_TOKEN_NUMBER) {
        struct qc_expr *e = new_expr(p, QC_EXPR_NUMBER, st);
        return e && parse_number(e, p, st) ? e : NULL;
    }
    if (p->in_template && qc_lexer_take(&p->x, "[", st)) {
        struct qc_expr *e = new_expr(p, QC_EXPR_INTS, st);
        return e && parse_ints(e, p, st) ? e : NULL;
    }
    if (p->in_template && qc_lexer_is(&p->x, "(")) return parse_else(p, st);
    bool constant = !p->in_template && qc_lexer_take(&p->x, "const", st);
    struct qc_lexer before = p->x;
    if (!qc_lexer_name(&name, &p->x, "a value, an op or q, dq, requantize", p->rules->arena, st)) return NULL;
    if (qc_lexer_is(&p->x, "(")) return parse_call(p, name, &before, st);
    if (isupper((unsigned char)*name)) {
        qc_lexer_error(&before, "a value (a name in lower case) or an op with its arguments", st);
        return NULL;
    }
    return parse_capture(p, name, constant, &before, st);
}

static struct qc_expr *parse_expr(struct parser *p, struct qc_status *st)
{
    if (++p->depth > 32) {
        qc_lexer_error(&p->x, "at most 32 levels of brackets", st);
        return NULL;
    }
    struct qc_expr *e = parse_primary(p, st);
    p->depth--;
    return e;
}

static bool parse_term(struct qc_guard_term *t, struct parser *p, struct qc_status *st)
{
    const char *name;
    *t = (struct qc_guard_term){0};
    if (p->x.token.kind == QC_TOKEN_NUMBER) return qc_lexer_number(&t->number, &p->x, st);
    struct qc_lexer before = p->x;
    if (!qc_lexer_name(&name, &p->x, "a guard", p->rules->arena, st)) return false;
    if (strcmp(name, "attribute") == 0) return parse_attribute(&t->op, &t->attribute, &t->number, p, st);
    if (!(t->function = qc_guard_find(name))) return qc_lexer_error(&before, "the name of a guard (docs/rules.md)", st);
    if (!qc_lexer_expect(&p->x, "(", st)) return false;
    for (unsigned i = 0; i < t->function->arg_count; i++) {
        if (i && !qc_lexer_expect(&p->x, ",", st)) return false;
        if (!slot_of(&t->args[i], p, "a name of the match", t->function->wants_space[i], st)) return false;
        t->arg_count++;
    }
    return qc_lexer_expect(&p->x, ")", st);
}

static bool parse_guards(struct parser *p, struct qc_status *st)
{
    static const char *const signs[] = {[QC_COMPARE_EQ] = "==", [QC_COMPARE_NE] = "!=", [QC_COMPARE_LT] = "<",
                                        [QC_COMPARE_LE] = "<=", [QC_COMPARE_GT] = ">",  [QC_COMPARE_GE] = ">="};
    do {
        if (p->rule->guard_count == QC_RULE_GUARDS) return qc_lexer_error(&p->x, "at most 8 guards", st);
        struct qc_guard *g = &p->rule->guards[p->rule->guard_count++];
        g->compare = QC_COMPARE_TRUE;
        if (!parse_term(&g->left, p, st)) return false;
        for (enum qc_compare c = QC_COMPARE_EQ; c <= QC_COMPARE_GE; c++)
            if (qc_lexer_take(&p->x, signs[c], st)) {
                g->compare = c;
                if (!parse_term(&g->right, p, st)) return false;
                break;
            }
    } while (qc_lexer_take(&p->x, "and", st));
    return st->code == QC_OK;
}

static bool add_rule(struct qc_rules *rs, const struct qc_rule *rule, struct qc_status *st)
{
    for (size_t i = 0; i < rs->count; i++)
        if (rs->rules[i].kind == rule->kind && strcmp(rs->rules[i].name, rule->name) == 0) {
            rs->rules[i] = *rule;
            return true;
        }
    if (rs->count == rs->capacity) {
        size_t capacity = rs->capacity ? rs->capacity * 2 : 32;
        struct qc_rule *more = realloc(rs->rules, capacity * sizeof *more);
        if (!more) return qc_fail_memory(st, capacity * sizeof *more);
        rs->rules = more;
        rs->capacity = capacity;
    }
    rs->rules[rs->count++] = *rule;
    return true;
}

static bool parse_rule(struct parser *p, enum qc_rule_kind kind, struct qc_status *st)
{
    const char *give = kind == QC_RULE_PATTERN ? "affine" : "give";
    struct qc_rule rule = {.kind = kind, .file = p->x.file, .line = p->x.token.line};
    p->rule = &rule;
    p->in_template = false;
    if (!qc_lexer_name(&rule.name, &p->x, "the name of the rule", p->rules->arena, st) || !qc_lexer_expect(&p->x, "match", st)) return false;
    struct qc_lexer before = p->x;
    if (!(rule.match = parse_expr(p, st))) return false;
    if (rule.match->kind != QC_EXPR_OP) return qc_lexer_error(&before, "a match that begins with an op", st);
    p->in_template = true;
    p->in_guard = true;
    if (qc_lexer_take(&p->x, "when", st) && !parse_guards(p, st)) return false;
    p->in_guard = false;
    if (!qc_lexer_expect(&p->x, give, st)) return false;
    before = p->x;
    if (!(rule.give = parse_expr(p, st))) return false;
    if (kind == QC_RULE_PATTERN && !(rule.give->kind == QC_EXPR_OP && rule.give->op == QC_OP_Dequantize))
        return qc_lexer_error(&before, "a template of the form dq(... : SPACE)", st);
    while (kind == QC_RULE_PATTERN) {
        if (qc_lexer_take(&p->x, "joins", st)) rule.joins = true;
        else if (qc_lexer_take(&p->x, "result", st)) {
            if (!qc_lexer_expect(&p->x, "quantized", st)) return false;
            rule.result_quantized = true;
        } else break;
    }
    return st->code == QC_OK && add_rule(p->rules, &rule, st);
}

static bool parse_allow(struct parser *p, struct qc_status *st)
{
    static const struct {
        const char *word;
        enum qc_affine_behaviour behaviour;
    } kinds[] = {{"keep", QC_AFFINE_KEEP}, {"bound", QC_AFFINE_BOUND}, {"join", QC_AFFINE_JOIN}};
    enum qc_affine_behaviour kind = QC_AFFINE_NONE;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && kind == QC_AFFINE_NONE; i++)
        if (qc_lexer_take(&p->x, kinds[i].word, st)) kind = kinds[i].behaviour;
    if (kind == QC_AFFINE_NONE) return qc_lexer_error(&p->x, "keep, bound or join", st);
    while (p->x.token.kind == QC_TOKEN_NAME && isupper((unsigned char)*p->x.token.start)) {
        struct qc_lexer before = p->x;
        const char *name;
        if (!qc_lexer_name(&name, &p->x, "an op", p->rules->arena, st)) return false;
        enum qc_op op = qc_op_from_name(name);
        if (op == QC_OP_INVALID || qc_op_info(op)->affine != kind) return qc_lexer_error(&before, "an op that behaves so on affine values (qcalib list ops)", st);
        p->rules->allowed[op] = true;
    }
    return true;
}

bool qc_rules_parse(struct qc_rules *r, const char *file, const char *text, size_t size, struct qc_status *st)
{
    struct parser p = {.rules = r};
    const char *kept = qc_arena_strdup(r->arena, file, st);
    if (!kept || !qc_lexer_start(&p.x, kept, text, size, st)) return false;
    while (p.x.token.kind != QC_TOKEN_END) {
        bool ok;
        if (qc_lexer_take(&p.x, "rule", st)) ok = parse_rule(&p, QC_RULE_REWRITE, st);
        else if (qc_lexer_take(&p.x, "pattern", st)) ok = parse_rule(&p, QC_RULE_PATTERN, st);
        else if (qc_lexer_take(&p.x, "allow", st)) ok = parse_allow(&p, st);
        else ok = qc_lexer_error(&p.x, "rule, pattern or allow", st);
        if (!ok || st->code != QC_OK) return false;
    }
    return true;
}

bool qc_rules_add_builtin(struct qc_rules *r, const char *name, struct qc_status *st)
{
    for (size_t i = 0; i < qc_builtin_rules_count; i++)
        if (strcmp(qc_builtin_rules[i].name, name) == 0) return qc_rules_parse(r, name, qc_builtin_rules[i].text, qc_builtin_rules[i].size, st);
    return qc_fail(st, QC_BAD_INPUT, "there are no built-in rules '%s'", name);
}
