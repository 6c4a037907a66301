// SPDX-License-Identifier: Apache-2.0
/* qcalib compare REFERENCE MODEL --data X.h5 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "quantize/canonical_model.h"
#include "cli/cmd.h"
#include "cli/file_names.h"
#include "quantize/command_text.h"
#include "cli/compare_layers.h"
#include "quantize/integer_options.h"
#include "cli/interrupt.h"
#include "quantize/model.h"
#include "cli/print_warnings.h"
#include "cli/progress_bar.h"
#include "cli/screen.h"
#include "export/comparison.h"

enum { SHOWN = 8 };

struct comparison {
    struct qc_model first, second;
    struct qc_plan_options how[2];
    bool contracts; /* a rounding of each graph was named */
    bool both;      /* ... or an accumulator of each */
    struct qc_dataset *data;
    struct qc_layer_pairs pairs;
    struct qc_comparison *result;
};

/* One word is MODEL's, A,B are of both: NULL for what is not said. */
static bool split_pair(const char *out[2], const char *text, struct qc_arena *a, struct qc_status *st)
{
    const char *comma = text ? strchr(text, ',') : NULL;
    out[0] = NULL;
    out[1] = comma ? comma + 1 : text;
    return !comma || (out[0] = qc_arena_strndup(a, text, (size_t)(comma - text), st));
}

/* --rounding and --accumulator. */
static bool read_arithmetic(struct comparison *c, const struct qc_cli_options *o, struct qc_status *st)
{
    const char *rounding[2], *accumulator[2];
    if (!split_pair(rounding, o->job.rounding, o->job.arena, st) || !split_pair(accumulator, o->job.accumulator, o->job.arena, st)) return false;
    c->contracts = rounding[0] != NULL;
    c->both = rounding[0] || accumulator[0];
    for (int k = 0; k < 2; k++) {
        struct qc_options one = o->job;
        one.rounding = rounding[k];
        one.accumulator = accumulator[k];
        if (!qc_integer_options(&c->how[k], &one, st)) return false;
    }
    return true;
}

static struct qc_json *accumulator_json(const struct qc_accumulator *a)
{
    if (!a->bits || a->bits == 32) return qc_json_null();
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "bits", qc_json_integer(a->bits));
    qc_json_set(o, "overflow", qc_json_string(a->overflow == QC_OVERFLOW_SATURATE ? "saturate" : "wrap"));
    return o;
}

static bool check_inputs(const struct comparison *c, struct qc_status *st)
{
    const struct qc_graph *g = c->first.graph, *h = c->second.graph;
    bool same = g->input_count == h->input_count;
    for (size_t i = 0; same && i < g->input_count; i++)
        same = strcmp(g->inputs[i].name, h->inputs[i].name) == 0 && g->values[g->inputs[i].value].type.dtype == h->values[h->inputs[i].value].type.dtype;
    return same || qc_fail(st, QC_BAD_INPUT, "%s and %s do not take the same inputs ('qcalib inspect' shows them)", c->first.path, c->second.path);
}

/* The scale of the model's value; 0 where it is real or has several. */
static double step_of(const struct comparison *c, size_t i)
{
    const struct qc_space *s = qc_graph_parameters(c->second.graph, c->pairs.values[i].second);
    return s && s->count == 1 ? (double)s->scale[0] : 0;
}

/* Levels of one space are whole steps apart. */
static bool same_space(const struct comparison *c, size_t i)
{
    const struct qc_space *a = qc_graph_parameters(c->first.graph, c->pairs.values[i].first),
                          *b = qc_graph_parameters(c->second.graph, c->pairs.values[i].second);
    return a && b && a->count == 1 && b->count == 1 && a->scale[0] == b->scale[0] && a->zero_point[0] == b->zero_point[0];
}

static double most_steps(const struct comparison *c, size_t i)
{
    const double step = step_of(c, i);
    if (!(step > 0)) return (double)NAN;
    return same_space(c, i) ? (double)c->result->steps[i].most : c->result->pairs[i].max_abs / step;
}

static double mse_of(const struct qc_error *e)
{
    return e->count ? e->noise / (double)e->count : (double)NAN;
}

static struct qc_json *layer_json(const struct comparison *c, size_t i)
{
    const struct qc_error *e = &c->result->pairs[i];
    const struct qc_steps *s = &c->result->steps[i];
    struct qc_json *o = qc_json_object(), *steps = qc_json_array();
    for (int k = 0; k < QC_STEPS; k++) qc_json_add(steps, qc_json_integer((int64_t)s->of[k]));
    qc_json_set(o, "name", c->pairs.layers[i].name ? qc_json_string(c->pairs.layers[i].name) : qc_json_null());
    qc_json_set(o, "op", qc_json_string(qc_op_info(c->pairs.layers[i].op)->name));
    qc_json_set(o, "matched", qc_json_string(c->pairs.layers[i].by_name ? "name" : "order"));
    qc_json_set(o, "mse", qc_json_number(mse_of(e)));
    qc_json_set(o, "sqnr_db", qc_json_number(qc_error_sqnr_db(e)));
    qc_json_set(o, "cosine", qc_json_number(qc_error_cosine(e)));
    qc_json_set(o, "max_abs", qc_json_number(e->max_abs));
    qc_json_set(o, "max_steps", qc_json_number(most_steps(c, i)));
    qc_json_set(o, "elements", qc_json_integer((int64_t)e->count));
    qc_json_set(o, "differing", qc_json_integer((int64_t)s->differing));
    qc_json_set(o, "steps", step_of(c, i) > 0 ? steps : qc_json_null());
    if (!(step_of(c, i) > 0)) qc_json_free(steps);
    return o;
}

static bool print_json(const struct comparison *c, const struct qc_warnings *w, struct qc_status *st)
{
    struct qc_json *root = qc_json_object(), *outputs = qc_json_array(), *layers = qc_json_array(),
                   *rounding = qc_json_array(), *accumulator = qc_json_array(), *overflows = qc_json_array(), *warnings = qc_json_array();
    for (int k = 0; k < 2; k++) {
        qc_json_add(rounding, qc_json_string(qc_contract_info(c->how[k].rounding)->name));
        qc_json_add(accumulator, accumulator_json(&c->how[k].accumulator));
        qc_json_add(overflows, qc_overflows_json(&c->result->overflows[k]));
    }
    for (size_t k = 0; k < c->second.graph->output_count; k++) {
        const struct qc_error *e = &c->result->outputs[k];
        struct qc_json *o = qc_json_object();
        qc_json_set(o, "name", qc_json_string(c->second.graph->outputs[k].name));
        qc_json_set(o, "equal", qc_json_bool(c->result->differing[k] == 0));
        qc_json_set(o, "differing", qc_json_integer((int64_t)c->result->differing[k]));
        qc_json_set(o, "elements", qc_json_integer((int64_t)c->result->elements[k]));
        qc_json_set(o, "max_abs", qc_json_number(e->count ? e->max_abs : (double)NAN));
        qc_json_set(o, "sqnr_db", qc_json_number(qc_error_sqnr_db(e)));
        qc_json_set(o, "cosine", qc_json_number(qc_error_cosine(e)));
        qc_json_add(outputs, o);
    }
    for (size_t i = 0; i < c->pairs.count; i++) qc_json_add(layers, layer_json(c, i));
    qc_json_set(root, "rounding", rounding);
    qc_json_set(root, "accumulator", accumulator);
    for (size_t i = 0; i < qc_warnings_count(w); i++) qc_json_add(warnings, qc_json_string(qc_warnings_text(w, i)));
    qc_json_set(root, "overflows", overflows);
    qc_json_set(root, "samples", qc_json_integer((int64_t)c->result->samples));
    qc_json_set(root, "outputs", outputs);
    qc_json_set(root, "layers", layers);
    qc_json_set(root, "warnings", warnings);
    return qc_print_json(root, st);
}

static void print_db(double db)
{
    if (isinf(db)) printf("   equal");
    else if (isnan(db)) printf("       -");
    else printf("%8.2f", db);
}

static void print_layer(const struct comparison *c, size_t i)
{
    const struct qc_error *e = &c->result->pairs[i];
    const struct qc_steps *d = &c->result->steps[i];
    const double s = most_steps(c, i), all = e->count ? (double)e->count : 1;
    const char *name = c->pairs.layers[i].name;
    print_db(qc_error_sqnr_db(e));
    printf("  %9.6f  %9.3g  ", qc_error_cosine(e), e->max_abs);
    if (isnan(s))
        printf("%6s  %7.3f %%  %27s", "-", 100 * (double)d->differing / all, "");
    else
        printf("%6.1f  %7.3f %%  %7.3f %%  %6.3f %%  %5.2f %%", s, 100 * (double)d->differing / all, 100 * (double)d->of[1] / all,
               100 * (double)d->of[2] / all, 100 * (double)d->of[3] / all);
    printf("  %-12s ", qc_op_info(c->pairs.layers[i].op)->name);
    qc_print_safe(stdout, name ? name : "(no name)");
    putchar('\n');
}

/* Numbers of the worst layers by SQNR, worst first. */
static size_t worst(size_t *list, size_t most, const struct comparison *c)
{
    size_t count = 0;
    for (size_t i = 0; i < c->pairs.count; i++) {
        double db = qc_error_sqnr_db(&c->result->pairs[i]);
        size_t at = count;
        while (at > 0 && qc_error_sqnr_db(&c->result->pairs[list[at - 1]]) > db) at--;
        if (isnan(db) || at >= most) continue;
        if (count < most) count++;
        memmove(list + at + 1, list + at, (count - at - 1) * sizeof *list);
        list[at] = i;
    }
    return count;
}

static void print_table(const struct comparison *c, const struct qc_cli_options *o)
{
    size_t list[SHOWN];
    for (size_t k = 0; k < c->second.graph->output_count; k++) {
        const struct qc_error *e = &c->result->outputs[k];
        printf("output ");
        qc_print_safe(stdout, c->second.graph->outputs[k].name);
        if (!c->result->differing[k]) printf(": equal, bit for bit, on %zu samples\n", c->result->samples);
        else if (!e->count) printf(": %" PRIu64 " of %" PRIu64 " elements differ on %zu samples\n", c->result->differing[k], c->result->elements[k], c->result->samples);
        else printf(": SQNR %.2f dB, cosine %.6f, at most %.4g apart, %" PRIu64 " of %" PRIu64 " elements differ on %zu samples\n", qc_error_sqnr_db(e),
                    qc_error_cosine(e), e->max_abs, c->result->differing[k], c->result->elements[k], c->result->samples);
    }
    const bool all = o->verbose || c->both;
    printf("%s SQNR dB     cosine  max error   steps  differing    1 step   2 steps   more  op           value%s\n", qc_style(stdout, QC_STYLE_BOLD), qc_style(stdout, QC_STYLE_PLAIN));
    if (all)
        for (size_t i = 0; i < c->pairs.count; i++) print_layer(c, i);
    size_t shown = all ? 0 : worst(list, SHOWN, c);
    for (size_t i = 0; i < shown; i++) print_layer(c, list[i]);
    if (!all && c->pairs.count > shown) printf("%zu layers compared, the worst shown; -v or --json shows all\n", c->pairs.count);
}

static bool fill_layers(struct qc_compared *to, const struct comparison *c, struct qc_arena *a, struct qc_status *st)
{
    struct qc_compared_layer *layers = QC_NEW_ARRAY(a, struct qc_compared_layer, c->pairs.count, st);
    for (size_t i = 0; layers && i < c->pairs.count; i++) {
        const struct qc_error *e = &c->result->pairs[i];
        layers[i] = (struct qc_compared_layer){.name = c->pairs.layers[i].name, .op = qc_op_info(c->pairs.layers[i].op)->name, .by_name = c->pairs.layers[i].by_name, .mse = mse_of(e),
                                               .sqnr_db = qc_error_sqnr_db(e), .cosine = qc_error_cosine(e), .max_abs = e->max_abs, .elements = e->count,
                                               .differing = c->result->steps[i].differing, .max_steps = most_steps(c, i)};
        for (int k = 0; k < QC_STEPS; k++) layers[i].steps[k] = c->result->steps[i].of[k];
    }
    to->layers = layers;
    to->layer_count = c->pairs.count;
    return layers != NULL;
}

static bool fill_outputs(struct qc_compared *to, const struct comparison *c, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = c->second.graph;
    struct qc_compared_output *outputs = QC_NEW_ARRAY(a, struct qc_compared_output, g->output_count, st);
    for (size_t k = 0; outputs && k < g->output_count; k++) {
        const struct qc_error *e = &c->result->outputs[k];
        const double none = (double)NAN;
        outputs[k] = (struct qc_compared_output){.name = g->outputs[k].name, .sqnr_db = qc_error_sqnr_db(e), .cosine = e->count ? qc_error_cosine(e) : none, .max_abs = e->count ? e->max_abs : none,
                                                 .elements = c->result->elements[k], .differing = c->result->differing[k]};
    }
    to->outputs = outputs;
    to->output_count = g->output_count;
    return outputs != NULL;
}

static bool write_page(const struct comparison *c, const struct qc_cli_options *o, struct qc_status *st)
{
    char sha[3][65];
    struct qc_compared page = {.version = QC_VERSION, .file = {c->first.path, c->second.path}, .sha256 = {sha[0], sha[1]}, .contracts = c->contracts,
                               .data_file = qc_dataset_file(c->data), .data_sha256 = sha[2], .samples = c->result->samples, .tolerance = o->job.tolerance};
    for (int k = 0; k < 2; k++) page.rounding[k] = qc_contract_info(c->how[k].rounding)->name;
    if (!qc_sha256_file(sha[0], page.file[0], st) || !qc_sha256_file(sha[1], page.file[1], st) || !qc_sha256_file(sha[2], page.data_file, st) ||
        !qc_command_text(&page.command, o->job.arena, &o->job, o->operands.items, o->operands.count, NULL, st) || !fill_layers(&page, c, o->job.arena, st) || !fill_outputs(&page, c, o->job.arena, st))
        return false;
    struct qc_json *options = qc_options_json(&o->job);
    struct qc_output *file = NULL;
    size_t size;
    page.options = options;
    char *text = qc_json_is_whole(options) ? qc_comparison_html(&size, &page, st) : NULL;
    if (!text) qc_fail_memory(st, 1); /* unless the page had a reason */
    bool ok = text && qc_output_open(&file, o->html, st) && qc_output_write(file, text, size, st) && qc_output_commit(file, st);
    qc_output_free(file);
    qc_json_free(options);
    free(text);
    return ok;
}

static bool check_tolerance(const struct comparison *c, double tolerance, struct qc_status *st)
{
    for (size_t k = 0; !isnan(tolerance) && k < c->second.graph->output_count; k++) {
        const struct qc_error *e = &c->result->outputs[k];
        bool numbers = e->count > 0;
        if (numbers ? !(e->max_abs <= tolerance) : c->result->differing[k] != 0)
            return numbers ? qc_fail(st, QC_DEMAND, "--tolerance %g: output '%s' differs by %g", tolerance, c->second.graph->outputs[k].name, e->max_abs)
                           : qc_fail(st, QC_DEMAND, "--tolerance %g: %" PRIu64 " of %" PRIu64 " elements of output '%s' differ", tolerance,
                                     c->result->differing[k], c->result->elements[k], c->second.graph->outputs[k].name);
    }
    return true;
}

bool qc_cmd_compare(const struct qc_cli_options *o, struct qc_status *st)
{
    struct comparison c = {.contracts = false};
    struct qc_warnings *w = NULL;
    struct qc_progress *progress = NULL;
    bool ok = false;
    if (!o->job.data) return qc_fail(st, QC_USAGE, "compare needs --data FILE with samples; see 'qcalib help compare'");
    if ((o->html && !qc_output_check(o->html, st)) || !read_arithmetic(&c, o, st) || !qc_warnings_new(&w, st) || !qc_progress_bar_new(&progress, o, st) || !qc_model_open(&c.first, &(struct qc_model_source){.file = o->operands.items[0]}, &o->job, w, st) ||
        !qc_model_open(&c.second, &(struct qc_model_source){.file = o->operands.items[1]}, &o->job, w, st) || !qc_model_check_types(&c.first, st) || !qc_model_check_types(&c.second, st) || !check_inputs(&c, st) ||
        !qc_model_canonicalise(&c.first, st) || !qc_model_canonicalise(&c.second, st) ||
        !qc_model_data(&c.data, c.first.graph, &(struct qc_data_source){.file = o->job.data}, &(struct qc_data_request){.use = QC_USE_INPUTS, .choose = QC_CHOOSE_SAMPLES}, &o->job, w, st) ||
        !qc_match_layers(&c.pairs, c.first.graph, c.second.graph, o->job.arena, st))
        goto out;
    struct qc_comparison_job job = {.first = c.first.graph,
                                    .second = c.second.graph,
                                    .how = {&c.how[0], &c.how[1]},
                                    .count_steps = true,
                                    .pair_count = c.pairs.count,
                                    .pairs = c.pairs.values,
                                    .data = c.data,
                                    .workers = (unsigned)o->job.threads,
                                    .memory_limit = (size_t)o->job.memory_limit,
                                    .progress = qc_progress_step,
                                    .progress_user = progress};
    qc_progress_phase(progress, "comparing");
    bool ran = qc_compare(&c.result, &job, st);
    qc_progress_end(progress);
    if (!ran || !qc_interrupt_check(st)) goto out;
    const bool two = c.how[0].accumulator.bits && c.how[0].accumulator.bits < 32;
    for (int k = 0; k < 2; k++)
        qc_warn_overflows(w, &c.result->overflows[k], c.how[k].accumulator.bits, two ? qc_base_name(k ? c.second.path : c.first.path) : NULL);
    if (o->html && !write_page(&c, o, st)) goto out;
    if (o->json) ok = print_json(&c, w, st);
    else if (!o->quiet) print_table(&c, o);
    ok = (!o->json || ok) && check_tolerance(&c, o->job.tolerance, st);
    if (!o->quiet) qc_warnings_print(w, o->verbose ? QC_WARNINGS_ALL : QC_WARNINGS_SOME);
out:
    qc_comparison_free(c.result);
    qc_dataset_free(c.data);
    qc_model_close(&c.second);
    qc_model_close(&c.first);
    qc_progress_bar_free(progress);
    qc_warnings_free(w);
    return ok;
}
