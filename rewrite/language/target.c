// SPDX-License-Identifier: Apache-2.0
#include "rewrite/language/target.h"

#include <ctype.h>
#include <math.h>
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
    if (!builtin && !strpbrk(name, "./")) {
        const char **names = QC_NEW_ARRAY(a, const char *, qc_builtin_targets_count, st);
        for (size_t i = 0; names && i < qc_builtin_targets_count; i++)
            if (!(names[i] = qc_builtin_target(i, a, st))) return false;
        if (!names) return false;
        const char *meant = qc_closest(name, names, qc_builtin_targets_count);
        return qc_fail(
            st, QC_USAGE,
            "--target: there is no target '%s'%s; 'qcalib list targets' shows them, and FILE.rules gives your own",
            name, QC_MEANT("", meant));
    }
    if (depth == QC_TARGET_DEPTH) return qc_fail(st, QC_BAD_INPUT, "target '%s' is like itself", name);
    struct qc_rules *r = qc_rules_new(st);
    if (!r) return false;
    struct qc_target *t =
        parse_file(r, name, builtin, depth, st) ? qc_arena_dup(a, r->header, 1, sizeof *r->header, st) : NULL;
    if (t) {
        t->builtin = builtin;
        t->name = qc_arena_strdup(a, t->name, st);
        t->summary = qc_arena_strdup(a, t->summary, st);
        t->file = qc_arena_strdup(a, name, st);
        if (t->like) t->like = qc_arena_strdup(a, t->like, st);
        for (unsigned i = 0; i < t->option_count; i++) {
            t->options[i].name = qc_arena_strdup(a, t->options[i].name, st);
            t->options[i].value = qc_arena_strdup(a, t->options[i].value, st);
        }
        *out = t;
    }
    qc_rules_free(r);
    return st->code == QC_OK;
}

bool qc_target_is_x86(const struct qc_target *t)
{
    bool x86 = t->onnxruntime;
    for (unsigned i = 0; i < t->option_count; i++)
        x86 = x86 && !(strcmp(t->options[i].name, "overflow-fix") == 0 && strcmp(t->options[i].value, "off") == 0);
    return x86;
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
static unsigned parse_one_of(struct qc_rule_parser *p, const char *const *names, const char *expected)
{
    unsigned i = 0;
    while (names[i] && !qc_lexer_take(&p->x, names[i])) i++;
    return names[i] ? i : qc_lexer_error(&p->x, p->x.token, expected);
}

/* TRAIT WORD. Returns false if there is none. */
static bool parse_trait(struct qc_rule_parser *p, struct qc_target *t)
{
    static const char *const fixed[] = {
        [QC_FIXED_NONE] = "none", [QC_FIXED_TFLITE] = "tflite", [QC_FIXED_QNN] = "qnn", NULL};
    static const char *const bias[] = {
        [QC_BIAS_INT32] = "int32", [QC_BIAS_FLOAT] = "float", [QC_BIAS_INT8] = "int8", NULL};
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
    for (size_t i = 0; i < sizeof traits / sizeof *traits; i++) {
        char expected[80];
        if (!qc_lexer_take(&p->x, traits[i].trait)) continue;
        *traits[i].value = parse_one_of(p, (const char *const[]){traits[i].no, traits[i].yes, NULL},
                                        qc_text(expected, sizeof expected, "%s or %s", traits[i].yes, traits[i].no));
        return true;
    }
    if (qc_lexer_take(&p->x, "fixed")) {
        t->fixed = (enum qc_fixed_results)parse_one_of(p, fixed, "tflite, qnn or none");
    } else if (qc_lexer_take(&p->x, "bias")) {
        t->bias = (enum qc_bias_form)parse_one_of(p, bias, "int32, float or int8");
    } else if (qc_lexer_take(&p->x, "opset")) {
        const struct qc_token before = p->x.token;
        const double number = qc_lexer_number(&p->x);
        if (number >= 1 && number <= 1000 && floor(number) == number)
            t->opset = (int)number;
        else
            qc_lexer_error(&p->x, before, "an opset of ONNX");
    } else {
        return false;
    }
    return true;
}

/* A name or a text */
static const char *parse_word(struct qc_rule_parser *p, const char *what)
{
    return p->x.token.kind == QC_TOKEN_TEXT ? qc_lexer_text(&p->x) : qc_lexer_name(&p->x, what);
}

/* A later value of the same name replaces the earlier one. Options are written with '_' for '-'. */
static void parse_option(struct qc_rule_parser *p, struct qc_target *t)
{
    const struct qc_token before = p->x.token;
    char *name = qc_arena_strdup(p->x.arena, parse_word(p, "the name of an option"), p->x.st);
    const char *value = parse_word(p, "the value of an option");
    unsigned i = 0;
    if (!name) return;
    for (char *c = name; *c; c++) *c = *c == '_' ? '-' : *c;
    while (i < t->option_count && strcmp(t->options[i].name, name) != 0) i++;
    if (i == QC_TARGET_OPTIONS) {
        qc_lexer_error(&p->x, before, "at most 16 options");
        return;
    }
    t->options[i] = (struct qc_target_option){.name = name, .value = value};
    t->option_count += i == t->option_count;
}

void qc_parse_target(struct qc_rule_parser *p)
{
    struct qc_rules *r = p->rules;
    const struct qc_token before = p->x.token;
    struct qc_target t = {0};
    const char *like = NULL;
    if (!r->target_file) qc_lexer_error(&p->x, before, "rules, since a file that begins so is for --target");
    if (r->header) qc_lexer_error(&p->x, before, "one target in a file");
    const char *name = parse_word(p, "the name of the target"), *summary = qc_lexer_text(&p->x);
    if (qc_lexer_take(&p->x, "like")) {
        const struct qc_target *parent;
        like = parse_word(p, "the name of a target");
        if (p->x.st->code != QC_OK || !load(&parent, like, r->target_depth + 1, r->arena, p->x.st)) {
            qc_where(p->x.st, "%s", p->x.file);
            return;
        }
        t = *parent;
    }
    t.name = name;
    t.summary = summary;
    t.like = like;
    for (bool more = true; more;) {
        struct qc_rule rule = {.activation = t.activation, .weight = t.weight};
        if (qc_lexer_take(&p->x, "scheme")) {
            p->rule = &rule;
            qc_parse_scheme(p);
            t.activation = rule.activation;
            t.weight = rule.weight;
        } else if (qc_lexer_take(&p->x, "option")) {
            parse_option(p, &t);
        } else {
            more = parse_trait(p, &t);
        }
    }
    if (p->x.st->code == QC_OK) r->header = qc_arena_dup(r->arena, &t, 1, sizeof t, p->x.st);
}

/* drop pattern|island|cost NAME, ... or *;  drop allow keep|bound|join|table OP ... or * */
void qc_parse_drop(struct qc_rule_parser *p)
{
    static const char *const kinds[] = {
        [QC_RULE_PATTERN] = "pattern", [QC_RULE_ISLAND] = "island", [QC_RULE_COST] = "cost"};
    struct qc_rules *r = p->rules;
    size_t kind = QC_RULE_PATTERN, kept = 0;
    if (!r->header) qc_lexer_error(&p->x, p->x.token, "rules, since only a file for --target drops some");
    if (qc_lexer_take(&p->x, "allow")) {
        const enum qc_allow_kind allow = qc_parse_allow_kind(p);
        const bool all = qc_lexer_take(&p->x, "*");
        enum qc_op *ops = NULL;
        unsigned count = 0;
        while (!all && p->x.token.kind == QC_TOKEN_NAME && isupper((unsigned char)*p->x.token.start))
            qc_parse_ops(&ops, &count, p, "an op (qcalib list ops)");
        for (size_t i = 0; i < r->allow_count; i++) {
            bool dropped = all;
            for (unsigned k = 0; k < count; k++) dropped = dropped || ops[k] == r->allows[i].op;
            if (r->allows[i].kind != allow || !dropped) r->allows[kept++] = r->allows[i];
        }
        r->allow_count = kept;
        return;
    }
    while (kind < sizeof kinds / sizeof *kinds && !qc_lexer_take(&p->x, kinds[kind])) kind++;
    if (kind == sizeof kinds / sizeof *kinds) qc_lexer_error(&p->x, p->x.token, "pattern, island, cost or allow");
    const bool all = qc_lexer_take(&p->x, "*");
    for (bool more = !all; more; more = qc_lexer_take(&p->x, ",")) {
        size_t i = 0;
        const struct qc_token before = p->x.token;
        const char *name = qc_lexer_name(&p->x, "the name of a rule, or *");
        while (i < r->count && (r->rules[i].kind != (enum qc_rule_kind)kind || strcmp(r->rules[i].name, name) != 0))
            i++;
        if (i == r->count && r->target_count) qc_lexer_error(&p->x, before, "the name of a rule that is there");
        if (i < r->count) memmove(&r->rules[i], &r->rules[i + 1], (--r->count - i) * sizeof *r->rules);
    }
    for (size_t i = 0; i < r->count; i++)
        if (!all || r->rules[i].kind != (enum qc_rule_kind)kind) r->rules[kept++] = r->rules[i];
    r->count = kept;
}
