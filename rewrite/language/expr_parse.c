// SPDX-License-Identifier: Apache-2.0
/* Expressions of matches, guards, templates and functions: docs/rule-language.md. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rewrite/language/expression.h"
#include "rewrite/language/rule_parser.h"

enum { DEPTH = 32, SIGNS = 1000, ITEMS = 16 };

static bool in_rule(const struct qc_rule_parser *p)
{
    return p->place == QC_PLACE_MATCH || p->place == QC_PLACE_TEMPLATE;
}

static bool at_upper(const struct qc_lexer *x)
{
    return x->token.kind == QC_TOKEN_NAME && isupper((unsigned char)*x->token.start);
}

static struct qc_expr *new_expr(struct qc_rule_parser *p, enum qc_expr_kind kind)
{
    struct qc_expr *e = qc_lexer_new(&p->x, 1, sizeof *e);
    if (!e) e = &p->spare;
    *e = (struct qc_expr){.kind = kind, .line = p->x.token.line, .column = p->x.token.column};
    return e;
}

/* Returns an array of the arena with room for item `count`: a copy of twice the size where it is full, NULL if memory
   is out. */
static void *with_room(void *items, unsigned count, size_t size, struct qc_lexer *x)
{
    if (count & (count - 1)) return items;
    void *more = qc_lexer_new(x, count ? 2 * (size_t)count : 1, size);
    if (more && count) memcpy(more, items, count * size);
    return more;
}

static void add_arg(struct qc_rule_parser *p, struct qc_expr *e, struct qc_expr *arg)
{
    struct qc_expr **args = with_room(e->args, e->arg_count, sizeof *args, &p->x);
    if (!args) return;
    e->args = args;
    args[e->arg_count++] = arg;
}

/* Finds the slot of a name that was read already, or adds one: guards and templates use names of the match; only a
   pattern's template adds qparams, those of quantizers. at: position for the message. */
static unsigned slot_named(struct qc_rule_parser *p, const char *name, bool qparams, struct qc_token at)
{
    const char **names = qparams ? p->rule->qparams_of : p->rule->slots;
    unsigned *count = qparams ? &p->rule->qparams_count : &p->rule->slot_count;
    const bool adds =
        p->place == QC_PLACE_MATCH || (p->place == QC_PLACE_TEMPLATE && qparams && p->rule->kind == QC_RULE_PATTERN);
    for (unsigned i = 0; i < *count; i++)
        if (strcmp(names[i], name) == 0) return i;
    if (!adds) {
        qc_lexer_error(&p->x, at, qparams ? "qparams of the match" : "a name of the match");
    } else if (*count == (qparams ? (unsigned)QC_RULE_QPARAMS : (unsigned)QC_RULE_SLOTS)) {
        qc_lexer_error(&p->x, at,
                       qparams ? "at most 8 names of qparams in a rule" : "at most 16 names of values in a rule");
    } else {
        names[*count] = name;
        return (*count)++;
    }
    return 0;
}

static unsigned parse_slot(struct qc_rule_parser *p, const char *what, bool qparams)
{
    const struct qc_token at = p->x.token;
    const char *name = qc_lexer_name(&p->x, what);
    return slot_named(p, name, qparams, at);
}

static unsigned parse_qparams_name(struct qc_rule_parser *p)
{
    const char *what = "qparams (a name in upper case)";
    if (!at_upper(&p->x)) return qc_lexer_error(&p->x, p->x.token, what);
    return parse_slot(p, what, true);
}

/* [TYPE] [QPARAMS] after a colon: a match may have both, a template only qparams. */
static void parse_annotation(struct qc_expr *e, struct qc_rule_parser *p)
{
    struct qc_qparams_expr *s = &e->qparams;
    const struct qc_token *t = &p->x.token;
    char name[16] = "";
    if (p->place == QC_PLACE_MATCH && t->kind == QC_TOKEN_NAME && t->size < sizeof name) {
        memcpy(name, t->start, t->size);
        e->dtype = qc_dtype_from_name(name);
        if (e->dtype != QC_NONE) qc_lexer_next(&p->x);
        if (e->dtype != QC_NONE && !at_upper(&p->x)) return;
    }
    *s = (struct qc_qparams_expr){.given = true, .first = parse_qparams_name(p)};
    if ((s->product = qc_lexer_take(&p->x, "*"))) s->second = parse_qparams_name(p);
    if (!qc_lexer_take(&p->x, "per")) return;
    s->axis_kind = qc_lexer_take(&p->x, "out") ? QC_AXIS_OUT : QC_AXIS_NUMBER;
    if (s->axis_kind == QC_AXIS_OUT) return;
    const struct qc_token at = *t;
    const double axis = qc_lexer_number(&p->x);
    s->axis = axis >= 0 && axis < QC_RANK_MAX && floor(axis) == axis ? (int)axis : -1;
    if (s->axis < 0) qc_lexer_error(&p->x, at, "an axis from 0 to 7");
}

static bool is_ours(const struct qc_expr *e)
{
    return e->kind == QC_EXPR_OP && qc_op_is_conversion(e->op);
}

/* EXPR [: QPARAMS] {, EXPR [: QPARAMS]} up to the closing sign; in functions perhaps none. The qparams of q, dq
   and requantize belong to the call itself. */
static void parse_args(struct qc_expr *e, struct qc_rule_parser *p, const char *close, unsigned most)
{
    char expected[40];
    if (p->place == QC_PLACE_FUNCTION && qc_lexer_take(&p->x, close)) return;
    do {
        const char *kinds = e->kind == QC_EXPR_ASKED ? e->builtin->kinds : NULL;
        const char kind = kinds && e->arg_count < e->builtin->most ? kinds[e->arg_count] : 'e';
        struct qc_expr *arg;
        if (e->arg_count == most)
            qc_lexer_error(&p->x, p->x.token, qc_text(expected, sizeof expected, "at most %u arguments", most));
        if (kind == 'e') {
            arg = qc_parse_expr(p);
        } else {
            arg = new_expr(p, QC_EXPR_CAPTURE);
            arg->slot = parse_slot(p, "a name of the match", kind == 'q');
        }
        add_arg(p, e, arg);
        if (in_rule(p) && qc_lexer_take(&p->x, ":")) parse_annotation(is_ours(e) ? e : arg, p);
    } while (qc_lexer_take(&p->x, ","));
    if (is_ours(e) && (e->arg_count != 1 || !e->qparams.given))
        qc_lexer_error(&p->x, p->x.token, "one argument and its qparams, as in q(x : X)");
    qc_lexer_expect(&p->x, close);
}

const char *qc_parse_operator(struct qc_rule_parser *p)
{
    struct qc_lexer *x = &p->x;
    const char *name = qc_lexer_name(x, "the name of an operator"), *sign = "";
    while (*(sign = qc_lexer_take(x, ".") ? "." : qc_lexer_take(x, ":") ? "::" : "")) {
        if (sign[1]) qc_lexer_expect(x, ":");
        const char *more = qc_lexer_name(x, "the name of an operator");
        name = qc_arena_printf(x->arena, x->st, "%s%s%s", name, sign, more);
        if (!name) return "";
        if (sign[1]) break;
    }
    return name;
}

/* Appends the ops of a name, that of an op or a set. Returns false if there is none. */
static bool add_ops(enum qc_op **ops, unsigned *count, struct qc_rule_parser *p, const char *name)
{
    enum qc_op one = qc_op_from_name(name);
    struct qc_op_set found = {.count = one != QC_OP_INVALID, .ops = &one};
    for (size_t i = 0; i < p->rules->set_count; i++)
        if (strcmp(p->rules->sets[i].name, name) == 0) found = p->rules->sets[i];
    for (unsigned i = 0; i < found.count; i++) {
        enum qc_op *more = with_room(*ops, *count, sizeof *more, &p->x);
        if (!more) return true;
        *ops = more;
        more[(*count)++] = found.ops[i];
    }
    return found.count != 0;
}

void qc_parse_ops(enum qc_op **ops, unsigned *count, struct qc_rule_parser *p, const char *expected)
{
    const struct qc_token at = p->x.token;
    if (!add_ops(ops, count, p, qc_lexer_name(&p->x, "an op"))) qc_lexer_error(&p->x, at, expected);
}

/* Parses the rest of an op after its name or names: [?] arguments [{ name = EXPR, ... }]. */
static struct qc_expr *finish_op(struct qc_expr *e, struct qc_rule_parser *p)
{
    e->op = e->op_count ? e->ops[0] : e->op;
    e->optional = in_rule(p) && !is_ours(e) && qc_lexer_take(&p->x, "?");
    qc_lexer_expect(&p->x, "(");
    parse_args(e, p, ")", QC_RULE_ARGS);
    if (p->place == QC_PLACE_MATCH || is_ours(e) || !qc_lexer_take(&p->x, "{")) return e;
    e->attr_names = qc_lexer_new(&p->x, QC_RULE_ARGS, sizeof *e->attr_names);
    e->attrs = qc_lexer_new(&p->x, QC_RULE_ARGS, sizeof *e->attrs);
    do {
        if (e->attr_count == QC_RULE_ARGS) qc_lexer_error(&p->x, p->x.token, "at most 12 attributes");
        const char *name = qc_lexer_name(&p->x, "an attribute");
        qc_lexer_expect(&p->x, "=");
        struct qc_expr *value = qc_parse_expr(p);
        if (p->x.st->code != QC_OK) return e;
        e->attr_names[e->attr_count] = name;
        e->attrs[e->attr_count++] = value;
    } while (qc_lexer_take(&p->x, ","));
    qc_lexer_expect(&p->x, "}");
    return e;
}

/* An op of a rule behind its name: of an op, of a set, q, dq or requantize. */
static struct qc_expr *parse_op(struct qc_expr *e, struct qc_rule_parser *p, const char *name, struct qc_token at)
{
    static const struct {
        const char *name;
        enum qc_op op;
    } ours[] = {{"q", QC_OP_Quantize}, {"dq", QC_OP_Dequantize}, {"requantize", QC_OP_Requantize}};
    e->kind = QC_EXPR_OP;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(ours[i].name, name) == 0) name = qc_op_info(ours[i].op)->name;
    if (!add_ops(&e->ops, &e->op_count, p, name))
        qc_lexer_error(&p->x, at, "the name of an op (qcalib list ops), q, dq or requantize");
    return finish_op(e, p);
}

/* Returns true if "(" begins the names of several ops, as in (Relu|Clip)(x). Looks ahead on a copy. */
static bool begins_ops(const struct qc_rule_parser *p)
{
    struct qc_status ignored = QC_STATUS_INIT;
    struct qc_lexer x = p->x;
    x.st = &ignored;
    do {
        qc_lexer_next(&x);
        if (!at_upper(&x)) return false;
        qc_lexer_next(&x);
    } while (qc_lexer_is(&x, "|"));
    return qc_lexer_is(&x, ")");
}

/* "(" Op { "|" Op } ")" and the rest of the op, "(" EXPR { "|" EXPR } ")" in a match, "(" name "else" EXPR ")" in a
   template, "(" EXPR ")" in others. */
static struct qc_expr *parse_bracket(struct qc_rule_parser *p)
{
    const bool ops = in_rule(p) && begins_ops(p);
    struct qc_expr *e = new_expr(p, ops ? QC_EXPR_OP : p->place == QC_PLACE_MATCH ? QC_EXPR_CHOICE : QC_EXPR_ELSE);
    qc_lexer_expect(&p->x, "(");
    if (ops) {
        do qc_parse_ops(&e->ops, &e->op_count, p, "the name of an op (qcalib list ops)");
        while (qc_lexer_take(&p->x, "|"));
    } else if (p->place == QC_PLACE_MATCH) {
        do {
            if (e->arg_count == QC_RULE_CHOICES) qc_lexer_error(&p->x, p->x.token, "at most 8 alternatives");
            struct qc_expr *one = qc_parse_expr(p);
            if (qc_lexer_take(&p->x, ":")) parse_annotation(one, p);
            add_arg(p, e, one);
        } while (qc_lexer_take(&p->x, "|"));
    } else {
        struct qc_expr *first = qc_parse_expr(p);
        if (p->place == QC_PLACE_TEMPLATE) {
            add_arg(p, e, first);
            qc_lexer_expect(&p->x, "else");
            add_arg(p, e, qc_parse_expr(p));
        } else {
            e = first;
        }
    }
    qc_lexer_expect(&p->x, ")");
    return ops ? finish_op(e, p) : e;
}

static struct qc_expr *parse_number(struct qc_rule_parser *p)
{
    const struct qc_token t = p->x.token;
    struct qc_expr *e = new_expr(p, QC_EXPR_NUMBER);
    const double v = qc_lexer_number(&p->x);
    char text[64] = "", *end;
    if (p->x.st->code != QC_OK) return e;
    memcpy(text, t.start, t.size); /* qc_lexer_number has checked the size. */
    errno = 0;
    const long long i = strtoll(text, &end, 10);
    e->number = *end || errno ? qc_number_real(v) : qc_number_whole(i);
    return e;
}

/* "attribute" "(" Op "." name [ "[" index "]" ] "=" default ")" after its first word */
static struct qc_expr *parse_attribute(struct qc_expr *e, struct qc_rule_parser *p)
{
    struct qc_lexer *x = &p->x;
    e->kind = QC_EXPR_ATTRIBUTE;
    qc_lexer_expect(x, "(");
    qc_parse_ops(&e->ops, &e->op_count, p, "the name of an op (qcalib list ops)");
    e->op = e->op_count ? e->ops[0] : QC_OP_INVALID;
    qc_lexer_expect(x, ".");
    e->text = qc_lexer_name(x, "an attribute");
    if (qc_lexer_take(x, "[")) {
        const struct qc_token at = x->token;
        const double index = qc_lexer_number(x);
        if (!(index >= 0 && index < 64 && floor(index) == index))
            qc_lexer_error(x, at, "the number of an element, from 0");
        else
            e->slot = (unsigned)index + 1;
        qc_lexer_expect(x, "]");
    }
    qc_lexer_expect(x, "=");
    struct qc_expr *otherwise = x->token.kind == QC_TOKEN_TEXT ? new_expr(p, QC_EXPR_TEXT) : parse_number(p);
    if (otherwise->kind == QC_EXPR_TEXT) otherwise->text = qc_lexer_text(x);
    add_arg(p, e, otherwise);
    qc_lexer_expect(x, ")");
    return e;
}

/* Constants by name: inf, pi, absent, and types, which have their ONNX numbers. */
static bool is_constant_name(struct qc_expr *e, const char *name)
{
    const enum qc_dtype dtype = qc_dtype_from_name(name);
    e->kind = QC_EXPR_NUMBER;
    if (dtype != QC_NONE)
        e->number = qc_number_whole(qc_dtype_info(dtype)->onnx);
    else if (strcmp(name, "inf") == 0)
        e->number = qc_number_real((double)INFINITY);
    else if (strcmp(name, "pi") == 0)
        e->number = qc_number_real(3.14159265358979323846);
    else if (strcmp(name, "absent") == 0)
        e->kind = QC_EXPR_ABSENT;
    else
        return false;
    return true;
}

unsigned qc_parse_slot_of(struct qc_rule_parser *p, const char *name)
{
    unsigned i = 0;
    while (i < p->slot_count && strcmp(p->slots[i].name, name) != 0) i++;
    if (i < p->slot_count) p->slots[i].read = true;
    return i;
}

static const struct qc_builtin *builtin_of(const struct qc_rule_parser *p, const char *name)
{
    const struct qc_builtin *b = p->place == QC_PLACE_FUNCTION ? qc_function_builtins
                                 : p->place == QC_PLACE_GUARD  ? qc_guards
                                                               : qc_template_builtins;
    while (b->name && strcmp(b->name, name) != 0) b++;
    return b->name && p->place != QC_PLACE_MATCH ? b : NULL;
}

/* An expression that begins with a name. */
static struct qc_expr *parse_named(struct qc_rule_parser *p)
{
    static const char *const expected[] = {
        [QC_PLACE_MATCH] = "a value (a name in lower case) or an op with its arguments",
        [QC_PLACE_TEMPLATE] = "a value (a name in lower case) or an op with its arguments",
        [QC_PLACE_GUARD] = "the name of a guard (docs/rule-language.md)",
        [QC_PLACE_FUNCTION] = "an input, an attribute, a name that was given a value, or a function of the language"};
    struct qc_lexer *x = &p->x;
    struct qc_expr *e = new_expr(p, QC_EXPR_CAPTURE);
    const bool function = p->place == QC_PLACE_FUNCTION;
    /* A name in upper case with arguments, or one with a domain. Attributes may have such names too. */
    if (function && x->at + 1 < x->end &&
        (*x->at == '.' || (*x->at == ':' && x->at[1] == ':') || (*x->at == '(' && at_upper(x)))) {
        e->text = qc_parse_operator(p);
        e->op = qc_op_from_name(e->text);
        e->kind = e->op == QC_OP_INVALID ? QC_EXPR_FUNCTION : QC_EXPR_OP;
        return finish_op(e, p);
    }
    e->constant = p->place == QC_PLACE_MATCH && qc_lexer_take(x, "const");
    const struct qc_token at = x->token;
    const bool upper = at_upper(x);
    const char *name = qc_lexer_name(x, "a value, an op or q, dq, requantize");
    const bool called = qc_lexer_is(x, "(");
    if (called && !function && p->place != QC_PLACE_MATCH && strcmp(name, "attribute") == 0)
        return parse_attribute(e, p);
    if (called && (e->builtin = builtin_of(p, name))) {
        e->kind = QC_EXPR_ASKED;
        qc_lexer_next(x);
        parse_args(e, p, ")", QC_RULE_ARGS);
        if (e->arg_count < e->builtin->least || e->arg_count > e->builtin->most)
            qc_lexer_error(x, at, e->builtin->help);
        return e;
    }
    if (in_rule(p) && (called || (upper && qc_lexer_is(x, "?")))) return parse_op(e, p, name, at);
    if (in_rule(p) && !upper) {
        e->slot = slot_named(p, name, false, at);
        e->optional = qc_lexer_take(x, "?");
        return e;
    }
    if (function && (e->slot = qc_parse_slot_of(p, name)) < p->slot_count) return e;
    if (in_rule(p) || !is_constant_name(e, name)) qc_lexer_error(x, at, expected[p->place]);
    return e;
}

static struct qc_expr *parse_primary(struct qc_rule_parser *p)
{
    static const char *const expected[] = {[QC_PLACE_MATCH] = "a value, an op or q, dq, requantize",
                                           [QC_PLACE_TEMPLATE] = "a value, an op or q, dq, requantize",
                                           [QC_PLACE_GUARD] = "a guard",
                                           [QC_PLACE_FUNCTION] = "a value"};
    struct qc_lexer *x = &p->x;
    const enum qc_token_kind kind = x->token.kind;
    struct qc_expr *e;
    if (kind == QC_TOKEN_NUMBER && p->place != QC_PLACE_MATCH) return parse_number(p);
    if (kind == QC_TOKEN_TEXT && p->place != QC_PLACE_MATCH) {
        e = new_expr(p, QC_EXPR_TEXT);
        e->text = qc_lexer_text(x);
    } else if (p->place == QC_PLACE_FUNCTION && qc_lexer_take(x, "if")) {
        e = new_expr(p, QC_EXPR_IF);
        add_arg(p, e, qc_parse_expr(p));
        qc_lexer_expect(x, "then");
        add_arg(p, e, qc_parse_expr(p));
        qc_lexer_expect(x, "else");
        add_arg(p, e, qc_parse_expr(p));
    } else if (kind == QC_TOKEN_NAME) {
        e = parse_named(p);
    } else if (qc_lexer_is(x, "(")) {
        e = parse_bracket(p);
    } else if (qc_lexer_is(x, "[") && (p->place == QC_PLACE_FUNCTION || p->place == QC_PLACE_TEMPLATE)) {
        e = new_expr(p, QC_EXPR_LIST);
        qc_lexer_next(x);
        parse_args(e, p, "]", ITEMS);
    } else {
        e = new_expr(p, QC_EXPR_ABSENT);
        qc_lexer_error(x, x->token, expected[p->place]);
    }
    return e;
}

/* Counts the signs of a statement: their expressions are nested. */
static bool take_sign(struct qc_rule_parser *p, const char *text)
{
    if (!qc_lexer_is(&p->x, text)) return false;
    if (++p->signs > SIGNS) return qc_lexer_error(&p->x, p->x.token, "at most 1000 signs in a statement");
    qc_lexer_next(&p->x);
    return true;
}

static struct qc_expr *with_args(struct qc_rule_parser *p, enum qc_expr_kind kind, struct qc_expr *first,
                                 struct qc_expr *second)
{
    struct qc_expr *e = new_expr(p, kind);
    add_arg(p, e, first);
    if (second) add_arg(p, e, second);
    return e;
}

static struct qc_expr *parse_postfix(struct qc_rule_parser *p)
{
    if (take_sign(p, "-")) return with_args(p, QC_EXPR_NEGATE, parse_postfix(p), NULL);
    struct qc_expr *e = parse_primary(p);
    while (p->place == QC_PLACE_FUNCTION && qc_lexer_take(&p->x, "[")) {
        e = with_args(p, QC_EXPR_INDEX, e, qc_parse_expr(p));
        qc_lexer_expect(&p->x, "]");
    }
    return e;
}

static const struct {
    const char *text;
    unsigned level;
} signs[] = {[QC_SIGN_OR] = {"or", 0}, [QC_SIGN_AND] = {"and", 1}, [QC_SIGN_EQ] = {"==", 2}, [QC_SIGN_NE] = {"!=", 2},
             [QC_SIGN_LT] = {"<", 2},  [QC_SIGN_LE] = {"<=", 2},   [QC_SIGN_GT] = {">", 2},  [QC_SIGN_GE] = {">=", 2},
             [QC_SIGN_ADD] = {"+", 3}, [QC_SIGN_SUB] = {"-", 3},   [QC_SIGN_MUL] = {"*", 4}, [QC_SIGN_DIV] = {"/", 4},
             [QC_SIGN_MOD] = {"%", 4}};
enum { NOT_LEVEL = 2, SUM_LEVEL = 3, LEVELS = 5, SIGN_COUNT = sizeof signs / sizeof *signs };

static struct qc_expr *parse_level(struct qc_rule_parser *p, unsigned level)
{
    struct qc_lexer *x = &p->x;
    if (level == LEVELS) return parse_postfix(p);
    if (level == NOT_LEVEL && take_sign(p, "not")) return with_args(p, QC_EXPR_NOT, parse_level(p, level), NULL);
    struct qc_expr *e = parse_level(p, level + 1);
    for (;;) {
        unsigned sign = 0;
        while (sign < SIGN_COUNT && (signs[sign].level != level || !take_sign(p, signs[sign].text))) sign++;
        if (sign == SIGN_COUNT) { /* "a -1": the sign belongs to the number. */
            if (level != SUM_LEVEL || x->token.kind != QC_TOKEN_NUMBER || *x->token.start != '-') return e;
            sign = QC_SIGN_ADD;
            p->signs++;
        }
        e = with_args(p, QC_EXPR_BINARY, e, parse_level(p, level + 1));
        e->sign = (enum qc_sign)sign;
    }
}

struct qc_expr *qc_parse_expr(struct qc_rule_parser *p)
{
    if (++p->depth > DEPTH) qc_lexer_error(&p->x, p->x.token, "at most 32 levels of brackets");
    struct qc_expr *e = in_rule(p) ? parse_primary(p) : parse_level(p, 0);
    p->depth--;
    return e;
}

struct qc_expr *qc_parse_when(struct qc_rule_parser *p)
{
    const enum qc_place place = p->place;
    if (!qc_lexer_take(&p->x, "when")) return NULL;
    p->place = QC_PLACE_GUARD;
    struct qc_expr *e = qc_parse_expr(p);
    p->place = place;
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
