// SPDX-License-Identifier: Apache-2.0
#include "observers/observer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arith/float_level.h"
#include "base/words.h"
#include "observers/plugin.h"

static const struct qc_observer *const observers[] = {
#define QC_OBSERVER(symbol) &qc_observer_##symbol,
#include "observers/observers.def"
#undef QC_OBSERVER
};

enum { OBSERVERS = sizeof observers / sizeof *observers, NAME_LENGTH = 63 };

size_t qc_observer_count(void)
{
    return OBSERVERS;
}

const struct qc_observer *qc_observer_at(size_t i)
{
    return observers[i];
}

const struct qc_observer *qc_observer_find(const char *name)
{
    for (size_t i = 0; i < OBSERVERS; i++)
        if (strcmp(observers[i]->name, name) == 0) return observers[i];
    return NULL;
}

/* Returns the observer that other programs call by this name, or NULL. */
static const char *other_name(const char *given)
{
    static const struct {
        const char *given, *name;
    } names[] = {{"entropy", "kl"},
                 {"kullback-leibler", "kl"},
                 {"kld", "kl"},
                 {"absmax", "minmax"},
                 {"max", "minmax"},
                 {"naive", "minmax"},
                 {"l2", "mse"},
                 {"histogram", "mse"},
                 {"hist", "mse"},
                 {"average", "avgmax"},
                 {"moving-average", "ema"},
                 {"moving_average", "ema"},
                 {"distribution", "gaussian"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(given, names[i].given) == 0) return names[i].name;
    return NULL;
}

struct list {
    char text[1024];
    const char *near; /* the name most similar to the wanted one; NULL: none is close */
};

static void list_add(struct list *l, const char *name, const char *wanted)
{
    const char *nearest_two[] = {l->near, name};
    size_t used = strlen(l->text);
    snprintf(l->text + used, sizeof l->text - used, "%s%s", used ? ", " : "", name);
    l->near = qc_closest(wanted, nearest_two, 2);
}

/* Fails with the known names and the closest one, if any. */
static bool fail_unknown(struct qc_status *st, const char *what, const char *name, const struct list *l)
{
    return qc_fail(st, QC_USAGE, "%s '%s'%s; known are %s", what, name, QC_MEANT("", l->near), l->text);
}

const char *qc_observer_option_text(char *buf, unsigned size, const struct qc_observer_option *o)
{
    if (isnan(o->preset)) return qc_text(buf, size, "must be given; %.10g to %.10g", o->min, o->max);
    if (!o->choice_count) return qc_text(buf, size, "default %.10g; %.10g to %.10g", o->preset, o->min, o->max);
    qc_text(buf, size, "default %s; one of", o->choices[(size_t)o->preset]);
    for (size_t i = 0; i < o->choice_count; i++) {
        unsigned used = (unsigned)strlen(buf);
        qc_text(buf + used, size - used, "%s %s", i ? "," : "", o->choices[i]);
    }
    return buf;
}

static bool parse_value(double *out, const struct qc_observer *o, const struct qc_observer_option *option,
                        const char *text, struct qc_status *st)
{
    struct list known = {.near = NULL};
    for (size_t i = 0; i < option->choice_count; i++) {
        list_add(&known, option->choices[i], text);
        if (strcmp(option->choices[i], text) != 0) continue;
        *out = (double)i;
        return true;
    }
    char what[160], *end;
    if (option->choice_count) {
        qc_text(what, sizeof what, "observer '%s': option '%s': unknown choice", o->name, option->name);
        return fail_unknown(st, what, text, &known);
    }
    errno = 0;
    double v = strtod(text, &end);
    if (*end || !isfinite(v))
        return qc_fail(st, QC_USAGE, "observer '%s': option '%s' needs a number, got '%s'", o->name, option->name,
                       text);
    if (v < option->min || v > option->max || (option->integer && v != nearbyint(v)))
        return qc_fail(st, QC_USAGE, "observer '%s': option '%s' must be %s from %g to %g, got %s", o->name,
                       option->name, option->integer ? "a whole number" : "a number", option->min, option->max, text);
    *out = v;
    return true;
}

static bool parse_option(struct qc_observer_values *values, const struct qc_observer *o, const char *text,
                         struct qc_status *st)
{
    char name[NAME_LENGTH + 1], example[NAME_LENGTH + 1];
    const char *equal = strchr(text, '=');
    size_t length = equal ? (size_t)(equal - text) : strlen(text);
    snprintf(name, sizeof name, "%.*s", (int)(length < NAME_LENGTH ? length : NAME_LENGTH), text);
    struct list known = {.near = NULL};
    for (size_t i = 0; i < o->option_count; i++) {
        const struct qc_observer_option *option = &o->options[i];
        list_add(&known, option->name, name);
        if (strcmp(option->name, name) != 0) continue;
        if (!equal || !equal[1]) {
            qc_text(example, sizeof example, "%g", isnan(option->preset) ? option->max : option->preset);
            return qc_fail(st, QC_USAGE, "observer '%s': option '%s' needs a value, as in %s:%s=%s", o->name, name,
                           o->name, name, option->choice_count ? option->choices[(size_t)option->preset] : example);
        }
        return parse_value(&values->v[i], o, option, equal + 1, st);
    }
    if (o->option_count == 0) return qc_fail(st, QC_USAGE, "observer '%s' has no options, got '%s'", o->name, name);
    char what[128];
    return fail_unknown(st, qc_text(what, sizeof what, "observer '%s': unknown option", o->name), name, &known);
}

bool qc_observer_parse_among(const struct qc_observer **out, struct qc_observer_values *values, const char *spec,
                             const struct qc_plugins *plugins, struct qc_status *st)
{
    enum { LONGEST = 255 };
    char text[LONGEST + 1];
    if (strlen(spec) > LONGEST)
        return qc_fail(st, QC_USAGE, "observer '%.40s...' is longer than %d characters", spec, (int)LONGEST);
    strcpy(text, spec);
    char *rest = strchr(text, ':');
    if (rest) *rest++ = '\0';
    const struct qc_observer *o = qc_observer_find(text);
    for (size_t i = 0; !o && i < qc_plugins_count(plugins); i++)
        if (strcmp(qc_plugins_at(plugins, i)->name, text) == 0) o = qc_plugins_at(plugins, i);
    if (!o) {
        struct list known = {.near = NULL};
        for (size_t i = 0; i < OBSERVERS; i++) list_add(&known, observers[i]->name, text);
        for (size_t i = 0; i < qc_plugins_count(plugins); i++) list_add(&known, qc_plugins_at(plugins, i)->name, text);
        if (other_name(text)) known.near = other_name(text);
        return fail_unknown(st, "unknown observer", text, &known);
    }
    struct qc_observer_values v = {.v = {0}};
    for (size_t i = 0; i < o->option_count; i++) v.v[i] = o->options[i].preset;
    while (rest) {
        char *next = strchr(rest, ',');
        if (next) *next++ = '\0';
        if (!parse_option(&v, o, rest, st)) return false;
        rest = next;
    }
    for (size_t i = 0; i < o->option_count; i++)
        if (isnan(v.v[i]))
            return qc_fail(st, QC_USAGE, "observer '%s': option '%s' must be given, as in %s:%s=%g", o->name,
                           o->options[i].name, o->name, o->options[i].name, i ? 1.0 : -1.0);
    *out = o;
    *values = v;
    return true;
}

bool qc_observer_parse(const struct qc_observer **out, struct qc_observer_values *values, const char *spec,
                       struct qc_status *st)
{
    return qc_observer_parse_among(out, values, spec, NULL, st);
}

struct qc_statistics qc_statistics_of(const struct qc_histogram *h)
{
    const struct qc_tally *t = &h->tally;
    return (struct qc_statistics){.count = t->count,
                                  .zeros = t->zeros,
                                  .nan = t->nan,
                                  .inf = t->pos_inf + t->neg_inf,
                                  .samples = t->samples,
                                  .min = (double)t->min,
                                  .max = (double)t->max,
                                  .histogram = h};
}

bool qc_clipped_share(double *out, const struct qc_statistics *s, double lo, double hi, struct qc_levels levels,
                      enum qc_symmetry symmetry, struct qc_status *st)
{
    qc_affine_reach(&lo, &hi, qc_affine_from_range(lo, hi, levels, symmetry), levels);
    *out = 0;
    if (lo <= s->min && hi >= s->max) return true;
    *out = (double)NAN;
    if (!s->histogram || !s->histogram->binned) return true;
    struct qc_bin *bins;
    size_t n;
    if (!qc_histogram_bins(&bins, &n, s->histogram, st)) return false;
    double beyond = 0;
    for (size_t i = 0; i < n; i++) {
        const struct qc_bin *b = &bins[i];
        double width = b->hi - b->lo, c = (double)b->count;
        if (b->hi <= lo && b->lo < lo)
            beyond += c;
        else if (b->lo < lo)
            beyond += c * ((lo - b->lo) / width);
        if (b->lo >= hi && b->hi > hi)
            beyond += c;
        else if (b->hi > hi)
            beyond += c * ((b->hi - hi) / width);
    }
    free(bins);
    *out = beyond / (double)s->count;
    return true;
}

/* Returns the missing statistics that an observer needs, or NULL. */
static const char *missing(const struct qc_observer *o, const struct qc_statistics *s)
{
    if (o->fixed) return NULL; /* the histogram is only for the clipped fraction */
    switch (o->need) {
    case QC_NEED_EXTREMES: return NULL;
    case QC_NEED_HISTOGRAM: return s->histogram && s->histogram->binned ? NULL : "a histogram";
    case QC_NEED_SERIES: return s->series ? NULL : "the extremes of every sample";
    case QC_NEED_VALUES:
        return s->state && s->state->observer == o ? NULL : "the values themselves, while they stream through";
    }
    return NULL;
}

bool qc_observer_solve(struct qc_range *out, const struct qc_observer *observer,
                       const struct qc_observer_values *values, const struct qc_statistics *s,
                       const struct qc_solve *request, struct qc_status *st)
{
    const char *lacking = missing(observer, s);
    if (lacking)
        return qc_fail(st, QC_USAGE, "observer '%s' needs %s, which the statistics do not hold: use --data, in one run",
                       observer->name, lacking);
    struct qc_range r = {.objective = (double)NAN, .objective_minmax = (double)NAN, .candidates = 1};
    if (request->curve) *request->curve = (struct qc_curve){.stride = 1};
    if (s->count) {
        r.lo = s->min < 0 ? s->min : 0;
        r.hi = s->max > 0 ? s->max : 0;
        qc_range_cut(&r, request->known_lo, request->known_hi);
    }
    if ((r.lo < r.hi || observer->fixed) && !observer->solve(&r, s, request, r, values, st))
        return qc_where(st, "observer '%s'", observer->name);
    if (!qc_clipped_share(&r.clipped_fraction, s, r.lo, r.hi, request->levels, request->symmetry, st)) return false;
    *out = r;
    return true;
}

bool qc_observer_solve_values(struct qc_range *out, const struct qc_observer *observer,
                              const struct qc_observer_values *values, const float *x, size_t n,
                              const struct qc_solve *request, struct qc_status *st)
{
    struct qc_scan *scan = NULL;
    struct qc_histogram *h = NULL;
    struct qc_plugin_state state = {.observer = observer};
    bool ok = qc_scan_new(&scan, observer->need, st) && qc_histogram_new(&h, observer->need, st) &&
              qc_scan_sample(scan, x, n, 0, st) &&
              (!observer->plugin || qc_plugin_scan(&state, observer, values, x, n, st)) &&
              qc_histogram_add_scan(h, scan, st);
    if (ok) {
        struct qc_extremes only = qc_extremes_of(x, n, 0);
        struct qc_series series = {.count = 1, .items = &only};
        struct qc_statistics s = qc_statistics_of(h);
        s.series = &series;
        s.state = &state;
        ok = qc_observer_solve(out, observer, values, &s, request, st);
    }
    qc_plugin_end(&state);
    qc_histogram_free(h);
    qc_scan_free(scan);
    return ok;
}
