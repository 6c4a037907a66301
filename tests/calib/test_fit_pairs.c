// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "calib/ranges/fit_pairs.h"
#include "graph/text/text.h"

static const char text[] = "graph \"g\" opset 13\n"
                           "space @1 site \"w\" i8 symmetric weight restricted per_channel pairs 128 unbound\n"
                           "input %1 \"x\" f32[1,4]\n"
                           "output \"y\" %1\n";

/* Rows that need no other scale, twice the scale, and what rounding asks for; the scale of all is 1. */
static const struct {
    float row[4];
    float scale; /* at least, and at most a step of 1/512 more */
} rows[] = {
    {{127, 1, -127, -1}, 1},
    {{127, -127, 127, -127}, 1},
    {{1, 127, 127, 1}, 1},           /* 127 and 127 are in two pairs */
    {{127, 127, 0, 0}, 127 / 64.5F}, /* 64 and 64 */
    {{0, 0, -127, -2}, 127 / 126.5F},
    {{64, 65, 1, 1}, 65 / 64.5F},
};

Test(fit_pairs, scales_are_raised_as_little_as_needed)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_graph *g = NULL;
    enum { ROWS = sizeof rows / sizeof *rows };
    float scale[ROWS];
    const int32_t zero[ROWS] = {0};
    const struct qc_shape shape = QC_SHAPE(ROWS, 4);
    cr_assert(qc_graph_parse(&g, text, strlen(text), &st), "%s", st.message);
    cr_assert_eq(g->qparams_of[1].pair_limit, 128);
    struct qc_tensor *t = qc_tensor_new(QC_F32, &shape, &st);
    cr_assert(t);
    for (size_t i = 0; i < ROWS; i++) {
        memcpy((float *)t->data + 4 * i, rows[i].row, sizeof rows[i].row);
        scale[i] = 1;
    }
    const struct qc_pair_fit fit = {.g = g, .quantizer = 1, .weights = t, .axis = 0};
    size_t raised = 0, expected = 0;
    cr_assert(qc_fit_pairs(&raised, scale, zero, &fit, &st), "%s", st.message);
    for (size_t i = 0; i < ROWS; i++) {
        double most = 0;
        for (size_t k = 0; k < 4; k += 2) {
            const double a = nearbyint((double)rows[i].row[k] / (double)scale[i]),
                         b = nearbyint((double)rows[i].row[k + 1] / (double)scale[i]);
            most = fmax(most, fabs(a + b) > fabs(a - b) ? fabs(a + b) : 0);
        }
        cr_expect(most <= 128, "row %zu: %g", i, most);
        cr_expect(scale[i] >= 1 && (double)scale[i] <= (double)rows[i].scale * (1 + 2.0 / 512) + 1e-6,
                  "row %zu: scale %g, expected about %g", i, (double)scale[i], (double)rows[i].scale);
        expected += scale[i] > 1;
    }
    cr_expect(raised == expected && raised >= 2, "%zu raised", raised);
    qc_tensor_unref(t);
    qc_graph_free(g);
}
