// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/size_report.h"

#include "quantize/report/command_text.h"

enum { ROWS = 64 };

/* Fills the rows of the frontier, thinned out to about ROWS, with the chosen point at its place. */
static bool fill_frontier(struct qc_report_size *to, const struct qc_pipeline *p, const struct qc_size_result *r,
                          struct qc_status *st)
{
    const struct qc_size_frontier *f = &r->frontier;
    const size_t all = f->step_count + 1, every = all / ROWS + 1;
    struct qc_report_size_row *rows = QC_NEW_ARRAY(p->arena, struct qc_report_size_row, all + 1, st);
    const struct qc_report_size_row chosen = {r->bytes, r->chosen.error, true};
    const size_t beside = r->bytes > r->chosen.bytes ? r->bytes - r->chosen.bytes : 0; /* bytes beside the layers */
    bool placed = false;
    if (!rows) return false;
    for (size_t i = 0; i < all; i++) {
        const size_t bytes = i ? f->steps[i - 1].bytes : f->least_bytes;
        const double error = i ? f->steps[i - 1].error : f->least_error;
        if (!placed && bytes >= r->chosen.bytes) rows[to->row_count++] = chosen;
        placed = placed || bytes >= r->chosen.bytes;
        if (bytes == r->chosen.bytes || (i % every && i + 1 < all)) continue;
        rows[to->row_count++] = (struct qc_report_size_row){bytes + beside, error, false};
    }
    to->rows = rows;
    return true;
}

static bool fill_options(struct qc_report_size *to, const struct qc_pipeline *p, const struct qc_size_result *r,
                         struct qc_status *st)
{
    struct qc_arena *a = p->arena;
    const char **names = QC_NEW_ARRAY(a, const char *, r->layer_count, st),
               **values = QC_NEW_ARRAY(a, const char *, r->layer_count, st),
               **options = QC_NEW_ARRAY(a, const char *, r->layer_count, st);
    struct qc_command_change change = {.name = names, .value = values, .without = "size"};
    if (!names || !values || !options) return false;
    for (size_t k = 0; k < r->layer_count; k++) {
        names[k] = "weight-type";
        values[k] = qc_arena_printf(a, st, "%sint%u:%s", r->is_signed ? "" : "u", r->layers[k].bits, r->layers[k].glob);
        options[k] = values[k] ? qc_arena_printf(a, st, "--weight-type=%s", values[k]) : NULL;
        if (!options[k]) return false;
    }
    change.count = to->option_count = r->layer_count;
    to->options = options;
    return qc_pipeline_command(&to->command, p, &change, st);
}

/* Fills the files with all layers in one width, for comparison. */
static bool fill_uniform(struct qc_report_size *to, const struct qc_pipeline *p, const struct qc_size_result *r,
                         struct qc_status *st)
{
    static const unsigned bits[QC_SIZE_WIDTHS] = {[QC_SIZE_8] = 8, [QC_SIZE_4] = 4, [QC_SIZE_2] = 2};
    struct qc_report_size_uniform *uniform = QC_NEW_ARRAY(p->arena, struct qc_report_size_uniform, QC_SIZE_WIDTHS, st);
    if (!uniform) return false;
    for (unsigned width = 0, point = 0; width < QC_SIZE_WIDTHS; width++) {
        if (!r->file[width]) continue;
        struct qc_report_size_uniform *u = &uniform[to->uniform_count++];
        *u = (struct qc_report_size_uniform){.bits = bits[width], .bytes = r->file[width]};
        for (size_t k = 0; k < r->layer_count; k++) u->error += r->units[k].points[point].error;
        point++;
    }
    to->uniform = uniform;
    return true;
}

bool qc_size_report(struct qc_report_size **out, const struct qc_pipeline *p, const struct qc_size_result *r,
                    struct qc_status *st)
{
    struct qc_report_size *to = QC_NEW(p->arena, struct qc_report_size, st);
    struct qc_report_size_layer *layers = QC_NEW_ARRAY(p->arena, struct qc_report_size_layer, r->layer_count, st);
    if (!to || !layers) return false;
    *to = (struct qc_report_size){.limit = r->limit,
                                  .bytes = r->bytes,
                                  .error = r->chosen.error,
                                  .of_outputs = r->of_outputs,
                                  .layer_count = r->layer_count,
                                  .layers = layers};
    for (size_t k = 0; k < r->layer_count; k++)
        layers[k] = (struct qc_report_size_layer){.node = r->layers[k].node,
                                                  .bits = r->layers[k].bits,
                                                  .bytes = r->layers[k].bytes,
                                                  .error = r->layers[k].error};
    *out = to;
    return fill_frontier(to, p, r, st) && fill_uniform(to, p, r, st) && fill_options(to, p, r, st);
}
