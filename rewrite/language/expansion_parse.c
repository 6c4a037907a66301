// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "rewrite/language/expansion_parts.h"

static bool add_slot(struct qc_function_parser *f, const char *name, enum qc_fslot_kind kind, const struct qc_lexer *at,
                     struct qc_status *st)
{
    for (unsigned i = 0; i < f->slot_count; i++)
        if (strcmp(f->slots[i].name, name) == 0) return qc_lexer_error(at, "a name that is not taken yet", st);
    if (f->slot_count == QC_EXPANSION_SLOTS) return qc_lexer_error(at, "at most 160 names in a function", st);
    f->slots[f->slot_count++] = (struct qc_fslot){.name = name, .kind = kind};
    return true;
}

/* "(" [ NAME ["?"] { "," NAME ["?"] } ] ")" */
static bool parse_inputs(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    const char *name;
    if (!qc_lexer_expect(x, "(", st)) return false;
    if (qc_lexer_take(x, ")", st)) return true;
    do {
        const struct qc_lexer at = *x;
        if (!qc_lexer_name(&name, x, "an input", f->p->rules->arena, st) || !add_slot(f, name, QC_FSLOT_INPUT, &at, st))
            return false;
        f->slots[f->slot_count - 1].index = f->slot_count - 1;
        f->slots[f->slot_count - 1].optional = qc_lexer_take(x, "?", st);
    } while (qc_lexer_take(x, ",", st));
    return st->code == QC_OK && qc_lexer_expect(x, ")", st);
}

/* "{" NAME [ "?" | "=" EXPR ] ... "}" */
static bool parse_attributes(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    const char *name;
    if (!qc_lexer_take(x, "{", st)) return st->code == QC_OK;
    do {
        const struct qc_lexer at = *x;
        if (!qc_lexer_name(&name, x, "an attribute", f->p->rules->arena, st) ||
            !add_slot(f, name, QC_FSLOT_ATTRIBUTE, &at, st))
            return false;
        struct qc_fslot *s = &f->slots[f->slot_count - 1];
        if (!(s->optional = qc_lexer_take(x, "?", st)) && qc_lexer_take(x, "=", st) &&
            !(s->value = qc_parse_fexpr(f, st)))
            return false;
    } while (qc_lexer_take(x, ",", st));
    return st->code == QC_OK && qc_lexer_expect(x, "}", st);
}

/* "let" NAME { "," NAME } "=" EXPR */
static bool parse_let(struct qc_function_parser *f, struct qc_status *st)
{
    struct qc_lexer *x = &f->p->x;
    const struct qc_lexer at = *x;
    const char *names[QC_EXPANSION_OUTPUTS];
    unsigned count = 0;
    do {
        if (count == QC_EXPANSION_OUTPUTS) return qc_lexer_error(x, "at most 8 names", st);
        if (!qc_lexer_name(&names[count++], x, "a name", f->p->rules->arena, st)) return false;
    } while (qc_lexer_take(x, ",", st));
    if (st->code != QC_OK || !qc_lexer_expect(x, "=", st)) return false;
    const struct qc_lexer before = *x;
    struct qc_fexpr *e = qc_parse_fexpr(f, st); /* Parsed before the names are added: they are not visible in their own
                                                   definition. */
    if (!e) return false;
    if (count > 1 && e->kind != QC_FEXPR_OP && e->kind != QC_FEXPR_FUNCTION)
        return qc_lexer_error(&before, "an op, which has several outputs", st);
    for (unsigned i = 0; i < count; i++) {
        if (!add_slot(f, names[i], QC_FSLOT_LET, &at, st)) return false;
        struct qc_fslot *s = &f->slots[f->slot_count - 1];
        s->index = i;
        s->first = f->slot_count - 1 - i;
        s->count = count;
        s->value = e;
    }
    return true;
}

static bool keep(struct qc_rules *rs, const struct qc_function_rule *f, struct qc_status *st)
{
    size_t kept = 0;
    for (size_t i = 0; i < rs->function_count; i++) /* A later file replaces all functions of that name. */
        if (strcmp(rs->functions[i].file, f->file) == 0 || strcmp(rs->functions[i].name, f->name) != 0)
            rs->functions[kept++] = rs->functions[i];
    rs->function_count = kept;
    struct qc_function_rule *more =
        qc_grown(rs->functions, rs->function_count, &rs->function_capacity, sizeof *more, st);
    if (!more) return false;
    rs->functions = more;
    rs->functions[rs->function_count++] = *f;
    return true;
}

static bool parse_opset(struct qc_function_rule *f, struct qc_function_parser *p, struct qc_status *st)
{
    struct qc_lexer *x = &p->p->x;
    double from = 1, to = QC_EXPANSION_NEWEST;
    if (qc_lexer_take(x, "opset", st)) {
        if (!qc_lexer_number(&from, x, st)) return false;
        if (qc_lexer_take(x, "to", st) && !qc_lexer_number(&to, x, st)) return false;
    }
    if (!(from >= 1 && to >= from && to <= QC_EXPANSION_NEWEST)) return qc_lexer_error(x, "opsets from 1 on", st);
    f->opset_from = (int)from;
    f->opset_to = (int)to;
    return st->code == QC_OK;
}

static bool parse_body(struct qc_function_rule *f, struct qc_function_parser *p, struct qc_status *st)
{
    struct qc_lexer *x = &p->p->x;
    struct qc_fclause clauses[QC_EXPANSION_CLAUSES];
    struct qc_arena *a = p->p->rules->arena;
    for (;;) {
        if (qc_lexer_take(x, "let", st)) {
            if (!parse_let(p, st)) return false;
            continue;
        }
        const bool refuse = qc_lexer_is(x, "refuse");
        if (!refuse && !qc_lexer_is(x, "when")) break;
        struct qc_fclause c = {.refusal = NULL};
        if (f->clause_count == QC_EXPANSION_CLAUSES) return qc_lexer_error(x, "at most 24 of when and refuse", st);
        if (!qc_lexer_next(x, st)) return false;
        if (refuse && (!qc_lexer_text(&c.refusal, x, a, st) || !qc_lexer_expect(x, "when", st))) return false;
        if (!(c.condition = qc_parse_fexpr(p, st))) return false;
        clauses[f->clause_count++] = c;
    }
    if (st->code != QC_OK || !qc_lexer_expect(x, "give", st)) return false;
    if (!(f->give = QC_NEW_ARRAY(a, struct qc_fexpr *, QC_EXPANSION_OUTPUTS, st))) return false;
    do {
        if (f->give_count == QC_EXPANSION_OUTPUTS) return qc_lexer_error(x, "at most 8 outputs", st);
        if (!(f->give[f->give_count++] = qc_parse_fexpr(p, st))) return false;
    } while (qc_lexer_take(x, ",", st));
    f->clauses = qc_arena_dup(a, clauses, f->clause_count, sizeof *clauses, st);
    return st->code == QC_OK && f->clauses;
}

static bool parse_function(struct qc_function_parser *p, struct qc_status *st)
{
    struct qc_function_rule f = {.file = p->p->x.file, .line = p->p->x.token.line};
    if (!qc_parse_function_name(&f.name, p, st) || !parse_inputs(p, st)) return false;
    f.input_count = p->slot_count;
    if (!parse_opset(&f, p, st) || !parse_attributes(p, st) || !parse_body(&f, p, st)) return false;
    f.slot_count = p->slot_count;
    f.slots = qc_arena_dup(p->p->rules->arena, p->slots, p->slot_count, sizeof *p->slots, st);
    return f.slots && keep(p->p->rules, &f, st);
}

bool qc_parse_function(struct qc_rule_parser *p, struct qc_status *st)
{
    struct qc_function_parser *f = calloc(1, sizeof *f);
    if (!f) return qc_fail_memory(st, sizeof *f);
    f->p = p;
    const bool ok = parse_function(f, st);
    free(f);
    return ok && st->code == QC_OK;
}
