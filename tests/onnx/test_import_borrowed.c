// SPDX-License-Identifier: Apache-2.0
/* Initializers in a model's own file: messages are unpacked without copying them, and those of a large model stay in
   the file. */
#include "base/resident.h"
#include "model_maker.h"
#include "tests/check.h"

enum { MIB = 1 << 20, SIDE = 512, COUNT = SIDE * SIDE, BYTES = COUNT * 4, TENSORS = 20, NAME = 32 };

static void set_raw(Onnx__TensorProto *t, const void *bytes, size_t size)
{
    t->n_float_data = 0;
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)bytes};
}

/* Names of different lengths, so that the bytes behind them lie at all alignments; the maker keeps the pointers. */
struct names {
    char of[TENSORS][NAME];
};

/* y = x + w0 + w1 + ..., each of 1 MiB. */
static void make_sum(struct maker *m, struct names *names, const float *numbers)
{
    maker_start(m, 13);
    maker_input(m, "x", NULL, DIMS(SIDE, SIDE));
    for (int i = 0; i < TENSORS; i++) {
        char *name = names->of[i], inputs[3 * NAME], result[NAME];
        snprintf(name, NAME, "w%d%.*s", i, i % 5, "aaaa");
        set_raw(maker_floats(m, name, DIMS(SIDE, SIDE), numbers), numbers + i, BYTES);
        if (i)
            snprintf(inputs, sizeof inputs, "sum%d %.31s", i, name);
        else
            snprintf(inputs, sizeof inputs, "x %.31s", name);
        snprintf(result, NAME, i + 1 < TENSORS ? "sum%d" : "y", i + 1);
        maker_node(m, "Add", NULL, inputs, result);
    }
    maker_output(m, "y");
}

Test(import_borrowed, large_initializers_stay_in_files_whatever_their_alignment)
{
    char path[] = "/tmp/qcalib_own_XXXXXX";
    QC_FREED float *numbers = malloc(BYTES + TENSORS * 4);
    struct maker m;
    struct names names;
    void *bytes;
    size_t size, in_place = 0;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE); /* where a file of its own begins */
    OWN(qc_graph) *g = NULL;
    const int fd = mkstemp(path);
    cr_assert(fd >= 0 && numbers);
    for (int i = 0; i < COUNT + TENSORS; i++) numbers[i] = (float)(i % 1013);
    make_sum(&m, &names, numbers);
    maker_pack(&m, &bytes, &size);
    FILE *f = fdopen(fd, "wb");
    cr_assert(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
    maker_stop(&m);
    /* Not even half of the model may be in memory. */
    const struct qc_import_options o = {.memory_limit = qc_resident_bytes() + TENSORS / 2 * MIB};
    MUST(qc_onnx_import_with(&g, NULL, path, &o, ST));
    unlink(path);
    for (int i = 0; i < TENSORS; i++) {
        const char *name = names.of[i];
        const struct qc_tensor *t = qc_constant_of(g, qc_graph_find_value(g, name));
        cr_assert_not_null(t, "%s", name);
        cr_expect_not_null(t->map, "%s is in memory", name);
        cr_expect_eq((uintptr_t)t->data % sizeof(float), 0, "%s", name);
        in_place += (uintptr_t)t->data % page != 0;
        cr_expect(memcmp(t->data, numbers + i, BYTES) == 0, "%s", name);
    }
    cr_expect(in_place > 0 && in_place < TENSORS, "%zu of %d stay where they are", in_place, TENSORS);
}

/* Bytes that are as long as the numbers that stand for those left out, one less and one more; and of an attribute. */
Test(import_borrowed, short_raw_data_and_those_of_attributes_are_the_bytes_of_the_file)
{
    static const float v[3] = {1.5f, -2.25f, 3};
    static const uint8_t small[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    MAKER m;
    char name[10][NAME], result[10][NAME];
    maker_start(&m, 13);
    maker_input(&m, "x", NULL, DIMS(3));
    for (int n = 7; n <= 9; n++) {
        snprintf(name[n], NAME, "c%d", n);
        snprintf(result[n], NAME, "y%d", n);
        Onnx__TensorProto *t = maker_floats(&m, name[n], DIMS(n), (float[9]){0});
        t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8;
        set_raw(t, small, (size_t)n);
        maker_node(&m, "Identity", NULL, name[n], result[n]);
        maker_output(&m, result[n]);
    }
    maker_node(&m, "Constant", NULL, "", "k");
    Onnx__TensorProto *t = maker_floats(&m, "t", DIMS(3), v);
    m.graph.n_initializer--; /* of the attribute alone */
    set_raw(t, v, sizeof v);
    maker_tensor(&m, "value", t);
    maker_node(&m, "Add", NULL, "x k", "y");
    maker_output(&m, "y");
    OWN(qc_graph) *g = maker_graph(&m);
    for (int n = 7; n <= 9; n++) {
        const struct qc_tensor *c = qc_constant_of(g, g->outputs[n - 7].value);
        cr_assert_not_null(c, "%d", n);
        cr_expect(c->bytes == (size_t)n && memcmp(c->data, small, (size_t)n) == 0, "%d", n);
    }
    const struct qc_tensor *k = qc_constant_of(g, graph_node(g, "y")->inputs[1]);
    cr_expect(k && k->count == 3 && memcmp(k->data, v, sizeof v) == 0);
}
