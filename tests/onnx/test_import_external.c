// SPDX-License-Identifier: Apache-2.0
/* Weights in external files: large ones stay there. */
#include "model_maker.h"
#include "onnx/write/emit.h"
#include "tests/check.h"

enum { SIDE = 160, COUNT = SIDE * SIDE, BYTES = COUNT * 4, TEXT = 512 };

struct folder {
    char name[64], model[TEXT], weights[TEXT];
    float *numbers; /* of the file: COUNT and one more, so that there is an offset for every alignment */
};

static void folder_start(struct folder *d)
{
    strcpy(d->name, "/tmp/qcalib_external_XXXXXX");
    cr_assert_not_null(mkdtemp(d->name));
    snprintf(d->model, TEXT, "%s/m.onnx", d->name);
    snprintf(d->weights, TEXT, "%s/w.bin", d->name);
    cr_assert_not_null(d->numbers = malloc(BYTES + 4));
    for (int i = 0; i <= COUNT; i++) d->numbers[i] = (float)(i % 1009);
    write_file(d->weights, d->numbers, BYTES + 4);
}

static void folder_stop(struct folder *d)
{
    free(d->numbers);
    unlink(d->model);
    unlink(d->weights);
    cr_expect_eq(rmdir(d->name), 0, "files were left behind");
}

struct place {
    const char *name, *offset;
};

/* y = x + the sum of weights of that size, at these places in the file. */
static bool import_places(struct qc_graph **g, const struct folder *d, const struct place *places, int count,
                          struct qc_status *st)
{
    enum { MOST = 4 };
    MAKER m;
    static char location[] = "location", file[] = "w.bin", offset[] = "offset";
    Onnx__StringStringEntryProto entry[MOST][2], *entries[MOST][2];
    void *bytes;
    size_t size;
    maker_start(&m, 13);
    maker_input(&m, "x", NULL, DIMS(SIDE, SIDE));
    for (int i = 0; i < count; i++) {
        char nodes[TEXT], result[TEXT];
        Onnx__TensorProto *t = maker_floats(&m, places[i].name, DIMS(SIDE, SIDE), d->numbers);
        t->n_float_data = 0;
        t->has_data_location = 1;
        t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
        t->n_external_data = 2;
        t->external_data = entries[i];
        for (int k = 0; k < 2; k++) onnx__string_string_entry_proto__init(entries[i][k] = &entry[i][k]);
        entry[i][0].key = location;
        entry[i][0].value = file;
        entry[i][1].key = offset;
        entry[i][1].value = (char *)(uintptr_t)places[i].offset;
        if (i)
            snprintf(nodes, TEXT, "sum%d %s", i, places[i].name);
        else
            snprintf(nodes, TEXT, "x %s", places[i].name);
        snprintf(result, TEXT, i + 1 < count ? "sum%d" : "y", i + 1);
        maker_node(&m, "Add", NULL, nodes, result);
    }
    maker_output(&m, "y");
    maker_pack(&m, &bytes, &size);
    write_file(d->model, bytes, size);
    const bool ok = qc_onnx_import_with(g, NULL, d->model, &QC_IMPORT_INIT, st);
    return ok;
}

static const struct qc_tensor *constant(const struct qc_graph *g, const char *name)
{
    const struct qc_tensor *t = qc_constant_of(g, qc_graph_find_value(g, name));
    cr_assert_not_null(t, "%s", name);
    return t;
}

Test(import_external, large_weights_stay_in_their_file)
{
    static const struct place places[] = {{"w", "0"}, {"v", "4"}};
    struct folder d;
    struct qc_graph *g;
    folder_start(&d);
    MUST(import_places(&g, &d, places, 2, ST));
    const struct qc_tensor *w = constant(g, "w"), *v = constant(g, "v");
    cr_expect_not_null(w->map, "copied");
    cr_expect_eq(w->map, v->map, "one file, one map");
    cr_expect_eq((const float *)w->data + 1, v->data, "what overlaps is not there twice");
    HOLD(memcmp(w->data, d.numbers, BYTES) == 0, memcmp(v->data, d.numbers + 1, BYTES) == 0, g->external_data);
    /* Weights that overlap count once: what may be taken follows from the files. */
    cr_expect_lt(g->budget.model_bytes, (size_t)BYTES + 4096);
    qc_graph_free(g);
    folder_stop(&d);
}

Test(import_external, what_is_not_aligned_is_copied)
{
    static const struct place place[] = {{"w", "2"}};
    struct folder d;
    struct qc_graph *g;
    folder_start(&d);
    MUST(import_places(&g, &d, place, 1, ST));
    const struct qc_tensor *w = constant(g, "w");
    cr_expect_null(w->map);
    cr_expect_eq(memcmp(w->data, (const char *)d.numbers + 2, BYTES), 0);
    qc_graph_free(g);
    folder_stop(&d);
}

Test(import_external, weights_behind_the_end_are_refused)
{
    static const char *const offsets[] = {"8", "1000000000", "9223372036854775804"};
    struct folder d;
    folder_start(&d);
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        const struct place places[] = {{"w", "0"}, {"v", offsets[i]}};
        struct qc_graph *g;
        REFUSES_ROW(offsets[i], import_places(&g, &d, places, 2, ST), QC_BAD_INPUT, "");
        SHOULD(strstr(failure.message, "tensor 'v'") && strstr(failure.message, "too short"));
    }
    folder_stop(&d);
}

/* Whoever gave weights beside the model gets them beside the model, however small. The file that was read is another
   one afterwards, and what was read from it stays. */
Test(import_external, weights_beside_the_model_stay_beside_it)
{
    static const struct place place[] = {{"w", "0"}};
    struct folder d;
    char data[TEXT];
    struct qc_graph *g, *h;
    size_t bytes = 0;
    folder_start(&d);
    MUST(import_places(&g, &d, place, 1, ST));
    MUST(qc_onnx_emit_file(&bytes, d.model, g, NULL, ST));
    cr_expect_gt(bytes, BYTES);
    snprintf(data, TEXT, "%s/m.onnx.data", d.name);
    unlink(d.weights);
    cr_expect_eq(memcmp(constant(g, "w")->data, d.numbers, BYTES), 0);
    MUST(qc_onnx_import_with(&h, NULL, d.model, &QC_IMPORT_INIT, ST));
    cr_expect(h->external_data);
    cr_expect_not_null(constant(h, "w")->map);
    cr_expect_eq(memcmp(constant(h, "w")->data, d.numbers, BYTES), 0);
    qc_graph_free(h);
    qc_graph_free(g);
    cr_expect_eq(unlink(data), 0);
    folder_stop(&d);
}
