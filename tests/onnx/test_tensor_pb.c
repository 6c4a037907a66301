// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "onnx/read/proto.h"
#include "tensor_pb.h"
#include "tests/check.h"

static bool parse(struct qc_tensor **out, const Onnx__TensorProto *p, struct qc_status *st)
{
    size_t size = onnx__tensor_proto__get_packed_size(p);
    QC_FREED uint8_t *bytes = malloc(size + 1);
    onnx__tensor_proto__pack(p, bytes);
    bool ok = qc_tensor_pb_parse(out, bytes, size, st);
    return ok;
}

static Onnx__TensorProto tensor(int data_type, int64_t *dims, size_t rank)
{
    Onnx__TensorProto p = ONNX__TENSOR_PROTO__INIT;
    p.has_data_type = 1;
    p.data_type = data_type;
    p.dims = dims;
    p.n_dims = rank;
    return p;
}

static void expect_elements(const Onnx__TensorProto *p, enum qc_dtype dtype, const double *v)
{
    OWN(qc_tensor) *t = NULL;
    MUST(parse(&t, p, ST));
    cr_expect_eq(t->dtype, dtype);
    for (size_t i = 0; i < t->count; i++)
        cr_expect_eq(qc_tensor_float(t, i), v[i], "%s element %zu is %g", qc_dtype_info(dtype)->name, i,
                     qc_tensor_float(t, i));
}

static void expect_error(const Onnx__TensorProto *p, enum qc_code code, const char *text)
{
    struct qc_tensor *t = NULL;
    cr_expect_not(parse(&t, p, ST), "'%s' was expected", text);
    cr_expect_eq(failure.code, code, "code %d: %s", failure.code, failure.message);
    cr_expect_not_null(strstr(failure.message, text), "'%s' is not in: %s", text, failure.message);
    cr_expect_null(t);
}

/* Field of each type: onnx.proto, message TensorProto. */
Test(tensor_pb, typed_fields_of_every_type)
{
    int64_t dims[1] = {3};
    static const struct {
        int data_type;
        enum qc_dtype dtype;
        int32_t stored[3];
        double v[3];
    } rows[] = {
        {2, QC_U8, {0, 255, 7}, {0, 255, 7}},
        {3, QC_I8, {-128, 127, 0}, {-128, 127, 0}},
        {4, QC_U16, {65535, 0, 1}, {65535, 0, 1}},
        {5, QC_I16, {-32768, 32767, 1}, {-32768, 32767, 1}},
        {6, QC_I32, {INT32_MIN, INT32_MAX, 0}, {INT32_MIN, INT32_MAX, 0}},
        {9, QC_BOOL, {0, 1, 5}, {0, 1, 1}},
        {10, QC_F16, {0x3c00, 0xc000, 0x0001}, {1, -2, 0x1p-24}},
        {16, QC_BF16, {0x3f80, 0xc000, 0x7f00}, {1, -2, 0x1p127}},
        {21, QC_U4, {0xf8, 0x03, 0}, {8, 15, 3}},
        {22, QC_I4, {0xf8, 0x03, 0}, {-8, -1, 3}},
        {25, QC_U2, {0x1b, 0, 0}, {3, 2, 1}},
        {26, QC_I2, {0x1b, 0, 0}, {-1, -2, 1}},
        {23, QC_F4E2M1, {0xf8, 0x03, 0}, {-0.0, -6, 1.5}},
        {17, QC_F8E4M3, {0x38, 0xc4, 0x7e}, {1, -3, 448}},
        {24, QC_F8E8M0, {0x7f, 0x80, 0x7d}, {1, 2, 0.25}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Onnx__TensorProto p = tensor(rows[i].data_type, dims, 1);
        p.int32_data = (int32_t *)(uintptr_t)rows[i].stored;
        const unsigned each = 8 / qc_dtype_info(rows[i].dtype)->bits; /* in a byte */
        p.n_int32_data = each > 1 ? (3 + each - 1) / each : 3;
        expect_elements(&p, rows[i].dtype, rows[i].v);
    }
    Onnx__TensorProto p = tensor(9, dims, 1);
    p.has_raw_data = true;
    p.raw_data = (ProtobufCBinaryData){.len = 3, .data = (uint8_t[]){0, 1, 7}};
    expect_elements(&p, QC_BOOL, (const double[]){0, 1, 1});
    p = tensor(1, dims, 1);
    float f[3] = {1.5f, -0.25f, 3e38f};
    p.float_data = f;
    p.n_float_data = 3;
    expect_elements(&p, QC_F32, (const double[]){1.5, -0.25, (double)3e38f});
    p = tensor(11, dims, 1);
    double d[3] = {1e300, -1, 0};
    p.double_data = d;
    p.n_double_data = 3;
    expect_elements(&p, QC_F64, d);
    p = tensor(7, dims, 1);
    int64_t l[3] = {-5, 1ll << 40, 0};
    p.int64_data = l;
    p.n_int64_data = 3;
    expect_elements(&p, QC_I64, (const double[]){-5, 0x1p40, 0});
    p = tensor(13, dims, 1);
    uint64_t u[3] = {0, 1ull << 63, 5};
    p.uint64_data = u;
    p.n_uint64_data = 3;
    expect_elements(&p, QC_U64, (const double[]){0, 0x1p63, 5});
    u[1] = UINT32_MAX;
    p.data_type = 12;
    expect_elements(&p, QC_U32, (const double[]){0, 4294967295.0, 5});
    u[1]++;
    expect_error(&p, QC_BAD_INPUT, "outside u32");
}

Test(tensor_pb, wrong_counts_types_and_shapes_are_refused)
{
    int64_t dims[9] = {3, 1, 1, 1, 1, 1, 1, 1, 1};
    int32_t v[3] = {1, 300, 2};
    uint8_t raw[3] = {1, 2, 3};
    Onnx__TensorProto p = tensor(3, dims, 1);
    p.int32_data = v;
    p.n_int32_data = 2;
    expect_error(&p, QC_BAD_INPUT, "int32_data has 2 elements, but its shape needs 3");
    p.n_int32_data = 3;
    expect_error(&p, QC_BAD_INPUT, "element 1 is 300");
    p.data_type = 21;
    dims[0] = 5;
    expect_error(&p, QC_BAD_INPUT, "outside a byte");
    dims[0] = 3;
    p.data_type = 8;
    expect_error(&p, QC_UNSUPPORTED, "string");
    p.data_type = 99;
    expect_error(&p, QC_UNSUPPORTED, "data type 99");
    p.data_type = -7;
    expect_error(&p, QC_UNSUPPORTED, "data type -7");
    p = tensor(1, dims, 1);
    p.has_raw_data = 1;
    p.raw_data.len = 3;
    p.raw_data.data = raw;
    expect_error(&p, QC_BAD_INPUT, "raw_data has 3 bytes, but its shape needs 12");
    p.n_dims = 9;
    expect_error(&p, QC_UNSUPPORTED, "9 dimensions");
    p.n_dims = 1;
    dims[0] = -1;
    expect_error(&p, QC_BAD_INPUT, "dimension 0 is -1");
    dims[0] = dims[1] = 1ll << 40;
    p.n_dims = 2;
    expect_error(&p, QC_BAD_INPUT, "more elements");
    dims[1] = 1 << 22;
    expect_error(&p, QC_BAD_INPUT, "more bytes");
    dims[1] = 1; /* 4 TB asked for, 3 bytes there: refused before memory is taken */
    expect_error(&p, QC_BAD_INPUT, "raw_data has 3 bytes");
    p.data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    p.has_data_location = 1;
    expect_error(&p, QC_BAD_INPUT, "external data");
}

Test(tensor_pb, bytes_that_are_no_tensor)
{
    struct qc_tensor *t = NULL;
    cr_expect_not(qc_tensor_pb_parse(&t, "", 0, ST));
    FAILS(qc_tensor_pb_parse(&t, "hello, world", 12, ST), "not an ONNX tensor");
    cr_expect_not(qc_tensor_pb_parse(&t, "\x08\x03", 2, ST), "dims only");
    SHOULD(strstr(failure.message, "no data type"));
}

Test(tensor_pb, printed_tensors_read_back)
{
    const struct qc_shape shape = QC_SHAPE(3, 1, 5);
    for (int k = QC_NONE + 1; k < QC_DTYPE_COUNT; k++) {
        const enum qc_dtype dtype = (enum qc_dtype)k;
        OWN(qc_tensor) *t = qc_tensor_new(dtype, &shape, ST), *u = NULL;
        QC_FREED void *bytes = NULL;
        size_t size;
        for (size_t i = 0; i < t->bytes; i++)
            ((uint8_t *)t->data)[i] = (uint8_t)(dtype == QC_BOOL || dtype == QC_I2 ? i % 2
                                                : dtype == QC_U2                   ? i % 4
                                                : qc_dtype_info(dtype)->bits == 4  ? i % 8
                                                                                   : i * 37);
        if (dtype == QC_I4) ((int8_t *)t->data)[14] = -8;
        if (dtype == QC_I2) ((int8_t *)t->data)[13] = -2;
        MUST(qc_tensor_pb_print(&bytes, &size, "t", t, ST));
        MUST(qc_tensor_pb_parse(&u, bytes, size, ST));
        cr_expect(qc_tensor_equal(t, u), "%s", qc_dtype_info(dtype)->name);
    }
}

/* ONNX's node test quantizelinear: x = 0 2 3 1000 -254 -1000, scale 2, zero point 128. */
Test(tensor_pb, files_of_the_conformance_tests)
{
    static const double x[] = {0, 2, 3, 1000, -254, -1000}, q[] = {128, 129, 130, 255, 1, 0};
    const char *data = getenv("QCALIB_DATA");
    char path[1024];
    struct qc_tensor *t;
    void *bytes;
    size_t size;
    if (!data || !*data) cr_skip_test("QCALIB_DATA is not set");
    for (int k = 0; k < 2; k++) {
        snprintf(path, sizeof path, "%s/conformance/onnx123_node_quant/test_quantizelinear/test_data_set_0/%s_0.pb",
                 data, k ? "output" : "input");
        MUST(qc_file_read(&bytes, &size, path, test_arena(), ST) && qc_tensor_pb_parse(&t, bytes, size, ST));
        cr_expect_eq(t->dtype, k ? QC_U8 : QC_F32);
        cr_assert_eq(t->count, 6);
        for (size_t i = 0; i < 6; i++) cr_expect_eq(qc_tensor_float(t, i), k ? q[i] : x[i]);
        qc_tensor_unref(t);
    }
}
