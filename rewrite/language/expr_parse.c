// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "rewrite/language/match.h"
#include "rewrite/language/rule_parser.h"

/* Finds the slot of a name that was read already. at: position for the message. */
static bool slot_named(unsigned *slot, struct qc_rule_parser *p, const char *name, bool qparams,
                       const struct qc_lexer *at, struct qc_status *st)
{
    const char **names = qparams ? p->rule->qparams_of : p->rule->slots;
    unsigned *count = qparams ? &p->rule->qparams_count : &p->rule->slot_count;
    bool known_only = p->in_guard || (p->in_template && !(qparams && p->rule->kind == QC_RULE_PATTERN));
    for (unsigned i = 0; i < *count; i++)
        if (strcmp(names[i], name) == 0) {
            *slot = i;
            return true;
        }
    if (known_only) return qc_lexer_error(at, qparams ? "qparams of the match" : "a name of the match", st);
    if (*count == (qparams ? (unsigned)QC_RULE_QPARAMS : (unsigned)QC_RULE_SLOTS))
        return qc_lexer_error(at,
                              qparams ? "at most 8 names of qparams in a rule" : "at most 16 names of values in a rule",
                              st);
    names[*count] = name;
    *slot = (*count)++;
    return true;
}

/* Reads a name and returns its slot, a new one if the name is new. Guards and templates use names of the match; only a
   pattern's template adds qparams, those of quantizers. */
static bool parse_slot(unsigned *slot, struct qc_rule_parser *p, const char *what, bool qparams, struct qc_status *st)
{
    const struct qc_lexer at = p->x;
    const char *name;
    if (!qc_lexer_name(&name, &p->x, what, p->rules->arena, st)) return false;
    return slot_named(slot, p, name, qparams, &at, st);
}

static bool parse_qparams_name(unsigned *slot, struct qc_rule_parser *p, struct qc_status *st)
{
    const char *what = "qparams (a name in upper case)";
    if (p->x.token.kind != QC_TOKEN_NAME || !isupper((unsigned char)*p->x.token.start))
        return qc_lexer_error(&p->x, what, st);
    return parse_slot(slot, p, what, true, st);
}

static bool parse_qparams(struct qc_qparams_expr *s, struct qc_rule_parser *p, struct qc_status *st)
{
    *s = (struct qc_qparams_expr){.given = true};
    if (!parse_qparams_name(&s->first, p, st)) return false;
    if (qc_lexer_take(&p->x, "*", st)) {
        s->product = true;
        if (!parse_qparams_name(&s->second, p, st)) return false;
    }
    if (qc_lexer_take(&p->x, "per", st)) {
        const struct qc_lexer at = p->x;
        double axis;
        if (qc_lexer_take(&p->x, "out", st)) {
            s->axis_kind = QC_AXIS_OUT;
        } else {
            if (!qc_lexer_number(&axis, &p->x, st)) return false;
            if (!(axis >= 0 && axis < QC_RANK_MAX && floor(axis) == axis))
                return qc_lexer_error(&at, "an axis from 0 to 7", st);
            s->axis_kind = QC_AXIS_NUMBER;
            s->axis = (int)axis;
        }
    }
    return st->code == QC_OK;
}

static struct qc_expr *new_expr(struct qc_rule_parser *p, enum qc_expr_kind kind, struct qc_status *st)
{
    struct qc_expr *e = QC_NEW(p->rules->arena, struct qc_expr, st);
    if (!e) return NULL;
    e->kind = kind;
    e->line = p->x.token.line;
    e->column = p->x.token.column;
    return e;
}

/* [TYPE] [QPARAMS] after a colon: a match may have both, a template only qparams. */
static bool parse_annotation(struct qc_expr *e, struct qc_rule_parser *p, struct qc_status *st)
{
    char name[16];
    const struct qc_token *t = &p->x.token;
    if (!p->in_template && t->kind == QC_TOKEN_NAME && t->size < sizeof name) {
        memcpy(name, t->start, t->size);
        name[t->size] = '\0';
        e->dtype = qc_dtype_from_name(name);
        if (e->dtype != QC_NONE && !qc_lexer_next(&p->x, st)) return false;
        if (e->dtype != QC_NONE && !(p->x.token.kind == QC_TOKEN_NAME && isupper((unsigned char)*p->x.token.start)))
            return true;
    }
    return parse_qparams(&e->qparams, p, st);
}

/* "(" EXPR [: QPARAMS] {, EXPR [: QPARAMS]} ")"; the qparams of q, dq and requantize belong to the call itself. */
static bool parse_args(struct qc_expr *e, struct qc_rule_parser *p, struct qc_status *st)
{
    bool ours = e->op == QC_OP_Quantize || e->op == QC_OP_Dequantize || e->op == QC_OP_Requantize;
    if (!qc_lexer_expect(&p->x, "(", st)) return false;
    do {
        if (e->arg_count == QC_RULE_ARGS) return qc_lexer_error(&p->x, "at most 8 arguments", st);
        struct qc_expr *arg = qc_parse_expr(p, st);
        if (!arg) return false;
        e->args[e->arg_count++] = arg;
        if (qc_lexer_take(&p->x, ":", st) && !parse_annotation(ours ? e : arg, p, st)) return false;
    } while (qc_lexer_take(&p->x, ",", st));
    if (ours && (e->arg_count != 1 || !e->qparams.given))
        return qc_lexer_error(&p->x, "one argument and its qparams, as in q(x : X)", st);
    return qc_lexer_expect(&p->x, ")", st);
}

/* attribute(Op.name = default) */
static bool parse_attribute(enum qc_op *op, const char **attribute, double *otherwise, struct qc_rule_parser *p,
                            struct qc_status *st)
{
    const char *name;
    if (!qc_lexer_expect(&p->x, "(", st)) return false;
    struct qc_lexer before = p->x;
    if (!qc_lexer_name(&name, &p->x, "an op", p->rules->arena, st)) return false;
    if ((*op = qc_op_from_name(name)) == QC_OP_INVALID)
        return qc_lexer_error(&before, "the name of an op (qcalib list ops)", st);
    return qc_lexer_expect(&p->x, ".", st) && qc_lexer_name(attribute, &p->x, "an attribute", p->rules->arena, st) &&
           qc_lexer_expect(&p->x, "=", st) && qc_lexer_number(otherwise, &p->x, st) && qc_lexer_expect(&p->x, ")", st);
}

static bool parse_ints(struct qc_expr *e, struct qc_rule_parser *p, struct qc_status *st)
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

static bool parse_number(struct qc_expr *e, struct qc_rule_parser *p, struct qc_status *st)
{
    double v;
    if (!qc_lexer_number(&v, &p->x, st)) return false;
    e->number = (float)v;
    return true;
}

static struct qc_expr *parse_else(struct qc_rule_parser *p, struct qc_status *st)
{
    struct qc_expr *e = new_expr(p, QC_EXPR_ELSE, st), *otherwise;
    if (!e || !qc_lexer_expect(&p->x, "(", st) || !parse_slot(&e->slot, p, "a name", false, st) ||
        !qc_lexer_expect(&p->x, "else", st) || !(otherwise = qc_parse_expr(p, st)) || !qc_lexer_expect(&p->x, ")", st))
        return NULL;
    e->args[e->arg_count++] = otherwise;
    return e;
}

static struct qc_expr *parse_capture(struct qc_rule_parser *p, const char *name, bool constant,
                                     const struct qc_lexer *at, struct qc_status *st)
{
    struct qc_expr *e = new_expr(p, QC_EXPR_CAPTURE, st);
    if (!e || !slot_named(&e->slot, p, name, false, at, st)) return NULL;
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

/* value(c) and elements(c): the number of an attribute; c is a constant of the match. */
static bool parse_attribute_of(bool *done, struct qc_attr *a, unsigned *of, struct qc_rule_parser *p,
                               struct qc_status *st)
{
    const bool value = qc_lexer_is(&p->x, "value"), elements = qc_lexer_is(&p->x, "elements");
    unsigned slot;
    *done = value || elements;
    if (!*done) return true;
    if (!qc_lexer_next(&p->x, st) || !qc_lexer_expect(&p->x, "(", st) ||
        !parse_slot(&slot, p, "a constant of the match", false, st) || !qc_lexer_expect(&p->x, ")", st))
        return false;
    a->kind = value ? QC_ATTR_FLOAT : QC_ATTR_INT;
    *of = slot + 1;
    return true;
}

/* {name=1, other=0.5, third="text", fourth=[1,2], fifth=value(c)} after the arguments. A number with a point or an
   exponent is a float. */
static bool parse_attributes(struct qc_expr *e, struct qc_rule_parser *p, struct qc_status *st)
{
    if (!(e->attrs = QC_NEW_ARRAY(p->rules->arena, struct qc_attr, QC_RULE_ARGS, st)) ||
        !(e->attr_of = QC_NEW_ARRAY(p->rules->arena, unsigned, QC_RULE_ARGS, st)))
        return false;
    do {
        if (e->attr_count == QC_RULE_ARGS) return qc_lexer_error(&p->x, "at most 8 attributes", st);
        struct qc_attr *a = &e->attrs[e->attr_count++];
        struct qc_expr list = {0};
        bool done;
        if (!qc_lexer_name(&a->name, &p->x, "an attribute", p->rules->arena, st) || !qc_lexer_expect(&p->x, "=", st))
            return false;
        if (!parse_attribute_of(&done, a, &e->attr_of[e->attr_count - 1], p, st)) return false;
        if (done) continue;
        if (p->x.token.kind == QC_TOKEN_TEXT) {
            a->kind = QC_ATTR_STRING;
            if (!qc_lexer_text(&a->s, &p->x, p->rules->arena, st)) return false;
        } else if (qc_lexer_take(&p->x, "[", st)) {
            a->kind = QC_ATTR_INTS;
            if (!parse_ints(&list, p, st)) return false;
            a->count = list.int_count;
            if (!(a->ints = qc_arena_dup(p->rules->arena, list.ints, list.int_count, sizeof *list.ints, st)))
                return false;
        } else {
            const struct qc_token t = p->x.token;
            double v;
            if (!qc_lexer_number(&v, &p->x, st)) return false;
            bool whole = !memchr(t.start, '.', t.size) && fabs(v) <= 0x1p53 && floor(v) == v;
            a->kind = whole ? QC_ATTR_INT : QC_ATTR_FLOAT;
            if (whole)
                a->i = (int64_t)v;
            else
                a->f = (float)v;
        }
    } while (qc_lexer_take(&p->x, ",", st));
    return qc_lexer_expect(&p->x, "}", st);
}

static bool is_number_call(struct qc_expr *e, const char *name, struct qc_rule_parser *p, bool *done,
                           struct qc_status *st)
{
    double otherwise = 0;
    *done = p->in_template && strcmp(name, "attribute") == 0;
    if (!*done) return true;
    e->kind = QC_EXPR_ATTRIBUTE;
    if (!parse_attribute(&e->op, &e->attribute, &otherwise, p, st)) return false;
    e->number = (float)otherwise;
    return true;
}

/* Parses the rest of an op after its name or names: [?] arguments [{attributes}]. */
static struct qc_expr *parse_op(struct qc_expr *e, struct qc_rule_parser *p, struct qc_status *st)
{
    bool ours = e->op == QC_OP_Quantize || e->op == QC_OP_Dequantize || e->op == QC_OP_Requantize;
    if (!ours) e->optional = qc_lexer_take(&p->x, "?", st);
    if (!parse_args(e, p, st)) return NULL;
    if (p->in_template && !ours && qc_lexer_take(&p->x, "{", st) && !parse_attributes(e, p, st)) return NULL;
    return st->code == QC_OK ? e : NULL;
}

static struct qc_expr *parse_call(struct qc_rule_parser *p, const char *name, const struct qc_lexer *at,
                                  struct qc_status *st)
{
    struct qc_expr *e = new_expr(p, QC_EXPR_OP, st);
    bool done;
    if (!e || !is_number_call(e, name, p, &done, st)) return NULL;
    if (done) return e;
    bool vector = strcmp(name, "vector") == 0, column = strcmp(name, "column") == 0;
    if (p->in_template && (vector || column)) {
        e->kind = vector ? QC_EXPR_VECTOR : QC_EXPR_COLUMN;
        if (!parse_args(e, p, st)) return NULL;
        if (e->arg_count == (vector ? 1u : 2u)) return e;
        qc_lexer_error(at, vector ? "vector(e)" : "column(e, w)", st);
        return NULL;
    }
    if (p->in_template && strcmp(name, "rows") == 0) {
        e->kind = QC_EXPR_ROWS;
        if (!parse_args(e, p, st)) return NULL;
        if (e->arg_count == 1 && e->args[0]->kind == QC_EXPR_CAPTURE) return e;
        qc_lexer_error(at, "rows(c), c a constant of the match", st);
        return NULL;
    }
    if ((e->op = op_of_call(name)) == QC_OP_INVALID) {
        qc_lexer_error(at, "the name of an op (qcalib list ops), q, dq or requantize", st);
        return NULL;
    }
    e->ops[e->op_count++] = e->op;
    return parse_op(e, p, st);
}

/* Returns true if "(" begins the names of several ops, as in (Relu|Clip)(x). Looks ahead on a copy. */
static bool begins_ops(const struct qc_rule_parser *p)
{
    struct qc_lexer x = p->x;
    struct qc_status ignored = QC_STATUS_INIT;
    do {
        if (!qc_lexer_next(&x, &ignored) || x.token.kind != QC_TOKEN_NAME || !isupper((unsigned char)*x.token.start) ||
            !qc_lexer_next(&x, &ignored))
            return false;
    } while (qc_lexer_is(&x, "|"));
    return qc_lexer_is(&x, ")");
}

static struct qc_expr *parse_ops(struct qc_rule_parser *p, struct qc_status *st)
{
    struct qc_expr *e = new_expr(p, QC_EXPR_OP, st);
    const char *name;
    if (!e || !qc_lexer_expect(&p->x, "(", st)) return NULL;
    do {
        struct qc_lexer at = p->x;
        if (e->op_count == QC_RULE_CHOICES) {
            qc_lexer_error(&at, "at most 8 ops in one place", st);
            return NULL;
        }
        if (!qc_lexer_name(&name, &p->x, "an op", p->rules->arena, st)) return NULL;
        if ((e->ops[e->op_count++] = qc_op_from_name(name)) == QC_OP_INVALID) {
            qc_lexer_error(&at, "the name of an op (qcalib list ops)", st);
            return NULL;
        }
    } while (qc_lexer_take(&p->x, "|", st));
    e->op = e->ops[0];
    return qc_lexer_expect(&p->x, ")", st) ? parse_op(e, p, st) : NULL;
}

/* "(" EXPR { "|" EXPR } ")" */
static struct qc_expr *parse_choice(struct qc_rule_parser *p, struct qc_status *st)
{
    struct qc_expr *e = new_expr(p, QC_EXPR_CHOICE, st);
    if (!e || !qc_lexer_expect(&p->x, "(", st)) return NULL;
    do {
        if (e->arg_count == QC_RULE_CHOICES) {
            qc_lexer_error(&p->x, "at most 8 alternatives", st);
            return NULL;
        }
        if (!(e->args[e->arg_count] = qc_parse_expr(p, st))) return NULL;
        if (qc_lexer_take(&p->x, ":", st) && !parse_annotation(e->args[e->arg_count], p, st)) return NULL;
        e->arg_count++;
    } while (qc_lexer_take(&p->x, "|", st));
    return qc_lexer_expect(&p->x, ")", st) ? e : NULL;
}

static struct qc_expr *parse_primary(struct qc_rule_parser *p, struct qc_status *st)
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
    if (qc_lexer_is(&p->x, "("))
        return begins_ops(p) ? parse_ops(p, st) : p->in_template ? parse_else(p, st) : parse_choice(p, st);
    bool constant = !p->in_template && qc_lexer_take(&p->x, "const", st);
    struct qc_lexer before = p->x;
    if (!qc_lexer_name(&name, &p->x, "a value, an op or q, dq, requantize", p->rules->arena, st)) return NULL;
    if (qc_lexer_is(&p->x, "(")) return parse_call(p, name, &before, st);
    if (isupper((unsigned char)*name) && qc_lexer_is(&p->x, "?")) return parse_call(p, name, &before, st);
    if (isupper((unsigned char)*name)) {
        qc_lexer_error(&before, "a value (a name in lower case) or an op with its arguments", st);
        return NULL;
    }
    return parse_capture(p, name, constant, &before, st);
}

struct qc_expr *qc_parse_expr(struct qc_rule_parser *p, struct qc_status *st)
{
    if (++p->depth > 32) {
        qc_lexer_error(&p->x, "at most 32 levels of brackets", st);
        return NULL;
    }
    struct qc_expr *e = parse_primary(p, st);
    p->depth--;
    return e;
}

unsigned qc_expr_size(const struct qc_expr *e)
{
    unsigned sum = e->kind == QC_EXPR_OP ? 1 : 0;
    for (unsigned i = 0; i < e->arg_count; i++) {
        unsigned size = qc_expr_size(e->args[i]);
        if (e->kind == QC_EXPR_CHOICE)
            sum = size > sum ? size : sum;
        else
            sum += size;
    }
    return sum;
}

bool qc_expr_begins_with_op(const struct qc_expr *e)
{
    if (e->kind == QC_EXPR_OP) return !e->optional || qc_expr_begins_with_op(e->args[0]);
    for (unsigned i = 0; i < e->arg_count; i++)
        if (!qc_expr_begins_with_op(e->args[i])) return false;
    return e->kind == QC_EXPR_CHOICE;
}

/* "(" Op "." name [ "[" index "]" ] "=" default ")" */
static bool parse_guard_attribute(struct qc_guard_term *t, struct qc_rule_parser *p, struct qc_status *st)
{
    const char *name;
    double index;
    t->kind = QC_TERM_ATTRIBUTE;
    if (!qc_lexer_expect(&p->x, "(", st)) return false;
    struct qc_lexer before = p->x;
    if (!qc_lexer_name(&name, &p->x, "an op", p->rules->arena, st)) return false;
    if ((t->op = qc_op_from_name(name)) == QC_OP_INVALID)
        return qc_lexer_error(&before, "the name of an op (qcalib list ops)", st);
    if (!qc_lexer_expect(&p->x, ".", st) || !qc_lexer_name(&t->attribute, &p->x, "an attribute", p->rules->arena, st))
        return false;
    if (qc_lexer_take(&p->x, "[", st)) {
        before = p->x;
        if (!qc_lexer_number(&index, &p->x, st)) return false;
        if (!(index >= 0 && index < 64 && floor(index) == index))
            return qc_lexer_error(&before, "the number of an element, from 0", st);
        t->index = (int)index;
        if (!qc_lexer_expect(&p->x, "]", st)) return false;
    }
    if (!qc_lexer_expect(&p->x, "=", st)) return false;
    bool text = p->x.token.kind == QC_TOKEN_TEXT && t->index < 0;
    if (text ? !qc_lexer_text(&t->text, &p->x, p->rules->arena, st) : !qc_lexer_number(&t->number, &p->x, st))
        return false;
    return qc_lexer_expect(&p->x, ")", st);
}

static bool parse_number_argument(struct qc_guard_term **out, struct qc_rule_parser *p, struct qc_status *st)
{
    struct qc_guard_term *t = QC_NEW(p->rules->arena, struct qc_guard_term, st);
    if (!t) return false;
    *out = t;
    t->index = -1;
    if (qc_lexer_is(&p->x, "attribute")) return qc_lexer_next(&p->x, st) && parse_guard_attribute(t, p, st);
    if (p->x.token.kind != QC_TOKEN_NUMBER) return qc_lexer_error(&p->x, "a number or an attribute", st);
    return qc_lexer_number(&t->number, &p->x, st);
}

static bool parse_function(struct qc_guard_term *t, struct qc_rule_parser *p, struct qc_status *st)
{
    if (!qc_lexer_expect(&p->x, "(", st)) return false;
    for (unsigned i = 0; i < t->function->arg_count; i++) {
        if (i && !qc_lexer_expect(&p->x, ",", st)) return false;
        enum qc_guard_arg kind = t->function->args[i];
        if (kind == QC_GUARD_NUMBER ? !parse_number_argument(&t->args[i], p, st)
                                    : !parse_slot(&t->slots[i], p, "a name of the match", kind == QC_GUARD_QPARAMS, st))
            return false;
        t->arg_count++;
    }
    return qc_lexer_expect(&p->x, ")", st);
}

static bool parse_term(struct qc_guard_term *t, struct qc_rule_parser *p, struct qc_status *st)
{
    const char *name;
    *t = (struct qc_guard_term){.kind = QC_TERM_NUMBER, .index = -1};
    if (p->x.token.kind == QC_TOKEN_NUMBER) return qc_lexer_number(&t->number, &p->x, st);
    if (p->x.token.kind == QC_TOKEN_TEXT) {
        t->kind = QC_TERM_TEXT;
        return qc_lexer_text(&t->text, &p->x, p->rules->arena, st);
    }
    struct qc_lexer before = p->x;
    if (!qc_lexer_name(&name, &p->x, "a guard", p->rules->arena, st)) return false;
    if (strcmp(name, "attribute") == 0) return parse_guard_attribute(t, p, st);
    enum qc_dtype dtype = qc_dtype_from_name(name);
    if (dtype != QC_NONE) {
        t->number = (double)dtype;
        return true;
    }
    t->kind = QC_TERM_FUNCTION;
    if (!(t->function = qc_guard_find(name)))
        return qc_lexer_error(&before, "the name of a guard (docs/rule-language.md)", st);
    return parse_function(t, p, st);
}

bool qc_parse_guards(struct qc_guard *guards, unsigned *count, unsigned most, struct qc_rule_parser *p,
                     struct qc_status *st)
{
    static const char *const signs[] = {[QC_COMPARE_EQ] = "==", [QC_COMPARE_NE] = "!=", [QC_COMPARE_LT] = "<",
                                        [QC_COMPARE_LE] = "<=", [QC_COMPARE_GT] = ">",  [QC_COMPARE_GE] = ">="};
    char expected[40];
    do {
        if (*count == most)
            return qc_lexer_error(&p->x, qc_text(expected, sizeof expected, "at most %u guards", most), st);
        struct qc_guard *g = &guards[(*count)++];
        *g = (struct qc_guard){.compare = QC_COMPARE_TRUE, .negated = qc_lexer_take(&p->x, "not", st)};
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
