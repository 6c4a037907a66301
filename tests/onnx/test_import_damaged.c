// SPDX-License-Identifier: Apache-2.0
/* Damaged files: every truncation and many fixed mutations of small valid models give a status or a graph. The build
   with sanitizers shows memory errors and leaks. */
#include "graph/core/verify.h"
#include "model_maker.h"
#include "onnx/write/emit.h"
#include "tests/check.h"

/* One convolution, one of each spelling that has code of its own, and a bit of everything in the messages around. */
static void small_model(struct maker *m, int opset)
{
    static const float w[18] = {1, 2, 3};
    maker_start(m, opset);
    maker_input(m, "x", "N", DIMS(-1, 1, 6, 6));
    maker_floats(m, "w", DIMS(2, 1, 3, 3), w);
    maker_floats(m, "b", DIMS(2), w);
    maker_node(m, "Conv", "conv", "x w b", "a");
    maker_int_list(m, "kernel_shape", LIST(3, 3));
    maker_int_list(m, "pads", LIST(1, 1, 1, 1));
    maker_node(m, "Relu", NULL, "a", "c");
    maker_node(m, "Clip", "clip", "c", "d");
    if (opset < 11) {
        maker_float(m, "min", 0);
        maker_float(m, "max", 6);
    }
    maker_node(m, "MaxPool", NULL, "d", "e");
    maker_int_list(m, "kernel_shape", LIST(2, 2));
    maker_text(m, "auto_pad", "SAME_UPPER");
    maker_ints(m, "shape", LIST(0, -1));
    maker_node(m, "Reshape", NULL, "e shape", "f");
    maker_ints(m, "axes", LIST(1));
    maker_node(m, "ReduceSum", NULL, opset < 13 ? "f" : "f axes", "g");
    if (opset < 13) maker_int_list(m, "axes", LIST(1));
    maker_node(m, "Softmax", "soft", "g", "y");
    maker_node(m, "Split", "split", "d", "s t");
    maker_int(m, "axis", 2);
    maker_node(m, "Transpose", NULL, "t", "z");
    maker_output(m, "y");
    maker_output(m, "z");
}

/* True when it is imported; what is imported must be a sound graph that can be written. */
static bool try_import(const unsigned char *bytes, size_t size)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_graph *g = NULL;
    /* A copy of the exact size, so that reading behind it is seen. */
    unsigned char *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    bool ok = qc_onnx_import_memory_with(&g, NULL, copy, size, NULL, &QC_IMPORT_INIT, &st);
    free(copy);
    cr_expect_eq(ok, st.code == QC_OK);
    if (!ok) {
        cr_expect_gt(strlen(st.message), 0);
        cr_expect_null(g);
        return false;
    }
    cr_expect(qc_graph_verify(g, &st), "%s", st.message);
    void *emitted = NULL;
    size_t n;
    cr_expect(qc_onnx_emit(&emitted, &n, g, NULL, &st), "%s", st.message);
    free(emitted);
    qc_graph_free(g);
    return true;
}

Test(damaged, every_truncation_is_refused)
{
    static const int opsets[] = {10, 13};
    for (size_t i = 0; i < sizeof opsets / sizeof *opsets; i++) {
        MAKER m;
        void *bytes;
        size_t size;
        small_model(&m, opsets[i]);
        maker_pack(&m, &bytes, &size);
        cr_expect(try_import(bytes, size), "the whole model is sound");
        for (size_t n = 0; n < size; n++) cr_expect_not(try_import(bytes, n), "%zu of %zu bytes were taken", n, size);
    }
}

/* xorshift64*: fixed, so that a failure comes again. */
static uint64_t next(uint64_t *s)
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * UINT64_C(2685821657736338717);
}

static void mutate(unsigned char *p, size_t *size, size_t capacity, uint64_t *seed)
{
    static const unsigned char edges[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0xfe, 0x08, 0x0a, 0x12, 0x3a};
    for (uint64_t k = 1 + next(seed) % 4; k; k--) {
        size_t at = (size_t)(next(seed) % *size), n = 1 + (size_t)(next(seed) % 8);
        switch (next(seed) % 5) {
        case 0: p[at] ^= (unsigned char)(1u << next(seed) % 8); break;
        case 1: p[at] = edges[next(seed) % sizeof edges]; break;
        case 2: p[at] = (unsigned char)next(seed); break;
        case 3: /* cut a few bytes out */
            if (n > *size - at || n >= *size) break;
            memmove(p + at, p + at + n, *size - at - n);
            *size -= n;
            break;
        case 4: /* repeat a few bytes */
            if (n > *size - at || *size + n > capacity) break;
            memmove(p + at + n, p + at, *size - at);
            *size += n;
            break;
        }
    }
}

Test(damaged, mutations_never_do_harm)
{
    uint64_t seed = 20240607;
    size_t taken = 0, refused = 0;
    for (int opset = 9; opset <= 18; opset += 3) {
        MAKER m;
        void *bytes;
        size_t size;
        small_model(&m, opset);
        maker_pack(&m, &bytes, &size);
        QC_FREED unsigned char *p = malloc(size + 64);
        for (int i = 0; i < 4000; i++) {
            size_t n = size;
            memcpy(p, bytes, size);
            mutate(p, &n, size + 64, &seed);
            *(try_import(p, n) ? &taken : &refused) += 1;
        }
    }
    /* Both kinds must occur, or the mutations are too weak or too strong to say anything. */
    cr_expect_gt(taken, 500, "%zu taken", taken);
    cr_expect_gt(refused, 5000, "%zu refused", refused);
}
