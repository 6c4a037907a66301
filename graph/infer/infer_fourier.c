// SPDX-License-Identifier: Apache-2.0
/* DFT, STFT, MelWeightMatrix: sizes depend on inputs. */
#include <inttypes.h>

#include "base/checked.h"
#include "graph/infer/infer_help.h"

enum { LONGEST = 1 << 30 };

/* Gives the number in input i: QC_FREE if it is not known, `otherwise` if the input is absent. */
static bool number_of(int64_t *out, const struct qc_infer *c, unsigned i, const char *what, int64_t otherwise,
                      struct qc_status *st)
{
    *out = otherwise;
    if (!qc_has_in(c, i)) return true;
    const struct qc_tensor *t = qc_in_constant(c, i);
    if (!qc_infer_index_type(c, i, what, st) || !qc_infer_scalar(c, i, what, st)) return false;
    *out = t && t->count ? qc_tensor_int(t, 0) : QC_FREE;
    if (t && t->count && (*out < 1 || *out > LONGEST)) return qc_fail(st, QC_BAD_INPUT, "%s is %" PRId64, what, *out);
    return true;
}

bool qc_infer_dft(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const bool inverse = qc_attr_int(c->node, "inverse", 0) != 0, onesided = qc_attr_int(c->node, "onesided", 0) != 0;
    struct qc_shape s = x->shape;
    int64_t n, met;
    int axis = 0;
    if (!qc_infer_same_float(c, 0, 1, st)) return false;
    if (s.rank < 0) return qc_infer_set(c, 0, x->dtype, &s, st);
    struct qc_list at = {.known = true, .count = 1, .value = {-2}};
    if (qc_has_in(c, 2) && !qc_infer_list(&at, c, 2, "the axis", st)) return false;
    if (s.rank < 2 || (!qc_dim_meet(&met, s.dim[s.rank - 1], 1) && !qc_dim_meet(&met, s.dim[s.rank - 1], 2)))
        return qc_fail(st, QC_BAD_INPUT, "the last axis must hold one real or two complex numbers");
    if (!at.known) {
        for (int i = 0; i + 1 < s.rank; i++) s.dim[i] = QC_FREE;
    } else {
        if (!qc_axis_of(&axis, at.value[0], s.rank, st)) return false;
        if (axis == s.rank - 1) return qc_fail(st, QC_BAD_INPUT, "the last axis holds the parts of complex numbers");
        const int64_t there = s.dim[axis] == QC_FREE ? QC_FREE
                              : inverse && onesided  ? 2 * (s.dim[axis] - 1)
                                                     : s.dim[axis];
        if (!number_of(&n, c, 1, "dft_length", there, st)) return false;
        if (n == 0 || n > LONGEST) return qc_fail(st, QC_BAD_INPUT, "a length of %" PRId64, n);
        s.dim[axis] = n == QC_FREE || !onesided || inverse ? n : n / 2 + 1;
    }
    s.dim[s.rank - 1] = inverse && onesided ? 1 : 2;
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_stft(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    int64_t step, n, met;
    if (!qc_infer_same_float(c, 0, 1, st)) return false;
    if (x->shape.rank >= 0 && x->shape.rank != 2 && x->shape.rank != 3)
        return qc_fail(st, QC_BAD_INPUT, "a signal [N,L,1] or [N,L,2] is expected");
    const bool ranked = x->shape.rank >= 0;
    const int64_t length = ranked ? x->shape.dim[1] : QC_FREE;
    const struct qc_shape *window = qc_has_in(c, 2) ? &qc_in(c, 2)->shape : NULL;
    if (window && window->rank >= 0 && window->rank != 1) return qc_fail(st, QC_BAD_INPUT, "the window must be a list");
    if (window && qc_in(c, 2)->dtype != x->dtype)
        return qc_fail(st, QC_BAD_INPUT, "the window must be of the type of the signal");
    const int64_t framed = window ? (window->rank == 1 ? window->dim[0] : QC_FREE) : length;
    if (!number_of(&step, c, 1, "frame_step", QC_FREE, st) || !number_of(&n, c, 3, "frame_length", framed, st))
        return false;
    if (window && window->rank == 1 && !qc_dim_meet(&met, n, window->dim[0]))
        return qc_fail(st, QC_BAD_INPUT, "a window of %" PRId64 " for frames of %" PRId64, window->dim[0], n);
    if (n == 0 || (n != QC_FREE && length != QC_FREE && n > length))
        return qc_fail(st, QC_BAD_INPUT, "frames of %" PRId64 " of a signal of %" PRId64, n, length);
    const bool known = step != QC_FREE && n != QC_FREE && length != QC_FREE;
    const struct qc_shape s = QC_SHAPE(ranked ? x->shape.dim[0] : QC_FREE, known ? (length - n) / step + 1 : QC_FREE,
                                       n == QC_FREE                          ? QC_FREE
                                       : qc_attr_int(c->node, "onesided", 1) ? n / 2 + 1
                                                                             : n,
                                       2);
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_mel_weights(struct qc_infer *c, struct qc_status *st)
{
    const int64_t to = qc_attr_int(c->node, "output_datatype", 1);
    const enum qc_dtype t = to > 0 && to < 1000 ? qc_dtype_from_onnx((int)to) : QC_NONE;
    int64_t bands, n, rate;
    if (t == QC_NONE) return qc_fail(st, QC_UNSUPPORTED, "data type %" PRId64 " is not handled", to);
    if (!number_of(&bands, c, 0, "num_mel_bins", QC_FREE, st) || !number_of(&n, c, 1, "dft_length", QC_FREE, st) ||
        !number_of(&rate, c, 2, "sample_rate", QC_FREE, st) || !qc_infer_scalar(c, 3, "lower_edge_hertz", st) ||
        !qc_infer_scalar(c, 4, "upper_edge_hertz", st))
        return false;
    const struct qc_shape s = QC_SHAPE(n == QC_FREE ? QC_FREE : n / 2 + 1, bands);
    return qc_infer_set(c, 0, t, &s, st);
}
