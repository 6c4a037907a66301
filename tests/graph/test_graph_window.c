// SPDX-License-Identifier: Apache-2.0
#include "graph/core/infer.h"
#include "graph_cases.h"
#include "tests/check.h"

/* Pads by hand from the formulas of ONNX Conv-11 and ConvTranspose-11: SAME_UPPER puts the odd one at the end. */
static const struct {
    const char *inputs, *node;
    int spatial;
    int64_t kernel, stride, dilation, begin, end, in, out; /* of the first spatial dimension */
} windows[] = {
    {"f32[N,3,32,32];f32[16,3,3,3]", "Conv(%1, %2) {pads=[1,1,1,1]}", 2, 3, 1, 1, 1, 1, 32, 32},
    {"f32[N,3,32,32];f32[16,3,3,3]", "Conv(%1, %2) {strides=[2,2], auto_pad=\"SAME_UPPER\"}", 2, 3, 2, 1, 0, 1, 32, 16},
    {"f32[N,3,32,32];f32[16,3,3,3]", "Conv(%1, %2) {strides=[2,2], auto_pad=\"SAME_LOWER\"}", 2, 3, 2, 1, 1, 0, 32, 16},
    {"f32[N,3,33,33];f32[16,3,3,3]", "Conv(%1, %2) {strides=[2,2], auto_pad=\"SAME_UPPER\"}", 2, 3, 2, 1, 1, 1, 33, 17},
    {"f32[N,3,9];f32[16,3,4]", "Conv(%1, %2) {dilations=[2], auto_pad=\"SAME_UPPER\"}", 1, 4, 1, 2, 3, 3, 9, 9},
    {"f32[N,3,9];f32[16,3,4]", "Conv(%1, %2) {auto_pad=\"SAME_LOWER\"}", 1, 4, 1, 1, 2, 1, 9, 9},
    {"f32[N,3,9];f32[16,3,1]", "Conv(%1, %2) {strides=[3], auto_pad=\"SAME_UPPER\"}", 1, 1, 3, 1, 0, 0, 9, 3},
    {"f32[N,3,9];f32[16,3,4]", "Conv(%1, %2) {pads=[2,2], auto_pad=\"VALID\"}", 1, 4, 1, 1, 0, 0, 9, 6},
    {"f32[N,3,N];f32[16,3,4]", "Conv(%1, %2) {auto_pad=\"SAME_UPPER\"}", 1, 4, 1, 1, 1, 2, QC_FREE, QC_FREE},
    {"f32[N,3,N];f32[16,3,4]", "Conv(%1, %2) {strides=[2], auto_pad=\"SAME_UPPER\"}", 1, 4, 2, 1, QC_FREE, QC_FREE,
     QC_FREE, QC_FREE},
    {"f32[1,3,5];f32[3,2,4]", "ConvTranspose(%1, %2) {strides=[2], auto_pad=\"SAME_UPPER\"}", 1, 4, 2, 1, 1, 1, 5, 10},
    {"f32[1,3,5];f32[3,2,3]", "ConvTranspose(%1, %2) {strides=[2], auto_pad=\"SAME_UPPER\"}", 1, 3, 2, 1, 0, 1, 5, 10},
    {"f32[1,3,5];f32[3,2,3]", "ConvTranspose(%1, %2) {strides=[2], auto_pad=\"SAME_LOWER\"}", 1, 3, 2, 1, 1, 0, 5, 10},
    {"f32[1,3,5];f32[3,2,3]", "ConvTranspose(%1, %2) {strides=[2], output_shape=[10]}", 1, 3, 2, 1, 1, 0, 5, 10},
    {"f32[1,3,3];f32[3,2,3]", "ConvTranspose(%1, %2) {strides=[3], output_shape=[10]}", 1, 3, 3, 1, 0, -1, 3, 10},
    {"f32[1,3,5]", "MaxPool(%1) {kernel_shape=[3], strides=[2], pads=[1,0], ceil_mode=1}", 1, 3, 2, 1, 1, 0, 5, 3},
    {"f32[1,3,7]", "MaxPool(%1) {kernel_shape=[1], strides=[2], auto_pad=\"SAME_UPPER\"}", 1, 1, 2, 1, 0, 0, 7, 4},
    {"f32[1,3,6];f32[3,3,1]", "Conv(%1, %2) {strides=[4], auto_pad=\"SAME_UPPER\"}", 1, 1, 4, 1, 0, 0, 6, 2},
    {"f32[1,3,7,9]", "GlobalAveragePool(%1)", 2, 7, 1, 1, 0, 0, 7, 1},
};

Test(window, padding_and_sizes_are_those_of_the_operator_documentation)
{
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        const struct graph_case c = {.inputs = windows[i].inputs, .node = windows[i].node, .expected = ""};
        QC_FREED char *text = graph_case_text(&c);
        OWN(qc_graph) *g = test_graph(text);
        struct qc_window w;
        MUST(qc_window_of(&w, g, &g->nodes[1], ST));
        cr_expect_eq(w.spatial, windows[i].spatial, "%s", windows[i].node);
        cr_expect_eq(w.kernel[0], windows[i].kernel, "%s", windows[i].node);
        cr_expect_eq(w.stride[0], windows[i].stride, "%s", windows[i].node);
        cr_expect_eq(w.dilation[0], windows[i].dilation, "%s", windows[i].node);
        cr_expect_eq(w.pad_begin[0], windows[i].begin, "%s: begin %ld", windows[i].node, (long)w.pad_begin[0]);
        cr_expect_eq(w.pad_end[0], windows[i].end, "%s: end %ld", windows[i].node, (long)w.pad_end[0]);
        cr_expect_eq(w.in[0], windows[i].in, "%s", windows[i].node);
        cr_expect_eq(w.out[0], windows[i].out, "%s: out %ld", windows[i].node, (long)w.out[0]);
    }
}

Test(window, flags_of_pools_are_there)
{
    OWN(qc_graph) *g = test_graph("graph\ninput %1 \"x\" f32[1,1,8]\n"
                                  "%2 = AveragePool(%1) {kernel_shape=[3], count_include_pad=1, ceil_mode=1}\n%3 = "
                                  "AveragePool(%1) {kernel_shape=[3]}\n");
    struct qc_window w;
    MUST(qc_window_of(&w, g, &g->nodes[1], ST));
    cr_expect(w.count_include_pad && w.ceil_mode);
    MUST(qc_window_of(&w, g, &g->nodes[2], ST));
    cr_expect(!w.count_include_pad && !w.ceil_mode);
}

/* Elements by hand, as numpy's x[start:end:step] selects them. */
static const struct {
    const char *inputs;
    int axis;
    int64_t start, step, count;
} slices[] = {
    {"f32[20,10];i64[2]={2,1};i64[2]={9,-1};i64[2]={0,1};i64[2]={1,3}", 0, 2, 1, 7},
    {"f32[20,10];i64[2]={2,1};i64[2]={9,-1};i64[2]={0,1};i64[2]={1,3}", 1, 1, 3, 3},
    {"f32[20,10];i64[1]={-3};i64[1]={9223372036854775807};i64[1]={-1};i64[1]={1}", 1, 7, 1, 3},
    {"f32[20,10];i64[1]={-3};i64[1]={9223372036854775807};i64[1]={-1};i64[1]={1}", 0, 0, 1, 20},
    {"f32[5];i64[1]={9223372036854775807};i64[1]={-9223372036854775808};i64[1]={0};i64[1]={-1}", 0, 4, -1, 5},
    {"f32[5];i64[1]={-1};i64[1]={-6};i64[1]={0};i64[1]={-2}", 0, 4, -2, 3},
    {"f32[5];i64[1]={-1};i64[1]={0};i64[1]={0};i64[1]={-2}", 0, 4, -2, 2},
    {"f32[5];i64[1]={3};i64[1]={3};i64[1]={0};i64[1]={1}", 0, 0, 1, 0},
    {"f32[5];i64[1]={-9223372036854775808};i64[1]={9223372036854775807};i64[1]={0};i64[1]={9223372036854775807}", 0, 0,
     1, 1},
    {"f32[5];i64[1]={4};i64[1]={-9223372036854775808};i64[1]={0};i64[1]={-9223372036854775808}", 0, 4, -1, 1},
    {"f32[0];i64[1]={-1};i64[1]={-9};i64[1]={0};i64[1]={-1}", 0, 0, -1, 0},
    {"f32[N,5];i64[1]={1};i64[1]={3};i64[1]={1};i64[1]={1}", 1, 1, 1, 2},
};

Test(window, slices_are_clamped_like_numpy)
{
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        const struct graph_case c = {.inputs = slices[i].inputs, .node = "Slice(%1, %2, %3, %4, %5)", .expected = ""};
        QC_FREED char *text = graph_case_text(&c);
        OWN(qc_graph) *g = test_graph(text);
        struct qc_slice s;
        int a = slices[i].axis;
        MUST(qc_slice_of(&s, g, &g->nodes[1], ST));
        cr_expect_eq(s.start[a], slices[i].start, "%s: start %ld", slices[i].inputs, (long)s.start[a]);
        cr_expect_eq(s.step[a], slices[i].step, "%s: step %ld", slices[i].inputs, (long)s.step[a]);
        cr_expect_eq(s.count[a], slices[i].count, "%s: count %ld", slices[i].inputs, (long)s.count[a]);
    }
}

Test(window, computed_or_free_slices_are_unsupported)
{
    static const char *const inputs[] = {"f32[5];i64[1];i64[1];i64[1];i64[1]",
                                         "f32[N];i64[1]={0};i64[1]={2};i64[1]={0};i64[1]={1}"};
    for (size_t i = 0; i < 2; i++) {
        const struct graph_case c = {.inputs = inputs[i], .node = "Slice(%1, %2, %3, %4, %5)", .expected = ""};
        QC_FREED char *text = graph_case_text(&c);
        OWN(qc_graph) *g = test_graph(text);
        struct qc_slice s;
        REFUSES(qc_slice_of(&s, g, &g->nodes[1], ST), QC_UNSUPPORTED, "");
    }
}

Test(window, axes_count_from_either_end)
{
    struct qc_status st = QC_STATUS_INIT;
    int axis = -9;
    cr_expect(qc_axis_of(&axis, 0, 1, &st) && axis == 0);
    cr_expect(qc_axis_of(&axis, -1, 4, &st) && axis == 3);
    cr_expect(qc_axis_of(&axis, -4, 4, &st) && axis == 0);
    cr_expect(!qc_axis_of(&axis, 4, 4, &st) && axis == 0);
    st = QC_STATUS_INIT;
    cr_expect(!qc_axis_of(&axis, INT64_MIN, 4, &st));
    cr_expect_eq(st.code, QC_BAD_INPUT);
    cr_expect(!qc_axis_of(&axis, 0, 0, &(struct qc_status){.code = QC_OK}));
}
