// SPDX-License-Identifier: Apache-2.0
#include "quantize/options/option_value.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/words.h"
#include "quantize/options/option_table.h"

bool qc_settings_of(struct qc_settings *out, const struct qc_options *o, struct qc_progress *progress,
                    struct qc_status *st)
{
    struct qc_settings s = {.workers = (unsigned)o->run.threads,
                            .memory_limit = (size_t)o->run.memory_limit,
                            .progress = qc_progress_step,
                            .progress_user = progress,
                            .plan = {.rounding = QC_CONTRACT_ONNX, .lowering = o->graph.lowering},
                            .bound = o->types.accumulator_bound,
                            .compensate = o->method.weight_rounding == QC_WEIGHTS_COMPENSATED,
                            .correct_bias = o->method.bias_correction && o->graph.bias != QC_BIAS_NARROWED,
                            .add_ops = !o->graph.require_integer,
                            .look_through = o->method.look_through,
                            .nonfinite_error = o->data.nonfinite == QC_NONFINITE_ERROR};
    if (o->graph.rounding && !qc_contract_from_name(&s.plan.rounding, o->graph.rounding, st))
        return qc_where(st, "--rounding");
    if (o->types.accumulator) {
        const char *text = o->types.accumulator;
        char *end;
        const unsigned long bits = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
        if (bits < 2 || bits > 32 ||
            (strcmp(end, "") != 0 && strcmp(end, ":wrap") != 0 && strcmp(end, ":saturate") != 0))
            return qc_fail(st, QC_USAGE,
                           "--accumulator: '%s' is not BITS, BITS:wrap or BITS:saturate with 2 to 32 bits", text);
        s.plan.accumulator.bits = (unsigned)bits;
        s.plan.accumulator.overflow = strcmp(end, ":saturate") == 0 ? QC_OVERFLOW_SATURATE : QC_OVERFLOW_WRAP;
    }
    *out = s;
    return true;
}

void qc_warn_overflows(struct qc_warnings *w, const struct qc_overflows *o, unsigned bits, const char *file)
{
    enum { NAMED = 3 };
    /* layers with most overflows, the most first; equal ones in the order of the graph */
    size_t worst[NAMED] = {0}, named = 0, layers = 0;
    uint64_t overflows = 0, results = 0;
    const char *colon = file ? ": " : "";
    file = file ? file : "";
    for (size_t k = 0; k < o->count; k++) {
        const struct qc_sums *sums = &o->layers[k].sums;
        size_t at = named;
        if (!sums->overflows) continue;
        layers++;
        overflows += sums->overflows;
        results += sums->results;
        while (at && o->layers[worst[at - 1]].sums.overflows < sums->overflows) at--;
        if (at == NAMED) continue;
        named += named < NAMED;
        for (size_t i = named - 1; i > at; i--) worst[i] = worst[i - 1];
        worst[at] = k;
    }
    for (size_t i = 0; i < named; i++) {
        const struct qc_layer_overflow *l = &o->layers[worst[i]];
        overflows -= l->sums.overflows;
        results -= l->sums.results;
        qc_warn(w,
                "%s%s%" PRIu64 " of %" PRIu64
                " results of '%s' overflowed an accumulator of %u bits; %u bits would hold them",
                file, colon, l->sums.overflows, l->sums.results, l->name, bits ? bits : 32, l->bits);
    }
    if (layers > named)
        qc_warn(w, "%s%s%" PRIu64 " of %" PRIu64 " results of %zu more layer%s overflowed; --json lists them", file,
                colon, overflows, results, layers - named, layers - named == 1 ? "" : "s");
}

struct qc_json *qc_overflows_json(const struct qc_overflows *o)
{
    struct qc_json *list = qc_json_array();
    for (size_t k = 0; k < o->count; k++) {
        const struct qc_layer_overflow *l = &o->layers[k];
        qc_json_add(list, QC_JSON("name %s overflows %" PRId64 " results %" PRId64 " bits %u", l->name,
                                  (int64_t)l->sums.overflows, (int64_t)l->sums.results, l->bits));
    }
    return list;
}

bool qc_option_wrong(const struct qc_option_info *i, const char *value, const char *what, struct qc_status *st)
{
    return qc_fail(st, QC_USAGE, "--%s: '%s' is not %s", i->name, value, what);
}

bool qc_text_list_add(struct qc_text_list *list, const char *text, struct qc_arena *a, struct qc_status *st)
{
    /* A copy of the list may have appended to the same items: then the place is taken. */
    if (list->count >= list->capacity || list->items[list->count]) {
        const size_t capacity = list->count < 4 ? 8 : 2 * list->count;
        const char **items = QC_NEW_ARRAY(a, const char *, capacity, st);
        if (!items) return false;
        if (list->count) memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = text;
    return true;
}

/* Returns the digits at the end of a type name, "5" of "int5"; NULL if it has none or nothing else. */
static const char *bits_of(const char *name)
{
    const char *digits = name + strlen(name);
    while (digits > name && digits[-1] >= '0' && digits[-1] <= '9') digits--;
    return *digits && digits > name ? digits : NULL;
}

/* Writes "int4 or int8" for int5: the same type with the next fewer and the next more bits. Returns false if no choice
   is of that type. */
static bool other_bits(char *text, unsigned size, const char *given, const char *const *names, size_t n)
{
    const char *wanted = bits_of(given), *fewer = NULL, *more = NULL;
    if (!wanted) return false;
    const long bits = strtol(wanted, NULL, 10);
    for (size_t k = 0; k < n; k++) {
        const char *has = bits_of(names[k]);
        if (!has || has - names[k] != wanted - given || strncmp(names[k], given, (size_t)(wanted - given)) != 0)
            continue;
        const long b = strtol(has, NULL, 10);
        if (b < bits && (!fewer || b > strtol(bits_of(fewer), NULL, 10))) fewer = names[k];
        if (b > bits && (!more || b < strtol(bits_of(more), NULL, 10))) more = names[k];
    }
    qc_text(text, size, "%s%s%s", fewer ? fewer : "", fewer && more ? "' or '" : "", more ? more : "");
    return fewer || more;
}

enum { CHOICES = 40 };

const struct qc_option_choice *qc_option_choice_of(const struct qc_option_info *i, const char *text, size_t length)
{
    for (const struct qc_option_choice *c = i->values; c->text; c++)
        if (strncmp(c->text, text, length) == 0 && !c->text[length]) return c;
    return NULL;
}

const char *qc_option_choice_text(const void *fields, const struct qc_option_info *i)
{
    const void *field = (const char *)fields + i->field;
    const unsigned value = i->kind == QC_KIND_SWITCH ? *(const bool *)field : *(const unsigned *)field;
    const struct qc_option_choice *c = i->values;
    while (c->text && c->value != value) c++;
    return c->text;
}

/* Choices that this build leaves out, by option; the last row ends the list. */
static const struct {
    const char *option, *choice, *part, *build;
} left_out[] = {
#ifdef QC_WITHOUT_TFLITE
    {"format", "tflite", "TensorFlow Lite", "QCALIB_TFLITE"},
#endif
    {0},
};

/* Finds the choice. Fails with a message that lists the choices. */
static const struct qc_option_choice *choose_among(const struct qc_option_info *i, const char *value, size_t length,
                                                   struct qc_arena *a, struct qc_status *st)
{
    const struct qc_option_choice *found = qc_option_choice_of(i, value, length);
    if (found) return found;
    const char *names[CHOICES], *given = qc_arena_strndup(a, value, length, st);
    char text[16 * CHOICES], bits[64];
    size_t n = 0, used = 0;
    if (!given) return NULL;
    for (size_t k = 0; left_out[k].option; k++)
        if (strcmp(i->name, left_out[k].option) == 0 && strcmp(given, left_out[k].choice) == 0) {
            qc_fail(st, QC_UNSUPPORTED, "--%s %s: this qcalib was built without %s: build it with -D%s=ON", i->name,
                    given, left_out[k].part, left_out[k].build);
            return NULL;
        }
    for (; n < CHOICES && i->values[n].text; n++) names[n] = i->values[n].text;
    for (size_t k = 0; k < n && used < sizeof text; k++) {
        qc_text(text + used, (unsigned)(sizeof text - used), "%s%s", k == 0 ? "" : k + 1 < n ? ", " : " or ", names[k]);
        used = strlen(text);
    }
    const char *meant = other_bits(bits, sizeof bits, given, names, n) ? bits : qc_closest(given, names, n);
    qc_fail(st, QC_USAGE, "--%s: unknown value '%s'%s; expected %s", i->name, given, QC_MEANT("", meant), text);
    return NULL;
}

static bool choose_some(struct qc_text_list *out, const struct qc_option_info *i, const char *value, struct qc_arena *a,
                        struct qc_status *st)
{
    struct qc_text_list list = {.count = 0};
    for (const char *p = value; p;) {
        const char *comma = strchr(p, ',');
        const struct qc_option_choice *one = choose_among(i, p, comma ? (size_t)(comma - p) : strlen(p), a, st);
        if (!one || !qc_text_list_add(&list, one->text, a, st)) return false;
        p = comma ? comma + 1 : NULL;
    }
    *out = list;
    return true;
}

/* A choice without a glob overwrites entry 0 in place; one with a glob is appended. */
static bool choose_by_name(struct qc_text_list *list, const struct qc_option_info *i, const char *value,
                           struct qc_arena *a, struct qc_status *st)
{
    const char *colon = strchr(value, ':');
    const struct qc_option_choice *one = choose_among(i, value, colon ? (size_t)(colon - value) : strlen(value), a, st);
    if (!one) return false;
    if (colon && !colon[1]) return qc_option_wrong(i, value, "of the form TYPE or TYPE:NODE", st);
    if (colon) return qc_text_list_add(list, value, a, st);
    if (!list->count) return qc_text_list_add(list, one->text, a, st);
    list->items[0] = one->text;
    return true;
}

static bool read_whole(uint64_t *out, const char **end, const char *text)
{
    if (*text < '0' || *text > '9') return false;
    char *e;
    errno = 0;
    unsigned long long v = strtoull(text, &e, 10);
    *end = e;
    if (errno) return false;
    *out = v;
    return true;
}

bool qc_option_bytes(uint64_t *out, const char *text)
{
    static const char units[] = "KMGT";
    const char *end;
    uint64_t v;
    unsigned shift = 0;
    if (!read_whole(&v, &end, text)) return false;
    if (*end) {
        char c = (char)(*end >= 'a' && *end <= 'z' ? *end - 'a' + 'A' : *end);
        const char *unit = strchr(units, c);
        if (!unit) return false;
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
        if (end[0] == 'i' && end[1]) end++;
        if (*end == 'B') end++;
    }
    if (*end || v == 0 || v > (UINT64_MAX >> shift)) return false;
    *out = v << shift;
    return true;
}

static bool read_number(double *out, const char *text)
{
    char *end;
    if (!((*text >= '0' && *text <= '9') || *text == '.')) return false;
    double v = strtod(text, &end);
    if (end == text || *end || !isfinite(v)) return false;
    *out = v;
    return true;
}

bool qc_option_percent(double *out, const char *text)
{
    char number[32];
    const size_t n = strlen(text);
    *out = 0;
    if (n < 2 || n > sizeof number || text[n - 1] != '%') return false;
    memcpy(number, text, n - 1);
    number[n - 1] = '\0';
    return read_number(out, number) && *out > 0;
}

bool qc_option_store(void *fields, const struct qc_option_info *i, const char *value, struct qc_arena *a,
                     struct qc_status *st)
{
    void *field = (char *)fields + i->field;
    const char *end, *text = value ? value : i->bare;
    const struct qc_option_choice *one;
    uint64_t whole;
    if (!text && i->argument) return qc_fail(st, QC_USAGE, "--%s needs a value: %s", i->name, i->argument);
    if (text && !*text && i->kind != QC_KIND_FLAG && i->kind != QC_KIND_SET)
        return qc_fail(st, QC_USAGE, "--%s needs a value that is not empty: %s", i->name, i->argument);
    if (value && !i->argument) return qc_fail(st, QC_USAGE, "--%s takes no value, but got '%s'", i->name, value);
    if (text && !(text = qc_arena_strdup(a, text, st))) return false;
    switch (i->kind) {
    case QC_KIND_FLAG: *(bool *)field = true; break;
    case QC_KIND_SET:
    case QC_KIND_SPEC:
    case QC_KIND_TEXT: *(const char **)field = text; break;
    case QC_KIND_LIST:
        if (!qc_text_list_add(field, text, a, st)) return false;
        break;
    case QC_KIND_CHOICE:
    case QC_KIND_SWITCH:
        if (!(one = choose_among(i, text, strlen(text), a, st))) return false;
        if (i->kind == QC_KIND_SWITCH)
            *(bool *)field = one->value;
        else
            *(unsigned *)field = one->value;
        break;
    case QC_KIND_CHOICES:
        if (!choose_some(field, i, text, a, st)) return false;
        break;
    case QC_KIND_BY_NAME:
        if (!choose_by_name(field, i, text, a, st)) return false;
        break;
    case QC_KIND_COUNT:
    case QC_KIND_WHOLE:
        if (!read_whole(&whole, &end, text) || *end || (i->kind == QC_KIND_COUNT && whole == 0))
            return qc_option_wrong(i, text, i->kind == QC_KIND_COUNT ? "a positive integer" : "an integer of 0 or more",
                                   st);
        *(uint64_t *)field = whole;
        break;
    case QC_KIND_BYTES:
        if (!qc_option_bytes(field, text)) return qc_option_wrong(i, text, "a size such as 512M or 2G", st);
        break;
    case QC_KIND_NUMBER:
        if (!read_number(field, text)) return qc_option_wrong(i, text, "a number of 0 or more", st);
        break;
    }
    return true;
}

bool qc_option_has_default(const struct qc_option_info *i)
{
    return i->preset && (i->kind == QC_KIND_SPEC || i->choices);
}

bool qc_option_unknown(const char *name, const char *const *names, size_t count, struct qc_status *st)
{
    static const struct {
        const char *name, *use;
    } others[] = {
        /* options of other programs, and their counterparts */
        {"bits",
         "--weight-type int4 sets the bits of weights, --activation-type those of activations, --size the file's"},
        {"w-bits", "--weight-type int4 sets the bits of weights"},
        {"weight-bits", "--weight-type int4 sets the bits of weights"},
        {"activation-bits", "--activation-type uint16 sets the bits of activations"},
        {"group-size", "--weight-block 32 gives each 32 weights a scale of their own"},
        {"block-size", "--weight-block 32 gives each 32 weights a scale of their own"},
        {"calibrate-method", "--method NAME chooses ranges"},
        {"calibration-data", "--data FILE names the samples"},
        {"dataset", "--data FILE names the samples"},
        {"reduce-range", "--overflow-fix reduce-range takes 7 bits for weights"},
        {"exclude", "--skip NODE leaves an operator in float"},
        {"nodes-to-exclude", "--skip NODE leaves an operator in float"},
        {"out", "-o FILE names the file to write"},
        {"jobs", "--threads N sets the number of threads"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i].name) == 0)
            return qc_fail(st, QC_USAGE, "unknown option --%s; %s", name, others[i].use);
    return qc_fail(st, QC_USAGE, "unknown option --%s%s", name, QC_MEANT("--", qc_closest(name, names, count)));
}
