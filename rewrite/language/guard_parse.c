// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "rewrite/language/match.h"
#include "rewrite/language/rule_parser.h"

/* "(" Op "." name [ "[" index "]" ] "=" default ")" */
static bool parse_attribute(struct qc_guard_term *t, struct qc_rule_parser *p, struct qc_status *st)
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
    if (qc_lexer_is(&p->x, "attribute")) return qc_lexer_next(&p->x, st) && parse_attribute(t, p, st);
    if (p->x.token.kind != QC_TOKEN_NUMBER) return qc_lexer_error(&p->x, "a number or an attribute", st);
    return qc_lexer_number(&t->number, &p->x, st);
}

static bool parse_function(struct qc_guard_term *t, struct qc_rule_parser *p, struct qc_status *st)
{
    if (!qc_lexer_expect(&p->x, "(", st)) return false;
    for (unsigned i = 0; i < t->function->arg_count; i++) {
        if (i && !qc_lexer_expect(&p->x, ",", st)) return false;
        enum qc_guard_arg kind = t->function->args[i];
        if (kind == QC_GUARD_NUMBER
                ? !parse_number_argument(&t->args[i], p, st)
                : !qc_parse_slot(&t->slots[i], p, "a name of the match", kind == QC_GUARD_QPARAMS, st))
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
    if (strcmp(name, "attribute") == 0) return parse_attribute(t, p, st);
    enum qc_dtype dtype = qc_dtype_from_name(name);
    if (dtype != QC_NONE) {
        t->number = (double)dtype;
        return true;
    }
    t->kind = QC_TERM_FUNCTION;
    if (!(t->function = qc_guard_find(name))) return qc_lexer_error(&before, "the name of a guard (docs/rule-language.md)", st);
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
