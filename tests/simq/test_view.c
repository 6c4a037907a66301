// SPDX-License-Identifier: Apache-2.0
#include "simq/core/view.h"
#include "tests/check.h"

static uint64_t state = 7;

static int64_t pick(int64_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((state >> 33) % (uint64_t)n);
}

enum { ROOM = 1 << 16 };

/* A view with dims of `shape` in a random order of dimensions, with gaps and reversed dimensions now and then, inside
 * ROOM elements. */
static struct qc_view random_view(enum qc_dtype t, const struct qc_shape *shape, void *room)
{
    struct qc_view v = {.dtype = t, .rank = shape->rank};
    int order[QC_RANK_MAX];
    int64_t step = 1, begin = 0;
    for (int i = 0; i < v.rank; i++) order[i] = i;
    for (int i = v.rank; i > 1; i--) {
        const int k = (int)pick(i), keep = order[i - 1];
        order[i - 1] = order[k];
        order[k] = keep;
    }
    for (int i = 0; i < v.rank; i++) {
        const int d = order[i];
        v.dim[d] = shape->dim[d];
        if (pick(6) == 0) step += 1;
        v.stride[d] = step;
        step *= v.dim[d] ? v.dim[d] : 1;
        if (pick(5) == 0 && v.dim[d] > 0) {
            begin += (v.dim[d] - 1) * v.stride[d];
            v.stride[d] = -v.stride[d];
        }
    }
    cr_assert(step + begin < ROOM);
    v.data = (char *)room + begin * (int64_t)qc_dtype_size(t);
    return v;
}

static int64_t offset_of(const struct qc_view *v, size_t i)
{
    int64_t at = 0;
    for (int d = v->rank; d-- > 0; i /= (size_t)v->dim[d]) at += (int64_t)(i % (size_t)v->dim[d]) * v->stride[d];
    return at;
}

static struct qc_shape random_shape(void)
{
    struct qc_shape s = {.rank = (int)pick(6)};
    for (int i = 0; i < s.rank; i++) s.dim[i] = pick(8) == 0 ? 1 : 1 + pick(s.rank < 3 ? 40 : 6);
    return s;
}

Test(view, copies_between_any_strides)
{
    static const enum qc_dtype types[] = {QC_U8, QC_I16, QC_F32, QC_I64};
    static int64_t a[ROOM], b[ROOM];
    for (int round = 0; round < 2000; round++) {
        const enum qc_dtype t = types[round % 4];
        const size_t size = qc_dtype_size(t);
        const struct qc_shape s = random_shape();
        const struct qc_view from = random_view(t, &s, a), to = random_view(t, &s, b);
        for (size_t i = 0; i < sizeof a; i++) ((uint8_t *)a)[i] = (uint8_t)(i * 37 + i / 251);
        memset(b, 0, sizeof b);
        qc_view_copy(&to, &from);
        for (size_t i = 0; i < qc_view_count(&from); i++)
            cr_assert_eq(memcmp((char *)to.data + offset_of(&to, i) * (int64_t)size,
                                (char *)from.data + offset_of(&from, i) * (int64_t)size, size),
                         0, "round %d element %zu", round, i);
    }
}

struct sum {
    size_t count;
    double total;
};

static void visit(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    struct sum *s = user;
    for (int64_t i = 0; i < n; i++) {
        s->total += (double)((float *)data[0])[i * stride[0]] * (double)((float *)data[1])[i * stride[1]];
        s->count++;
    }
}

Test(view, each_visits_every_element_once_and_broadcasts)
{
    static float a[ROOM], b[ROOM];
    for (int i = 0; i < ROOM; i++) {
        a[i] = (float)(i % 97);
        b[i] = (float)(i % 89);
    }
    for (int round = 0; round < 500; round++) {
        const struct qc_shape s = random_shape();
        struct qc_shape small = s;
        for (int i = 0; i < s.rank; i++)
            if (pick(3) == 0) small.dim[i] = 1;
        const struct qc_view x = random_view(QC_F32, &s, a), y = random_view(QC_F32, &small, b),
                             wide = qc_view_broadcast(&y, &x);
        const struct qc_view *const views[] = {&x, &wide};
        struct sum got = {0};
        double want = 0;
        qc_view_each(2, views, visit, &got);
        for (size_t i = 0; i < qc_view_count(&x); i++)
            want += (double)((float *)x.data)[offset_of(&x, i)] * (double)((float *)y.data)[offset_of(&wide, i)];
        cr_assert_eq(got.count, qc_view_count(&x));
        cr_assert_eq(got.total, want, "round %d", round); /* whole numbers: exact in any order */
    }
}

Test(view, knows_dense_and_row_major)
{
    float data[64];
    const struct qc_shape s = QC_SHAPE(2, 3, 4, 1), pixel = QC_SHAPE(2, 5, 1, 1);
    struct qc_view row = qc_view_of(QC_F32, &s, QC_LAYOUT_ROW, data),
                   last = qc_view_of(QC_F32, &s, QC_LAYOUT_LAST, data);
    cr_assert(qc_view_row_major(&row) && qc_view_dense(&row));
    cr_assert(!qc_view_row_major(&last) && qc_view_dense(&last) && !qc_view_same_order(&row, &last));
    struct qc_view one = qc_view_of(QC_F32, &pixel, QC_LAYOUT_LAST, data);
    cr_assert(qc_view_row_major(&one), "one pixel is in both orders");
    last.dim[2] = 2;
    cr_assert(!qc_view_dense(&last), "a window has gaps");
    struct qc_view empty = qc_view_of(QC_F32, &(struct qc_shape){.rank = 2, .dim = {0, 3}}, QC_LAYOUT_ROW, NULL);
    const struct qc_view *const views[] = {&empty};
    struct sum none = {0};
    qc_view_each(1, views, visit, &none);
    qc_view_copy(&empty, &empty);
    cr_assert_eq(none.count, 0);
}
