// SPDX-License-Identifier: Apache-2.0
/* Pad-13, including negative pads. */
#include <string.h>

#include "simq/core/kernel_util.h"

enum mode { CONSTANT, EDGE, REFLECT, WRAP };

struct state {
    enum mode mode;
    int64_t begin[QC_RANK_MAX];
    const int64_t
        *map[QC_RANK_MAX]; /* modes other than CONSTANT: source of each output coordinate; NULL without padding */
    bool known;            /* element is known at plan time */
    uint64_t element;      /* its bits */
};

static int64_t source_pad(enum mode mode, int64_t i, int64_t n)
{
    switch (mode) {
    case WRAP: return (i % n + n) % n;
    case EDGE: return i < 0 ? 0 : i < n ? i : n - 1;
    case REFLECT: {
        if (n == 1) return 0;
        const int64_t period = 2 * (n - 1), m = (i % period + period) % period;
        return m < n ? m : period - m;
    }
    case CONSTANT: break;
    }
    return i;
}

/* The constant as an element of the output: the bits of a real value, or the level under the parameters of the data. */
static bool make_element(uint64_t *element, const struct qc_view *value, const struct qc_view *to,
                         const struct qc_scales *scales, enum qc_contract contract, struct qc_status *st)
{
    double v = 0;
    *element = 0;
    if (value) {
        struct qc_tensor t = {.dtype = value->dtype, .count = 1, .data = value->data};
        v = qc_tensor_float(&t, 0);
    }
    if (!scales || scales->identity) {
        if (value && value->dtype == to->dtype)
            memcpy(element, value->data, qc_dtype_size(to->dtype));
        else
            qc_element_of(element, to->dtype, v);
        return true;
    }
    if (v != 0 && scales->count > 1)
        return qc_fail(st, QC_UNSUPPORTED, "a constant other than 0 cannot pad a value that is quantized per channel");
    const struct qc_affine a = {.scale = scales->scale[0], .zero_point = scales->zero_point[0]};
    const int32_t q = qc_quantize_by(contract, (float)v, a, scales->levels);
    qc_element_of(element, to->dtype,
                  (double)q - (qc_dtype_info(to->dtype)->is_float ? a.zero_point : 0)); /* float: centred */
    return true;
}

static bool prepare_pad(struct qc_prepare *p, struct qc_status *st)
{
    static const struct {
        const char *name;
        enum mode mode;
    } modes[] = {{"constant", CONSTANT}, {"edge", EDGE}, {"reflect", REFLECT}, {"wrap", WRAP}};
    struct state *s = QC_NEW_STATE(p, struct state, st);
    int64_t pads[2 * QC_RANK_MAX];
    size_t count;
    if (!s || !qc_kernel_ints(pads, &count, 2 * QC_RANK_MAX, p, 1, "pads", st)) return false;
    const int rank = p->in[0].rank;
    if (count != 2 * (size_t)rank)
        return qc_fail(st, QC_BAD_INPUT, "input \"pads\" has %zu elements, expected %d", count, 2 * rank);
    for (int d = 0; d < rank; d++) s->begin[d] = pads[d];
    const char *name = qc_attr_string(p->node, "mode", "constant");
    size_t m = 0;
    while (m < sizeof modes / sizeof *modes && strcmp(modes[m].name, name) != 0) m++;
    if (m == sizeof modes / sizeof *modes)
        return qc_fail(st, QC_UNSUPPORTED, "attribute mode \"%s\" is not handled", name);
    s->mode = modes[m].mode;
    if (s->mode != CONSTANT) {
        if (qc_view_count(&p->out[0]) == 0) return true;
        for (int d = 0; d < p->in[0].rank; d++) {
            const int64_t n = p->in[0].dim[d], padded = p->out[0].dim[d];
            if (s->begin[d] == 0 && n == padded) continue;
            if (n == 0) return qc_fail(st, QC_BAD_INPUT, "axis %d has no elements to pad with", d);
            int64_t *map = QC_NEW_ARRAY(p->arena, int64_t, padded, st);
            if (!map) return false;
            for (int64_t i = 0; i < padded; i++) map[i] = source_pad(s->mode, i - s->begin[d], n);
            s->map[d] = map;
        }
        return true;
    }
    const struct qc_view *value = qc_kernel_has(p, 2) ? &p->in[2] : NULL;
    if (value && qc_view_count(value) != 1)
        return qc_fail(st, QC_BAD_INPUT, "input \"constant_value\" has %zu elements, expected 1", qc_view_count(value));
    s->known = !value || value->data;
    if (s->known) return make_element(&s->element, value, &p->out[0], &p->in_scales[0], p->contract, st);
    if (p->in_scales[0].identity) return true;
    return qc_fail(st, QC_UNSUPPORTED, "input \"constant_value\" must be constant where the data is quantized");
}

static bool run_pad(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    const struct qc_view *to = &r->out[0];
    if (s->mode != CONSTANT) {
        qc_view_copy_mapped(to, &r->in[0], s->map);
        return true;
    }
    uint64_t element = s->element;
    if (!s->known && !make_element(&element, &r->in[2], to, NULL, QC_CONTRACT_ONNX, st)) return false;
    qc_view_fill(to, &element);
    struct qc_view from = r->in[0], part = *to;
    for (int d = 0; d < to->rank; d++) {
        const int64_t begin = s->begin[d] > 0 ? s->begin[d] : 0, skip = s->begin[d] < 0 ? -s->begin[d] : 0;
        int64_t n = from.dim[d] - skip;
        if (n > part.dim[d] - begin) n = part.dim[d] - begin;
        if (n <= 0) return true;
        from = qc_view_part(&from, d, skip, n);
        part = qc_view_part(&part, d, begin, n);
    }
    qc_view_copy(&part, &from);
    return true;
}

QC_KERNEL(pad, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_pad, .run = run_pad);
