// SPDX-License-Identifier: Apache-2.0
#include "tests/check.h"
#include "tflite/flatbuffer/flatbuffer_read.h"

/* A schema of its own: a person with a name, an age, marks, friends and one of two pets. */
enum { NONE, PERSON, CAT, DOG, TABLES };
enum { NAME, AGE, MARKS, FRIENDS, PET_KIND, PET, LIVES, FIELDS };
static const struct qc_fb_field fields[FIELDS] = {
    [NAME] = {.name = "name", .table = PERSON, .number = 0, .type = QC_FB_STRING},
    [AGE] = {.name = "age", .table = PERSON, .number = 1, .type = QC_FB_I32, .value = 30},
    [MARKS] = {.name = "marks", .table = PERSON, .number = 2, .type = QC_FB_F32, .vector = true},
    [FRIENDS] = {.name = "friends", .table = PERSON, .number = 3, .type = QC_FB_TABLES, .child = PERSON},
    [PET_KIND] = {.name = "pet_type", .table = PERSON, .number = 4, .type = QC_FB_U8},
    [PET] = {.name = "pet", .table = PERSON, .number = 5, .type = QC_FB_UNION},
    [LIVES] = {.name = "lives", .table = CAT, .number = 0, .type = QC_FB_I8, .value = 9},
};
static const struct qc_fb_table_info tables[TABLES] = {
    [NONE] = {.name = "none"},
    [PERSON] = {.name = "Person", .first = NAME},
    [CAT] = {.name = "Cat", .in_union = 1, .first = LIVES},
    [DOG] = {.name = "Dog", .in_union = 2, .first = FIELDS},
};
static const struct qc_fb_schema schema =
    FIELDS(.table_count = TABLES, .field_count = FIELDS, .tables = tables, .fields = fields);

/* Ann, 33, with marks 1 and 2.5, a cat of 7 lives and herself as a friend of a friend that has nothing. */
static const unsigned char ann[] = {
    24,  0,   0,   0,   'T', 'E', 'S', 'T',                              /* 0: root at 24 */
    16,  0,   28,  0,   4,   0,   8,   0,   12, 0, 16, 0,  20, 0, 24, 0, /* 8: vtable of Ann */
    16,  0,   0,   0,   24,  0,   0,   0,   33, 0, 0,  0,  24, 0, 0,  0, /* 24: name at 52, age, marks at 60 */
    32,  0,   0,   0,   1,   0,   0,   0,   40, 0, 0,  0,                /* 40: friends at 72, kind of pet, pet at 88 */
    3,   0,   0,   0,   'A', 'n', 'n', 0,                                /* 52 */
    2,   0,   0,   0,   0,   0,   128, 63,  0,  0, 32, 64,               /* 60 */
    1,   0,   0,   0,   20,  0,   0,   0,                                /* 72: a friend at 96 */
    6,   0,   5,   0,   4,   0,   0,   0, /* 80: vtable of the cat, and of what is empty */
    8,   0,   0,   0,   7,   0,   0,   0, /* 88: the cat */
    252, 255, 255, 255, 4,   0,   4,   0, /* 96: the friend, whose vtable is behind it */
};

static bool open_bytes(struct qc_fb_table *root, const unsigned char *bytes, size_t size, struct qc_status *st)
{
    *st = QC_STATUS_INIT;
    return qc_fb_open(root, &schema, PERSON, bytes, size, st);
}

Test(flatbuffer_read, fields_are_read_and_absent_ones_have_their_default)
{
    struct qc_status st;
    struct qc_fb_table root;
    cr_assert(open_bytes(&root, ann, sizeof ann, &st), "%s", st.message);
    cr_expect_str_eq(qc_fb_string(&root, NAME), "Ann");
    cr_expect_eq(qc_fb_int(&root, AGE), 33);
    const struct qc_fb_vector marks = qc_fb_vector(&root, MARKS), friends = qc_fb_vector(&root, FRIENDS);
    cr_assert_eq(marks.count, 2);
    cr_expect_eq(qc_fb_vector_float(&marks, 0), 1.0F);
    cr_expect_eq(qc_fb_vector_float(&marks, 1), 2.5F);
    const struct qc_fb_table cat = qc_fb_child(&root, PET);
    cr_expect_eq(qc_fb_int(&cat, LIVES), 7);
    cr_assert_eq(friends.count, 1);
    const struct qc_fb_table other = qc_fb_vector_table(&friends, 0);
    cr_expect_str_eq(qc_fb_string(&other, NAME), "");
    cr_expect_eq(qc_fb_int(&other, AGE), 30);
    cr_expect_eq(qc_fb_vector(&other, MARKS).count, 0);
    const struct qc_fb_table none = qc_fb_child(&other, PET);
    cr_expect_eq(none.at, 0);
    cr_expect_eq(qc_fb_int(&none, LIVES), 9);
}

Test(flatbuffer_read, damage_is_refused_with_its_place)
{
    static const struct {
        size_t at;
        unsigned char value;
        const char *message;
    } cases[] = {
        {0, 200, "Person: begins outside of the file"},
        {24, 0xF0, "Person: has its vtable outside of the file"},
        {10, 0xF0, "Person: is longer than the file"},
        {8, 3, "Person: has its vtable outside of the file"},
        {12, 26, "Person.name: lies outside of its table"},
        {12, 2, "Person.name: lies outside of its table"},
        {28, 0xF0, "Person.name: begins outside of the file"},
        {52, 4, "Person.name: has no end"},
        {55, 1, "Person.name: is longer than the file"},
        {60, 0xF0, "Person.marks: is longer than the file"},
        {72, 0x40, "Person.friends: is longer than the file"},
        {76, 0xF0, "Person.friends[0]: begins outside of the file"},
        {48, 0xF0, "Person.pet: begins outside of the file"},
        {88, 0xF8, "Person.pet: has its vtable outside of the file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char copy[sizeof ann];
        struct qc_status st;
        struct qc_fb_table root;
        memcpy(copy, ann, sizeof ann);
        copy[cases[i].at] = cases[i].value;
        cr_assert(!open_bytes(&root, copy, sizeof copy, &st), "byte %zu", cases[i].at);
        cr_expect_eq(st.code, QC_BAD_INPUT);
        cr_expect_eq(strncmp(st.message, cases[i].message, strlen(cases[i].message)), 0, "byte %zu: %s", cases[i].at,
                     st.message);
    }
}

Test(flatbuffer_read, a_table_inside_itself_is_refused)
{
    unsigned char copy[sizeof ann];
    struct qc_status st;
    struct qc_fb_table root;
    const uint32_t back = (uint32_t)(24 - 76);
    memcpy(copy, ann, sizeof ann);
    memcpy(copy + 76, &back, sizeof back);
    cr_assert(!open_bytes(&root, copy, sizeof copy, &st));
    cr_expect_eq(st.code, QC_BAD_INPUT);
}

/* Many lists that share one table take time in proportion to the file, not to their product. */
Test(flatbuffer_read, no_more_tables_than_the_file_has_room_for)
{
    enum { FRIENDS_COUNT = 1000, SIZE = 64 + 4 * FRIENDS_COUNT };
    QC_FREED unsigned char *bytes = calloc(1, SIZE);
    struct qc_status st;
    struct qc_fb_table root;
    cr_assert_not_null(bytes);
    memcpy(bytes, (const unsigned char[]){24, 0, 0, 0, 'T', 'E', 'S', 'T'}, 8);
    memcpy(bytes + 8, (const unsigned char[]){12, 0, 8, 0, 0, 0, 0, 0, 0, 0, 4, 0}, 12); /* friends alone */
    bytes[24] = 16;
    bytes[28] = 4; /* the list at 32 */
    bytes[32] = FRIENDS_COUNT % 256;
    bytes[33] = FRIENDS_COUNT / 256;
    for (size_t i = 0; i < FRIENDS_COUNT; i++) {
        const uint32_t back = (uint32_t)(24 - (36 + 4 * i)); /* each is the one who has them */
        memcpy(bytes + 36 + 4 * i, &back, sizeof back);
    }
    cr_assert(!open_bytes(&root, bytes, SIZE, &st));
}

Test(flatbuffer_read, every_truncation_is_refused)
{
    for (size_t n = 0; n < sizeof ann; n++) {
        struct qc_status st;
        struct qc_fb_table root;
        QC_FREED unsigned char *copy = malloc(n ? n : 1);
        cr_assert_not_null(copy);
        memcpy(copy, ann, n);
        cr_expect(!open_bytes(&root, copy, n, &st), "%zu bytes", n);
    }
}
