// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/array.h"
#include "rewrite/language/rule_parser.h"

/* The statement "function": docs/rule-language.md, "Functions". */

/* Adds a name; NULL after a failure. */
static struct qc_fslot *add_slot(struct qc_rule_parser *p, const char *name, enum qc_fslot_kind kind,
                                 struct qc_token at)
{
    for (unsigned i = 0; i < p->slot_count; i++)
        if (strcmp(p->slots[i].name, name) == 0) qc_lexer_error(&p->x, at, "a name that is not taken yet");
    if (p->slot_count == QC_EXPANSION_SLOTS) qc_lexer_error(&p->x, at, "at most 160 names in a function");
    if (p->x.st->code != QC_OK) return NULL;
    p->slots[p->slot_count] = (struct qc_fslot){.name = name, .kind = kind, .index = p->slot_count};
    return &p->slots[p->slot_count++];
}

/* "let" NAME { "," NAME } "=" EXPR */
static void parse_let(struct qc_rule_parser *p)
{
    struct qc_lexer *x = &p->x;
    const struct qc_token at = x->token;
    const char *names[QC_EXPANSION_OUTPUTS];
    unsigned count = 0;
    do {
        if (count == QC_EXPANSION_OUTPUTS) {
            qc_lexer_error(x, x->token, "at most 8 names");
            return;
        }
        names[count++] = qc_lexer_name(x, "a name");
    } while (qc_lexer_take(x, ","));
    qc_lexer_expect(x, "=");
    const struct qc_token before = x->token;
    struct qc_expr *e = qc_parse_expr(p); /* Parsed before the names are added: they are not visible in it. */
    if (count > 1 && e->kind != QC_EXPR_OP && e->kind != QC_EXPR_FUNCTION)
        qc_lexer_error(x, before, "an op, which has several outputs");
    for (unsigned i = 0; i < count; i++) {
        struct qc_fslot *s = add_slot(p, names[i], QC_FSLOT_LET, at);
        if (!s) return;
        s->first = s->index - i;
        s->index = i;
        s->count = count;
        s->value = e;
    }
}

/* let, ignore, when and refuse, then "give" EXPR { "," EXPR } */
static void parse_body(struct qc_function_rule *f, struct qc_rule_parser *p)
{
    struct qc_lexer *x = &p->x;
    f->clauses = qc_lexer_new(x, QC_EXPANSION_CLAUSES, sizeof *f->clauses);
    f->give = qc_lexer_new(x, QC_EXPANSION_OUTPUTS, sizeof *f->give);
    for (;;) {
        if (qc_lexer_take(x, "let")) {
            parse_let(p);
            continue;
        }
        if (qc_lexer_take(x, "ignore")) {
            /* inputs and attributes that change no number */
            do {
                const struct qc_token at = p->x.token;
                if (qc_parse_slot_of(p, qc_lexer_name(&p->x, "an input or an attribute")) == p->slot_count)
                    qc_lexer_error(&p->x, at, "an input or an attribute");
            } while (qc_lexer_take(&p->x, ","));
            continue;
        }
        const bool refuse = qc_lexer_is(x, "refuse");
        if (!refuse && !qc_lexer_is(x, "when")) break;
        if (f->clause_count == QC_EXPANSION_CLAUSES) {
            qc_lexer_error(x, x->token, "at most 24 of when and refuse");
            return;
        }
        struct qc_fclause *c = &f->clauses[f->clause_count++];
        qc_lexer_next(x);
        if (refuse) c->refusal = qc_lexer_text(x);
        if (refuse) qc_lexer_expect(x, "when");
        c->condition = qc_parse_expr(p);
    }
    qc_lexer_expect(x, "give");
    do {
        if (f->give_count == QC_EXPANSION_OUTPUTS) qc_lexer_error(x, x->token, "at most 8 outputs");
        struct qc_expr *e = qc_parse_expr(p);
        if (x->st->code == QC_OK) f->give[f->give_count++] = e;
    } while (qc_lexer_take(x, ","));
}

void qc_parse_function(struct qc_rule_parser *p)
{
    struct qc_lexer *x = &p->x;
    struct qc_function_rule f = {.file = x->file, .line = x->token.line};
    p->place = QC_PLACE_FUNCTION;
    p->slot_count = 0;
    f.name = qc_parse_operator(p);
    qc_lexer_expect(x, "(");
    for (bool more = !qc_lexer_take(x, ")"); more;) { /* NAME ["?"] { "," NAME ["?"] } ")" */
        const struct qc_token at = x->token;
        struct qc_fslot *s = add_slot(p, qc_lexer_name(x, "an input"), QC_FSLOT_INPUT, at);
        if (s) s->optional = qc_lexer_take(x, "?");
        if (!(more = qc_lexer_take(x, ","))) qc_lexer_expect(x, ")");
    }
    f.input_count = p->slot_count;
    const bool since = qc_lexer_take(x, "opset");
    const double from = since ? qc_lexer_number(x) : 1,
                 to = since && qc_lexer_take(x, "to") ? qc_lexer_number(x) : QC_EXPANSION_NEWEST;
    if (!(from >= 1 && to >= from && to <= QC_EXPANSION_NEWEST)) qc_lexer_error(x, x->token, "opsets from 1 on");
    for (bool more = qc_lexer_take(x, "{"); more;) { /* NAME [ "?" | "=" EXPR ] ... "}" */
        const struct qc_token at = x->token;
        struct qc_fslot *s = add_slot(p, qc_lexer_name(x, "an attribute"), QC_FSLOT_ATTRIBUTE, at);
        if (s && !(s->optional = qc_lexer_take(x, "?")) && qc_lexer_take(x, "=")) s->value = qc_parse_expr(p);
        if (!(more = qc_lexer_take(x, ","))) qc_lexer_expect(x, "}");
    }
    parse_body(&f, p);
    f.slot_count = p->slot_count;
    f.slots = qc_arena_dup(x->arena, p->slots, p->slot_count, sizeof *p->slots, x->st);
    if (x->st->code != QC_OK) return;
    f.opset_from = (int)from;
    f.opset_to = (int)to;
    size_t kept = 0;
    for (size_t i = 0; i < p->rules->function_count; i++) /* A later file replaces all functions of that name. */
        if (strcmp(p->rules->functions[i].file, f.file) == 0 || strcmp(p->rules->functions[i].name, f.name) != 0)
            p->rules->functions[kept++] = p->rules->functions[i];
    p->rules->function_count = kept;
    struct qc_function_rule *more =
        qc_grown(p->rules->functions, p->rules->function_count, &p->rules->function_capacity, sizeof *more, x->st);
    if (!more) return;
    p->rules->functions = more;
    p->rules->functions[p->rules->function_count++] = f;
}
