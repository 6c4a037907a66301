// SPDX-License-Identifier: Apache-2.0
#include "plan_print.h"

#include <stdio.h>
#include <stdlib.h>

#include "simq/plan/plan_parts.h"

static void print_operand(FILE *f, const struct qc_plan *p, const struct qc_plan_operand *o)
{
    char text[QC_SHAPE_TEXT];
    const struct qc_view *v = &o->view;
    if (v->rank < 0) {
        fprintf(f, " -");
        return;
    }
    struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    const struct qc_view last = qc_view_of(v->dtype, &shape, QC_LAYOUT_LAST, NULL);
    const char *order = qc_view_row_major(v) ? "" : qc_view_same_order(v, &last) ? " last" : " strided";
    fprintf(f, " %s%s%s", qc_dtype_info(v->dtype)->name, qc_shape_text(text, &shape), order);
    if (o->storage) fprintf(f, "@%zu", p->storages[o->storage].offset + (size_t)o->offset);
}

char *plan_print(const struct qc_plan *p, struct qc_status *st)
{
    char *text = NULL, label[QC_LABEL];
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) {
        qc_fail_memory(st, 0);
        return NULL;
    }
    for (size_t i = 0; i < p->step_count; i++) {
        const struct qc_step *s = &p->steps[i];
        fprintf(f, "%4zu %-14s", i, s->label);
        for (unsigned k = 0; k < s->input_count; k++) print_operand(f, p, &s->in[k]);
        fprintf(f, " ->");
        for (unsigned k = 0; k < s->output_count; k++) print_operand(f, p, &s->out[k]);
        if (s->detail) fprintf(f, " [%s]", s->detail);
        if (s->node)
            fprintf(f, " %s", s->node->name ? s->node->name : qc_value_label(label, p->graph, s->node->outputs));
        fputc('\n', f);
    }
    fprintf(f, "buffer %zu, scratch %zu, constants %zu bytes\n", p->buffer_bytes, p->scratch_bytes,
            qc_plan_constant_bytes(p));
    if (fclose(f) == 0 && text) return text;
    free(text);
    qc_fail_memory(st, size);
    return NULL;
}
