// SPDX-License-Identifier: Apache-2.0
#include "tests/check.h"
#include "tflite/flatbuffer/flatbuffer_build.h"
#include "tflite/flatbuffer/flatbuffer_read.h"

/* A schema of its own: a node with numbers of every size, a string, vectors, children and one of two shapes. */
enum { NONE, NODE, CIRCLE, SQUARE, TABLES };
enum { NAME, SMALL, WIDE, REAL, BYTES, LONGS, NODES, ONE, KIND, SHAPE, RADIUS, SIDE, FIELDS };
static const struct qc_fb_field fields[FIELDS] = {
    [NAME] = {.name = "name", .table = NODE, .number = 0, .type = QC_FB_STRING},
    [SMALL] = {.name = "small", .table = NODE, .number = 1, .type = QC_FB_I8, .value = 3},
    [WIDE] = {.name = "wide", .table = NODE, .number = 2, .type = QC_FB_I64},
    [REAL] = {.name = "real", .table = NODE, .number = 3, .type = QC_FB_F32, .value = 0.5},
    [BYTES] = {.name = "bytes", .table = NODE, .number = 4, .type = QC_FB_U8, .vector = true},
    [LONGS] = {.name = "longs", .table = NODE, .number = 5, .type = QC_FB_I64, .vector = true},
    [NODES] = {.name = "nodes", .table = NODE, .number = 6, .type = QC_FB_TABLES, .child = NODE},
    [ONE] = {.name = "one", .table = NODE, .number = 7, .type = QC_FB_TABLE, .child = NODE},
    [KIND] = {.name = "shape_type", .table = NODE, .number = 8, .type = QC_FB_U8},
    [SHAPE] = {.name = "shape", .table = NODE, .number = 9, .type = QC_FB_UNION},
    [RADIUS] = {.name = "radius", .table = CIRCLE, .number = 0, .type = QC_FB_I32},
    [SIDE] = {.name = "side", .table = SQUARE, .number = 0, .type = QC_FB_I32},
};
static const struct qc_fb_table_info tables[TABLES] = {
    [NONE] = {.name = "none"},
    [NODE] = {.name = "Node", .first = NAME},
    [CIRCLE] = {.name = "Circle", .in_union = 1, .first = RADIUS},
    [SQUARE] = {.name = "Square", .in_union = 2, .first = SIDE},
};
static const struct qc_fb_schema schema =
    FIELDS(.table_count = TABLES, .field_count = FIELDS, .tables = tables, .fields = fields);

static const unsigned char bytes[5] = {1, 2, 3, 4, 5};
static const int64_t longs[2] = {-1, INT64_MIN};

static struct qc_fb_object *leaf(struct qc_fb_builder *b, const char *name)
{
    struct qc_fb_object *o = qc_fb_make(b, NODE);
    qc_fb_set_string(o, NAME, name);
    qc_fb_set_vector(o, BYTES, bytes, sizeof bytes, 16);
    return o;
}

/* A file with one of everything, and `more` equal leaves. */
static size_t build(void **file, struct qc_arena *a, size_t more)
{
    struct qc_fb_builder *b = qc_fb_builder_new(&schema, a, ST);
    struct qc_fb_object *root = qc_fb_make(b, NODE), *square = qc_fb_make(b, SQUARE),
                        **nodes = QC_NEW_ARRAY(a, struct qc_fb_object *, more, ST);
    for (size_t i = 0; i < more; i++) nodes[i] = leaf(b, "leaf");
    qc_fb_set_int(square, SIDE, -7);
    qc_fb_set_int(root, SMALL, -128);
    qc_fb_set_int(root, WIDE, INT64_C(1) << 40);
    qc_fb_set_float(root, REAL, 0.1F);
    qc_fb_set_vector(root, LONGS, longs, 2, 8);
    qc_fb_set_children(root, NODES, nodes, more);
    qc_fb_set_child(root, ONE, leaf(b, "one"));
    qc_fb_set_child(root, SHAPE, square);
    size_t size = 0;
    MUST(qc_fb_finish(file, &size, b, root, "TEST", ST));
    return size;
}

Test(flatbuffer_build, the_verifier_takes_a_file_and_every_field_comes_back)
{
    struct qc_fb_table root;
    QC_FREED void *file = NULL;
    const size_t size = build(&file, test_arena(), 3);
    MUST(qc_fb_open(&root, &schema, NODE, file, size, ST));
    cr_expect_eq(memcmp((const char *)file + 4, "TEST", 4), 0);
    cr_expect_str_eq(qc_fb_string(&root, NAME), "");
    cr_expect_eq(qc_fb_int(&root, SMALL), -128);
    cr_expect_eq(qc_fb_int(&root, WIDE), INT64_C(1) << 40);
    cr_expect_eq(qc_fb_float(&root, REAL), 0.1F);
    const struct qc_fb_vector two = qc_fb_vector(&root, LONGS), nodes = qc_fb_vector(&root, NODES);
    cr_assert_eq(two.count, 2);
    cr_expect_eq(qc_fb_vector_int(&two, 0), -1);
    cr_expect_eq(qc_fb_vector_int(&two, 1), INT64_MIN);
    cr_expect_eq(two.at % 8, 0);
    cr_assert_eq(nodes.count, 3);
    const struct qc_fb_table last = qc_fb_vector_table(&nodes, 2), one = qc_fb_child(&root, ONE),
                             square = qc_fb_child(&root, SHAPE);
    cr_expect_str_eq(qc_fb_string(&last, NAME), "leaf");
    cr_expect_str_eq(qc_fb_string(&one, NAME), "one");
    const struct qc_fb_vector five = qc_fb_vector(&one, BYTES);
    cr_assert_eq(five.count, sizeof bytes);
    cr_expect_eq(memcmp(qc_fb_vector_bytes(&five), bytes, sizeof bytes), 0);
    cr_expect_eq(five.at % 16, 0);
    cr_expect_eq(qc_fb_int(&root, KIND), 2);
    cr_expect_eq(qc_fb_int(&square, SIDE), -7);
}

Test(flatbuffer_build, numbers_of_8_bytes_are_aligned_in_the_file)
{
    QC_FREED void *file = NULL;
    const size_t size = build(&file, test_arena(), 1);
    const unsigned char *f = file;
    size_t found = 0;
    for (size_t i = 0; i + 8 <= size; i++)
        if (memcmp(f + i, (const unsigned char[]){0, 0, 0, 0, 0, 1, 0, 0}, 8) == 0 && i % 8 == 0) found++;
    cr_expect_eq(found, 1);
}

Test(flatbuffer_build, defaults_take_no_room_and_what_is_equal_is_stored_once)
{
    QC_FREED void *few = NULL, *many = NULL, *none = NULL;
    const size_t size = build(&few, test_arena(), 1), more = build(&many, test_arena(), 101);
    /* A table of two offsets has 12 bytes, and 4 point at it: 100 vtables, strings and vectors are not there. */
    cr_expect_eq(more - size, 100 * (12 + 4));
    struct qc_fb_builder *b = qc_fb_builder_new(&schema, test_arena(), ST);
    struct qc_fb_object *o = qc_fb_make(b, NODE);
    size_t empty = 0;
    qc_fb_set_int(o, SMALL, 3);
    qc_fb_set_float(o, REAL, 0.5F);
    MUST(qc_fb_finish(&none, &empty, b, o, "TEST", ST));
    cr_expect_eq(empty, 8 + 4 + 4);
}

Test(flatbuffer_build, equal_tables_give_equal_bytes)
{
    QC_FREED void *one = NULL, *two = NULL;
    const size_t size = build(&one, test_arena(), 9);
    cr_assert_eq(build(&two, test_arena(), 9), size);
    cr_expect_eq(memcmp(one, two, size), 0);
}

Test(flatbuffer_build, a_vector_of_the_same_bytes_but_less_aligned_does_not_take_its_place)
{
    struct qc_fb_builder *b = qc_fb_builder_new(&schema, test_arena(), ST);
    struct qc_fb_object *root = qc_fb_make(b, NODE), *inner = qc_fb_make(b, NODE);
    struct qc_fb_table read;
    QC_FREED void *file = NULL;
    size_t size = 0;
    qc_fb_set_vector(root, BYTES, bytes, sizeof bytes, 1);
    qc_fb_set_vector(inner, BYTES, bytes, sizeof bytes, 16);
    qc_fb_set_child(root, ONE, inner);
    MUST(qc_fb_finish(&file, &size, b, root, "TEST", ST));
    MUST(qc_fb_open(&read, &schema, NODE, file, size, ST));
    const struct qc_fb_table child = qc_fb_child(&read, ONE);
    cr_expect_eq(qc_fb_vector(&child, BYTES).at % 16, 0);
}

Test(flatbuffer_build, without_a_root_there_is_no_file)
{
    struct qc_fb_builder *b = qc_fb_builder_new(&schema, test_arena(), ST);
    void *file = NULL;
    size_t size = 0;
    REFUSES(qc_fb_finish(&file, &size, b, NULL, "TEST", ST), QC_BAD_INPUT, "");
    cr_expect_null(file);
}
