// SPDX-License-Identifier: Apache-2.0
/* Golden texts: cases/NAME.txt holds a graph, options and what some passes make of it. What stands before the first
   "==" says what the case is about. Sections, each begun by a line "== NAME": options    bind "SITE" SCALE ZERO_POINT,
   only NAME, skip NAME, activation|weight TYPE, target NAME, bias narrowed, per_tensor, symmetric, full rules      as a
   file given with --rules graph      the imported graph (graph/text/text.h) normalise, functions, partition, simulate,
   calibrate, dynamic, expand, fold, realise      expected text after that pass error      expected message; then no
   pass is expected to be complete scripts/bless rewrites the expected parts of all cases and shows what changed. */
#include "base/file.h"
#include "graph/text/text.h"
#include "rewrite_passes.h"
#include "tests/graph_reader/graph_reader.h"

#define FOLDER QC_TEST_SOURCE "/tests/rewrite/cases"

enum { SECTIONS = 12 };

struct section {
    const char *name; /* "" of the text before the first one */
    const char *text;
    size_t size;
};

struct text_case {
    struct qc_arena *arena;
    const char *text;
    size_t section_count;
    struct section sections[SECTIONS];
};

static const char *next_header(const char *text)
{
    if (strncmp(text, "== ", 3) == 0) return text;
    const char *p = strstr(text, "\n== ");
    return p ? p + 1 : NULL;
}

static bool split(struct text_case *c, struct qc_status *st)
{
    const char *at = c->text;
    const char *name = "";
    for (;;) {
        const char *next = next_header(at);
        if (c->section_count == SECTIONS) return qc_fail(st, QC_BAD_INPUT, "more than %d sections", (int)SECTIONS);
        c->sections[c->section_count++] =
            (struct section){.name = name, .text = at, .size = next ? (size_t)(next - at) : strlen(at)};
        if (!next) return true;
        size_t n = strcspn(next + 3, "\n");
        if (!(name = qc_arena_strndup(c->arena, next + 3, n, st))) return false;
        at = next + 3 + n + (next[3 + n] != '\0');
    }
}

static const struct section *find(const struct text_case *c, const char *name)
{
    for (size_t i = 0; i < c->section_count; i++)
        if (strcmp(c->sections[i].name, name) == 0) return &c->sections[i];
    return NULL;
}

static bool read_list(const char ***list, size_t *count, const char *item, struct qc_arena *a, struct qc_status *st)
{
    const char **longer = QC_NEW_ARRAY(a, const char *, *count + 1, st);
    if (!longer) return false;
    for (size_t i = 0; i < *count; i++) longer[i] = (*list)[i];
    longer[(*count)++] = item;
    *list = longer;
    return true;
}

/* activation|weight TYPE:GLOB */
static bool read_choice(struct pass_setup *s, const char *word, const char *item, struct qc_arena *a,
                        struct qc_status *st)
{
    const bool weight = strcmp(word, "weight") == 0;
    const struct qc_type_choice **all = weight ? &s->scheme.weight_types : &s->scheme.activation_types;
    size_t *count = weight ? &s->scheme.weight_type_count : &s->scheme.activation_type_count;
    const char *colon = strchr(item, ':'), *type = qc_arena_strndup(a, item, (size_t)(colon - item), st);
    struct qc_type_choice *more = QC_NEW_ARRAY(a, struct qc_type_choice, *count + 1, st);
    if (!type || !more) return false;
    if (*count) memcpy(more, *all, *count * sizeof *more);
    more[(*count)++] = (struct qc_type_choice)FIELDS(.dtype = qc_dtype_from_name(type),
                                                     .dynamic = strcmp(type, "dynamic") == 0, .glob = colon + 1);
    *all = more;
    return true;
}

static bool read_option(struct pass_setup *s, char *line, struct qc_arena *a, struct qc_status *st)
{
    char word[32], rest[96];
    double scale;
    int zero_point;
    const char **list;
    if (sscanf(line, "bind \"%95[^\"]\" %lf %d", rest, &scale, &zero_point) == 3) {
        const char *quantizer = qc_arena_strdup(a, rest, st);
        if (!quantizer || s->binding_count == PASSES_BINDINGS) return qc_fail(st, QC_BAD_INPUT, "too many bindings");
        s->bindings[s->binding_count].quantizer = quantizer;
        s->bindings[s->binding_count].scale = (float)scale;
        s->bindings[s->binding_count++].zero_point = zero_point;
        return true;
    }
    int n = sscanf(line, "%31s %95s", word, rest);
    const char *item = n == 2 ? qc_arena_strdup(a, rest, st) : NULL;
    if (item && strcmp(word, "only") == 0) {
        list = (const char **)(void *)s->scheme.only;
        if (!read_list(&list, &s->scheme.only_count, item, a, st)) return false;
        s->scheme.only = list;
    } else if (item && strcmp(word, "skip") == 0) {
        list = (const char **)(void *)s->scheme.skip;
        if (!read_list(&list, &s->scheme.skip_count, item, a, st)) return false;
        s->scheme.skip = list;
    } else if (item && strcmp(word, "bias") == 0 && strcmp(item, "narrowed") == 0) {
        s->narrows_bias = true;
    } else if (item && strcmp(word, "prefer") == 0) {
        s->costs = true;
        s->scheme.prefer = strcmp(item, "speed") == 0  ? QC_PREFER_SPEED
                           : strcmp(item, "size") == 0 ? QC_PREFER_SIZE
                                                       : QC_PREFER_INTEGERS;
    } else if (item && strcmp(word, "target") == 0) {
        s->target = item;
    } else if (item && strchr(item, ':')) {
        if (!read_choice(s, word, item, a, st)) return false;
    } else if (item && strcmp(word, "activation") == 0) {
        s->scheme.activation.dtype = qc_dtype_from_name(item);
        s->scheme.dynamic = strcmp(item, "dynamic") == 0;
    } else if (item && strcmp(word, "weight") == 0) {
        s->scheme.weight.dtype = qc_dtype_from_name(item);
    } else if (n == 1 && strcmp(word, "per_tensor") == 0) {
        s->scheme.weight.per_channel = false;
    } else if (n == 1 && strcmp(word, "symmetric") == 0) {
        s->scheme.activation.symmetry = QC_SYMMETRIC;
    } else if (n == 1 && strcmp(word, "full") == 0) {
        s->scheme.weight.restricted = false;
    } else {
        return qc_fail(st, QC_BAD_INPUT, "option line '%s'", line);
    }
    return true;
}

static bool read_setup(struct pass_setup *s, const struct text_case *c, struct qc_status *st)
{
    const struct section *options = find(c, "options"), *rules = find(c, "rules");
    *s = PASS_SETUP;
    if (rules && !(s->rules = qc_arena_strndup(c->arena, rules->text, rules->size, st))) return false;
    char *text = options ? qc_arena_strndup(c->arena, options->text, options->size, st) : NULL;
    for (char *line = text ? strtok(text, "\n") : NULL; line; line = strtok(NULL, "\n"))
        if (!read_option(s, line, c->arena, st)) return false;
    return st->code == QC_OK;
}

/* What a pass left; owned by the caller (free). */
static char *text_of(const struct passes *p, const char *pass, struct qc_status *st)
{
    if (strcmp(pass, "simulate") == 0) return p->unbound ? strdup(p->unbound) : NULL;
    if (strcmp(pass, "partition") == 0) return qc_partition_print(p->partition, st);
    const struct qc_graph *g = strcmp(pass, "normalise") == 0   ? p->normalised
                               : strcmp(pass, "functions") == 0 ? p->joined
                               : strcmp(pass, "calibrate") == 0 ? p->simulated
                               : strcmp(pass, "dynamic") == 0   ? p->dynamic
                               : strcmp(pass, "expand") == 0    ? p->expanded
                               : strcmp(pass, "fold") == 0      ? p->folded
                               : strcmp(pass, "realise") == 0   ? p->produced
                                                                : NULL;
    if (g) return qc_graph_print(g, &QC_TEXT_SHORT, st);
    qc_fail(st, QC_BAD_INPUT, "there is no section '%s'", pass);
    return NULL;
}

static bool is_given(const char *name)
{
    return !*name || strcmp(name, "options") == 0 || strcmp(name, "rules") == 0 || strcmp(name, "graph") == 0;
}

/* The whole case with the expected parts as they come out now. */
static bool render(FILE *f, const struct text_case *c, struct qc_status *st)
{
    const struct section *source = find(c, "graph");
    struct pass_setup setup;
    OWN(qc_graph) *g = NULL;
    struct passes p = {0};
    struct qc_status failed = QC_STATUS_INIT;
    bool ok = source ? true : qc_fail(st, QC_BAD_INPUT, "there is no section 'graph'");
    ok = ok && read_setup(&setup, c, st) && qc_graph_parse(&g, source->text, source->size, st);
    if (ok && !passes_run(&p, g, &setup, &failed) && !find(c, "error")) {
        *st = failed;
        ok = false;
    }
    for (size_t i = 0; ok && i < c->section_count; i++) {
        const struct section *s = &c->sections[i];
        if (*s->name) fprintf(f, "== %s\n", s->name);
        if (is_given(s->name)) {
            fwrite(s->text, 1, s->size, f);
        } else if (strcmp(s->name, "error") == 0) {
            fprintf(f, "%s\n", failed.code == QC_OK ? "none" : failed.message);
        } else {
            QC_FREED char *text = text_of(&p, s->name, st);
            ok = text != NULL;
            fprintf(f, "%s%s", text ? text : "", i + 1 < c->section_count ? "\n" : "");
        }
    }
    passes_free(&p);
    return ok;
}

static void compare(const char *name, const char *expected, const char *got)
{
    size_t line = 1;
    const char *a = expected, *b = got;
    for (const char *x = a, *y = b; *x && *x == *y; x++, y++)
        if (*x == '\n') {
            line++;
            a = x + 1;
            b = y + 1;
        }
    cr_expect(strcmp(expected, got) == 0, "%s:%zu: expected '%.*s', got '%.*s' (scripts/bless rewrites the case)", name,
              line, (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b);
}

static void run_case(const char *name, int number)
{
    struct text_case c = {.arena = qc_arena_new()};
    void *text = NULL;
    char path[512], *got = NULL;
    size_t size;
    cr_assert(c.arena);
    qc_text(path, sizeof path, "%s/%s", FOLDER, name);
    FILE *f = open_memstream(&got, &size);
    bool ok = qc_file_read(&text, &size, path, c.arena, ST);
    c.text = text;
    ok = ok && split(&c, ST) && render(f, &c, ST);
    cr_assert(f && fclose(f) == 0);
    cr_expect(ok, "%s: %s", name, failure.message);
    if (ok && getenv("QCALIB_BLESS")) {
        FILE *to = fopen(path, "w");
        cr_assert(to && fputs(got, to) >= 0 && fclose(to) == 0);
    } else if (ok) {
        compare(name, c.text, got);
    }
    free(got);
    qc_arena_free(c.arena);
}

Test(rewrite_text, passes_give_the_expected_texts)
{
    passes_each_case(run_case);
}
