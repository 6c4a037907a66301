// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/real/product_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

size_t qc_product_padded(size_t columns)
{
    return (columns + QC_PRODUCT_BLOCK - 1) / QC_PRODUCT_BLOCK * QC_PRODUCT_BLOCK;
}

static size_t in_lines(size_t bytes)
{
    return (bytes + 127) / 64 * 64;
}

static float *numbers_as_they_are(size_t count, struct qc_status *st)
{
    float *p = count <= (SIZE_MAX - 128) / sizeof(float) ? aligned_alloc(64, in_lines(count * sizeof(float))) : NULL;
    if (!p) qc_fail_memory(st, count);
    return p;
}

static bool check_operand(const struct qc_view *v, const char *what, struct qc_status *st)
{
    return v->dtype == QC_F32 ||
           qc_fail(st, QC_UNSUPPORTED, "%s of type %s, only f32 is handled", what, qc_dtype_info(v->dtype)->name);
}

static void spread_bias(float *to, const struct qc_product *d, const float *from)
{
    for (size_t g = 0; g < d->groups; g++)
        memcpy(to + g * qc_product_padded(d->columns), from + g * d->columns, d->columns * sizeof *to);
}

struct qc_product *qc_product_start(const struct qc_product_operands *o, size_t groups, size_t columns,
                                    const struct qc_product_tail *tail, struct qc_status *st)
{
    if (!check_operand(o->src, "data", st) || !check_operand(o->weights, "weights", st) ||
        !check_operand(o->dst, "result", st))
        return NULL;
    if (o->bias && (!check_operand(o->bias, "bias", st) || !qc_view_row_major(o->bias))) {
        qc_fail(st, QC_UNSUPPORTED, "bias is not dense");
        return NULL;
    }
    struct qc_product *d = calloc(1, sizeof *d);
    if (!d) {
        qc_fail_memory(st, sizeof *d);
        return NULL;
    }
    const enum qc_isa isa = o->isa == QC_ISA_BEST ? qc_isa_detect(o->isa) : o->isa;
    d->tiles = qc_product_tiles_of(isa);
    d->tail = *tail;
    d->groups = groups;
    d->columns = columns;
    d->biased = o->bias != NULL;
    qc_text(d->name, sizeof d->name, "%s f32", qc_isa_name(isa));
    if (d->biased && !o->bias->data) return d;
    const size_t numbers = groups * qc_product_padded(columns);
    if (!(d->bias = numbers_as_they_are(numbers, st))) {
        free(d);
        return NULL;
    }
    memset(d->bias, 0, in_lines(numbers * sizeof(float)));
    d->constant_bytes += numbers * sizeof(float);
    if (d->biased) spread_bias(d->bias, d, o->bias->data);
    return d;
}

/* The caller writes all numbers; only the padding is cleared here. */
bool qc_product_pack(struct qc_product *d, size_t numbers, struct qc_status *st)
{
    if (!(d->packed = numbers_as_they_are(numbers, st))) return false;
    memset(d->packed + numbers, 0, in_lines(numbers * sizeof(float)) - numbers * sizeof(float));
    return true;
}

bool qc_product_keep(struct qc_product *d, size_t numbers, const void *given, struct qc_packed *packs,
                     struct qc_status *st)
{
    size_t added = numbers * sizeof(float);
    if (packs) {
        void *own = d->packed, *kept = NULL;
        d->packed = NULL;
        d->shared = true;
        if (!qc_packed_take(&kept, &added, packs, given, own, added, st)) return false;
        d->packed = kept;
    }
    d->constant_bytes += added;
    return true;
}

bool qc_product_lay_out(struct qc_product *d, const size_t bytes[QC_PRODUCT_PARTS], struct qc_status *st)
{
    for (int i = 0; i < QC_PRODUCT_PARTS; i++)
        if (bytes[i] > PTRDIFF_MAX / 2 || !qc_add_size(&d->at[i + 1], d->at[i], bytes[i] ? in_lines(bytes[i]) : 0) ||
            d->at[i + 1] > PTRDIFF_MAX / 2)
            return qc_fail(st, QC_UNSUPPORTED, "the buffers of a product of this shape do not fit in memory");
    return true;
}

const float *qc_product_bias(const struct qc_product *d, const struct qc_product_memory *m)
{
    if (d->bias) return d->bias;
    float *to = qc_product_part_of(d, m, QC_PRODUCT_BIAS);
    memset(to, 0, d->groups * qc_product_padded(d->columns) * sizeof *to);
    spread_bias(to, d, m->bias);
    return to;
}

void qc_product_free(struct qc_product *d)
{
    if (!d) return;
    if (!d->shared) free(d->packed);
    free(d->bias);
    free(d);
}

struct qc_product_facts qc_product_facts(const struct qc_product *d)
{
    return (struct qc_product_facts){.scratch = d->at[QC_PRODUCT_PARTS],
                                     .bytes = d->constant_bytes,
                                     .is_packed = d->packed != NULL,
                                     .name = d->name};
}

void qc_product_run(const struct qc_product *d, const struct qc_product_memory *m)
{
    if (d->convolution)
        qc_product_run_conv(d, m);
    else
        qc_product_run_matrix(d, m);
}
