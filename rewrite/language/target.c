// SPDX-License-Identifier: Apache-2.0
#include "rewrite/language/target.h"

#include <ctype.h>
#include <string.h>

#include "base/file.h"
#include "base/words.h"
#include "rewrite/language/rule_parser.h"

#include "rewrite/builtin_targets.h"

/* Returns the length of the name of a built-in target. Its file is "NAME.rules". */
static size_t name_length(const struct qc_embedded *e)
{
    return strlen(e->name) - strlen(".rules");
}

static const struct qc_embedded *builtin_of(const char *name)
{
    for (size_t i = 0; i < qc_builtin_targets_count; i++) {
        const struct qc_embedded *e = &qc_builtin_targets[i];
        if (strlen(name) == name_length(e) && memcmp(name, e->name, name_length(e)) == 0) return e;
    }
    return NULL;
}

const char *qc_builtin_target(size_t i, struct qc_arena *a, struct qc_status *st)
{
    if (i >= qc_builtin_targets_count) return NULL;
    return qc_arena_strndup(a, qc_builtin_targets[i].name, name_length(&qc_builtin_targets[i]), st);
}

static bool fail_unknown(const char *name, struct qc_arena *a, struct qc_status *st)
{
    const char **names = QC_NEW_ARRAY(a, const char *, qc_builtin_targets_count, st);
    for (size_t i = 0; names && i < qc_builtin_targets_count; i++)
        if (!(names[i] = qc_builtin_target(i, a, st))) return false;
    if (!names) return false;
    const char *meant = qc_closest(name, names, qc_builtin_targets_count);
    return qc_fail(
        st, QC_USAGE,
        "--target: there is no target '%s'%s%s%s; 'qcalib list targets' shows them, and FILE.rules gives your own",
        name, meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

/* Parses the file of a target. r->header gets its `target` statement. */
static bool parse_file(struct qc_rules *r, const char *name, bool builtin, unsigned depth, struct qc_status *st)
{
    const struct qc_embedded *e = builtin ? builtin_of(name) : NULL;
    r->header = NULL;
    r->target_file = true;
    r->target_depth = depth;
    const bool ok = e ? qc_rules_parse(r, e->name, e->text, e->size, st) : qc_rules_add_file(r, name, st);
    r->target_file = false;
    if (!ok) return false;
    return r->header || qc_fail(st, QC_BAD_INPUT, "%s: a file for --target begins with 'target NAME \"SUMMARY\"'",
                                e ? e->name : name);
}

static bool load(const struct qc_target **out, const char *name, unsigned depth, struct qc_arena *a,
                 struct qc_status *st)
{
    const bool builtin = builtin_of(name) != NULL;
    if (!builtin && !strpbrk(name, "./")) return fail_unknown(name, a, st);
    if (depth == QC_TARGET_DEPTH) return qc_fail(st, QC_BAD_INPUT, "target '%s' is like itself", name);
    struct qc_rules *r = qc_rules_new(st);
    if (!r) return false;
    bool ok = parse_file(r, name, builtin, depth, st);
    if (ok) {
        struct qc_target *t = qc_arena_dup(a, r->header, 1, sizeof *r->header, st);
        ok = t != NULL;
        if (ok) {
            t->builtin = builtin;
            ok = (t->name = qc_arena_strdup(a, t->name, st)) && (t->summary = qc_arena_strdup(a, t->summary, st)) &&
                 (t->file = qc_arena_strdup(a, name, st)) && (!t->like || (t->like = qc_arena_strdup(a, t->like, st)));
            for (unsigned i = 0; ok && i < t->option_count; i++)
                ok = (t->options[i].name = qc_arena_strdup(a, t->options[i].name, st)) &&
                     (t->options[i].value = qc_arena_strdup(a, t->options[i].value, st));
            *out = t;
        }
    }
    qc_rules_free(r);
    return ok;
}

bool qc_target_load(const struct qc_target **out, const char *name, struct qc_arena *a, struct qc_status *st)
{
    return load(out, name, 0, a, st);
}

bool qc_rules_take_target(struct qc_rules *r, const struct qc_target *t, struct qc_status *st)
{
    const struct qc_target *like;
    if (t->like && (!qc_target_load(&like, t->like, r->arena, st) || !qc_rules_take_target(r, like, st))) return false;
    return qc_rules_add_target(r, t->name, st) && qc_rules_add_target_file(r, t, st);
}

bool qc_rules_add_target_file(struct qc_rules *r, const struct qc_target *t, struct qc_status *st)
{
    return parse_file(r, t->file, t->builtin, 0, st);
}

const struct qc_target qc_target_plain = {.name = "plain", .onnxruntime = true};

/* Reads one of these words; names end with NULL. */
static bool parse_one_of(unsigned *out, struct qc_rule_parser *p, const char *const *names, const char *expected,
                         struct qc_status *st)
{
    for (*out = 0; names[*out]; ++*out)
        if (qc_lexer_take(&p->x, names[*out], st)) return st->code == QC_OK;
    return qc_lexer_error(&p->x, expected, st);
}

/* TRAIT WORD */
static bool parse_trait(struct qc_rule_parser *p, struct qc_target *t, bool *found, struct qc_status *st)
{
    const struct {
        const char *trait, *yes, *no;
        bool *value;
    } traits[] = {
        {"runtime", "onnxruntime", "other", &t->onnxruntime},
        {"wide", "float", "integers", &t->wide_is_float},
        {"results", "float", "quantized", &t->float_results},
        {"pairs", "each_position", "running", &t->pads_channels},
        {"blocks", "none", "any", &t->no_blocks},
        {"scales", "power_of_two", "any", &t->power_of_two},
        {"centred", "int8", "uint8", &t->stores_signed},
        {"passes", "openvino", "none", &t->openvino},
    };
    *found = true;
    for (size_t i = 0; i < sizeof traits / sizeof *traits; i++) {
        if (!qc_lexer_take(&p->x, traits[i].trait, st)) continue;
        *traits[i].value = qc_lexer_is(&p->x, traits[i].yes);
        if (*traits[i].value || qc_lexer_is(&p->x, traits[i].no)) return qc_lexer_next(&p->x, st);
        char words[80];
        return qc_lexer_error(&p->x, qc_text(words, sizeof words, "%s or %s", traits[i].yes, traits[i].no), st);
    }
    unsigned word;
    if (qc_lexer_take(&p->x, "fixed", st)) {
        static const char *const names[] = {
            [QC_FIXED_NONE] = "none", [QC_FIXED_TFLITE] = "tflite", [QC_FIXED_QNN] = "qnn", NULL};
        if (!parse_one_of(&word, p, names, "tflite, qnn or none", st)) return false;
        t->fixed = (enum qc_fixed_results)word;
        return true;
    }
    if (qc_lexer_take(&p->x, "bias", st)) {
        static const char *const names[] = {
            [QC_BIAS_INT32] = "int32", [QC_BIAS_FLOAT] = "float", [QC_BIAS_INT8] = "int8", NULL};
        if (!parse_one_of(&word, p, names, "int32, float or int8", st)) return false;
        t->bias = (enum qc_bias_form)word;
        return true;
    }
    if (qc_lexer_take(&p->x, "opset", st)) {
        struct qc_lexer before = p->x;
        double number;
        if (!qc_lexer_number(&number, &p->x, st)) return false;
        t->opset = (int)number;
        return (number >= 1 && number <= 1000 && (double)t->opset == number) ||
               qc_lexer_error(&before, "an opset of ONNX", st);
    }
    *found = false;
    return st->code == QC_OK;
}

/* A name or a text */
static bool parse_word(const char **out, struct qc_rule_parser *p, const char *what, struct qc_status *st)
{
    return p->x.token.kind == QC_TOKEN_TEXT ? qc_lexer_text(out, &p->x, p->rules->arena, st)
                                            : qc_lexer_name(out, &p->x, what, p->rules->arena, st);
}

/* A later value of the same name replaces the earlier one. Options are written with '_' for '-'. */
static bool parse_option(struct qc_rule_parser *p, struct qc_target *t, struct qc_status *st)
{
    struct qc_target_option o;
    struct qc_lexer before = p->x;
    if (!parse_word(&o.name, p, "the name of an option", st) || !parse_word(&o.value, p, "the value of an option", st))
        return false;
    char *name = qc_arena_strdup(p->rules->arena, o.name, st);
    if (!name) return false;
    for (char *c = name; *c; c++) *c = *c == '_' ? '-' : *c;
    o.name = name;
    unsigned i = 0;
    while (i < t->option_count && strcmp(t->options[i].name, name) != 0) i++;
    if (i == QC_TARGET_OPTIONS) return qc_lexer_error(&before, "at most 16 options", st);
    t->options[i] = o;
    t->option_count += i == t->option_count;
    return true;
}

static bool parse_target_clauses(struct qc_rule_parser *p, struct qc_target *t, struct qc_status *st)
{
    for (;;) {
        bool found;
        if (qc_lexer_take(&p->x, "scheme", st)) {
            struct qc_rule rule = {.activation = t->activation, .weight = t->weight};
            p->rule = &rule;
            if (!qc_parse_scheme(p, st)) return false;
            t->activation = rule.activation;
            t->weight = rule.weight;
        } else if (qc_lexer_take(&p->x, "option", st)) {
            if (!parse_option(p, t, st)) return false;
        } else if (!parse_trait(p, t, &found, st)) {
            return false;
        } else if (!found) {
            return st->code == QC_OK;
        }
    }
}

bool qc_parse_target(struct qc_rule_parser *p, struct qc_status *st)
{
    struct qc_rules *r = p->rules;
    struct qc_lexer before = p->x;
    struct qc_target t = {0};
    const char *name, *summary, *like = NULL;
    if (!r->target_file) return qc_lexer_error(&before, "rules, since a file that begins so is for --target", st);
    if (r->header) return qc_lexer_error(&before, "one target in a file", st);
    if (!parse_word(&name, p, "the name of the target", st) || !qc_lexer_text(&summary, &p->x, r->arena, st))
        return false;
    if (qc_lexer_take(&p->x, "like", st)) {
        const struct qc_target *parent;
        if (!parse_word(&like, p, "the name of a target", st) ||
            !load(&parent, like, r->target_depth + 1, r->arena, st))
            return qc_where(st, "%s", p->x.file);
        t = *parent;
    }
    t.name = name;
    t.summary = summary;
    t.like = like;
    if (st->code != QC_OK || !parse_target_clauses(p, &t, st)) return false;
    return (r->header = qc_arena_dup(r->arena, &t, 1, sizeof t, st)) != NULL;
}

/* drop pattern|island|cost NAME, ... or *;  drop allow keep|bound|join|table OP ... or * */
bool qc_parse_drop(struct qc_rule_parser *p, struct qc_status *st)
{
    static const char *const kinds[] = {
        [QC_RULE_PATTERN] = "pattern", [QC_RULE_ISLAND] = "island", [QC_RULE_COST] = "cost"};
    struct qc_rules *r = p->rules;
    size_t kind = QC_RULE_PATTERN;
    if (!r->header) return qc_lexer_error(&p->x, "rules, since only a file for --target drops some", st);
    if (qc_lexer_take(&p->x, "allow", st)) {
        enum qc_allow_kind allow;
        if (!qc_parse_allow_kind(&allow, p, st)) return false;
        const bool all = qc_lexer_take(&p->x, "*", st);
        size_t kept = 0;
        while (!all && p->x.token.kind == QC_TOKEN_NAME) {
            struct qc_lexer before = p->x;
            const char *name;
            if (!isupper((unsigned char)*p->x.token.start)) break;
            if (!qc_lexer_name(&name, &p->x, "an op", r->arena, st)) return false;
            const enum qc_op op = qc_op_from_name(name);
            if (op == QC_OP_INVALID) return qc_lexer_error(&before, "an op (qcalib list ops)", st);
            for (size_t i = 0; i < r->allow_count; i++)
                if (r->allows[i].kind == allow && r->allows[i].op == op) r->allows[i].op = QC_OP_INVALID;
        }
        for (size_t i = 0; i < r->allow_count; i++)
            if (r->allows[i].op != QC_OP_INVALID && !(all && r->allows[i].kind == allow))
                r->allows[kept++] = r->allows[i];
        r->allow_count = kept;
        return st->code == QC_OK;
    }
    while (kind < sizeof kinds / sizeof *kinds && !qc_lexer_take(&p->x, kinds[kind], st)) kind++;
    if (kind == sizeof kinds / sizeof *kinds) return qc_lexer_error(&p->x, "pattern, island, cost or allow", st);
    const bool all = qc_lexer_take(&p->x, "*", st);
    for (bool more = !all; more; more = qc_lexer_take(&p->x, ",", st)) {
        const char *name;
        size_t i = 0;
        struct qc_lexer before = p->x;
        if (!qc_lexer_name(&name, &p->x, "the name of a rule, or *", r->arena, st)) return false;
        while (i < r->count && (r->rules[i].kind != (enum qc_rule_kind)kind || strcmp(r->rules[i].name, name) != 0))
            i++;
        if (i == r->count && r->target_count) return qc_lexer_error(&before, "the name of a rule that is there", st);
        if (i < r->count) memmove(&r->rules[i], &r->rules[i + 1], (--r->count - i) * sizeof *r->rules);
    }
    size_t kept = 0;
    for (size_t i = 0; i < r->count; i++)
        if (!all || r->rules[i].kind != (enum qc_rule_kind)kind) r->rules[kept++] = r->rules[i];
    r->count = kept;
    return st->code == QC_OK;
}
