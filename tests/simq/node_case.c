// SPDX-License-Identifier: Apache-2.0
#include "node_case.h"

#include "../onnx/tensor_pb.h"
#include "tests/check.h"

/* Numbers of fields of onnx.proto. */
enum {
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    OPSET_VERSION = 2
};

/* A walk over the fields of a protobuf message; enough to see names, so that the test does not lean on what it tests.
 */
struct field {
    uint64_t number, value;
    const unsigned char *start; /* of the field with its key */
    const unsigned char *data;  /* of a length-delimited field, else NULL */
    size_t size;
    const unsigned char *next, *end;
};

static bool varint(uint64_t *out, struct field *f)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && f->next < f->end; shift += 7) {
        const unsigned char byte = *f->next++;
        v |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128)) {
            *out = v;
            return true;
        }
    }
    return false;
}

static struct field fields_of(const unsigned char *data, size_t size)
{
    return (struct field){.next = data, .end = data ? data + size : data};
}

static bool next_field(struct field *f)
{
    uint64_t key, n;
    f->data = NULL;
    f->size = 0;
    f->start = f->next;
    if (f->next >= f->end || !varint(&key, f)) return false;
    f->number = key >> 3;
    switch (key & 7) {
    case 0: return varint(&f->value, f);
    case 1: n = 8; break;
    case 5: n = 4; break;
    case 2:
        if (!varint(&n, f)) return false;
        break;
    default: return false;
    }
    if (n > (uint64_t)(f->end - f->next)) return false;
    if ((key & 7) == 2) f->data = f->next;
    f->size = (size_t)n;
    f->next += n;
    return true;
}

/* The field of that number as text; "" when there is none. Owned. */
static char *text_of(const unsigned char *data, size_t size, uint64_t number)
{
    struct field f = fields_of(data, size);
    while (next_field(&f))
        if (f.number == number && f.data) return strndup((const char *)f.data, f.size);
    return strdup("");
}

/* Inputs whose value decides a shape, or that kernels want at plan time. */
static bool decides(const char *op, unsigned input)
{
    static const struct {
        const char *op;
        unsigned inputs; /* bit set */
    } table[] = {
        {"Reshape", 1U << 1},       {"Expand", 1U << 1},   {"Tile", 1U << 1},       {"Slice", 15U << 1},
        {"Pad", 1U << 1 | 1U << 3}, {"Squeeze", 1U << 1},  {"Unsqueeze", 1U << 1},  {"Split", 1U << 1},
        {"Resize", 7U << 1},        {"Upsample", 1U << 1}, {"ConstantOfShape", 1U}, {"Range", 7U},
        {"CumSum", 1U << 1},        {"Dropout", 3U << 1},  {"HannWindow", 1U},      {"HammingWindow", 1U},
        {"BlackmanWindow", 1U},     {"CenterCropPad", 2U}, {"AffineGrid", 2U},
    };
    if (strncmp(op, "Reduce", 6) == 0) return input == 1;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].op, op) == 0) return table[i].inputs >> input & 1;
    return false;
}

static void read_node(struct node_case *c, const unsigned char *data, size_t size)
{
    char *op = text_of(data, size, 4), *domain = text_of(data, size, 7);
    struct field f = fields_of(data, size);
    unsigned input = 0;
    while (next_field(&f)) {
        if (f.number != 1 || !f.data) continue;
        for (size_t i = 0; i < c->input_count; i++)
            if (decides(op, input) && strlen(c->input_names[i]) == f.size &&
                memcmp(c->input_names[i], f.data, f.size) == 0)
                c->bound[i] = true;
        input++;
    }
    if (c->op_count < NODE_CASE_OPS) {
        char *full = op;
        if (*domain && (full = malloc(strlen(domain) + strlen(op) + 2))) sprintf(full, "%s:%s", domain, op);
        if (full != op) free(op);
        c->ops[c->op_count++] = full;
    } else {
        free(op);
    }
    free(domain);
}

static void read_graph(struct node_case *c, const unsigned char *data, size_t size)
{
    struct field f = fields_of(data, size);
    while (next_field(&f))
        if (f.number == GRAPH_INPUT && f.data && c->input_count < NODE_CASE_PORTS)
            c->input_names[c->input_count++] = text_of(f.data, f.size, 1);
    f = fields_of(data, size);
    while (next_field(&f))
        if (f.number == GRAPH_NODE && f.data) read_node(c, f.data, f.size);
}

static bool read_file(unsigned char **out, size_t *size, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    unsigned char *data = NULL;
    size_t n = 0, room = 0;
    for (;;) {
        if (n == room) {
            room = room ? 2 * room : 1 << 16;
            unsigned char *more = realloc(data, room);
            if (!more) break;
            data = more;
        }
        const size_t got = fread(data + n, 1, room - n, f);
        if (!got) break;
        n += got;
    }
    fclose(f);
    *out = data;
    *size = n;
    return data != NULL;
}

struct bytes {
    unsigned char *data;
    size_t size;
    bool failed;
};

static void put(struct bytes *b, const void *data, size_t size)
{
    unsigned char *more = size ? realloc(b->data, b->size + size) : b->data;
    if (size && !more) b->failed = true;
    if (!size || !more) return;
    memcpy(more + b->size, data, size);
    b->data = more;
    b->size += size;
}

static void put_varint(struct bytes *b, uint64_t v)
{
    for (; v >= 128; v >>= 7) put(b, &(unsigned char){(unsigned char)(v | 128)}, 1);
    put(b, &(unsigned char){(unsigned char)v}, 1);
}

static void put_message(struct bytes *b, unsigned number, const void *data, size_t size)
{
    put_varint(b, number << 3 | 2);
    put_varint(b, size);
    put(b, data, size);
}

/* The graph with bound inputs as initializers, and for some ops with the first output alone (what the others hold,
   masks and statistics of training, no graph of ours has). */
static struct bytes changed_graph(const struct node_case *c, const unsigned char *data, size_t size)
{
    static const char *const first_only[] = {"Dropout", "MaxPool"};
    bool first = false;
    for (size_t i = 0; i < sizeof first_only / sizeof *first_only; i++)
        first = first || (c->op_count == 1 && strcmp(c->ops[0], first_only[i]) == 0);
    struct bytes b = {0};
    struct field f = fields_of(data, size);
    for (bool had_output = false; next_field(&f);) {
        if (!(f.number == GRAPH_OUTPUT && first && had_output)) put(&b, f.start, (size_t)(f.next - f.start));
        had_output = had_output || f.number == GRAPH_OUTPUT;
    }
    for (size_t i = 0; i < c->input_count; i++) {
        QC_FREED void *tensor = NULL;
        size_t n;
        struct qc_status st = QC_STATUS_INIT;
        if (!c->bound[i]) continue;
        if (!qc_tensor_pb_print(&tensor, &n, c->input_names[i], c->inputs[i], &st)) {
            b.failed = true;
            continue;
        }
        put_message(&b, GRAPH_INITIALIZER, tensor, n);
    }
    return b;
}

/* Opsets below 7 become 7: the operators of these tests have not changed between the two. */
static bool change_model(struct node_case *c)
{
    struct bytes b = {0};
    struct field f = fields_of(c->model, c->model_size);
    while (next_field(&f)) {
        if (f.number == MODEL_GRAPH && f.data) {
            struct bytes g = changed_graph(c, f.data, f.size);
            put_message(&b, MODEL_GRAPH, g.data, g.size);
            b.failed = b.failed || g.failed;
            free(g.data);
        } else if (f.number == MODEL_OPSET && f.data) {
            struct bytes o = {0};
            struct field v = fields_of(f.data, f.size);
            while (next_field(&v)) {
                if (v.number != OPSET_VERSION)
                    put(&o, v.start, (size_t)(v.next - v.start));
                else
                    put_varint(&o, OPSET_VERSION << 3), put_varint(&o, v.value < 7 ? 7 : v.value);
            }
            put_message(&b, MODEL_OPSET, o.data, o.size);
            b.failed = b.failed || o.failed;
            free(o.data);
        } else {
            put(&b, f.start, (size_t)(f.next - f.start));
        }
    }
    free(c->model);
    c->model = b.data;
    c->model_size = b.size;
    return !b.failed;
}

static size_t read_tensors(struct qc_tensor **to, bool *readable, const char *folder, const char *kind)
{
    size_t n = 0;
    for (; n < NODE_CASE_PORTS; n++) {
        char path[4096];
        QC_FREED unsigned char *bytes = NULL;
        size_t size;
        struct qc_status st = QC_STATUS_INIT;
        snprintf(path, sizeof path, "%s/test_data_set_0/%s_%zu.pb", folder, kind, n);
        if (!read_file(&bytes, &size, path)) break;
        if (size && !qc_tensor_pb_parse(&to[n], bytes, size, &st))
            *readable = false; /* a sequence, an optional, strings */
    }
    return n;
}

bool node_case_read(struct node_case **out, const char *folder, enum node_case_form form, struct qc_status *st)
{
    char path[4096];
    struct node_case *c = calloc(1, sizeof *c);
    if (!c) return qc_fail_memory(st, sizeof *c);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (!read_file(&c->model, &c->model_size, path)) {
        node_case_free(c);
        return qc_fail(st, QC_BAD_INPUT, "%s: cannot be read", path);
    }
    struct field f = fields_of(c->model, c->model_size);
    while (next_field(&f))
        if (f.number == MODEL_GRAPH && f.data) read_graph(c, f.data, f.size);
    c->readable = true;
    const size_t given = read_tensors(c->inputs, &c->readable, folder, "input");
    c->output_count = read_tensors(c->outputs, &c->readable, folder, "output");
    if (given > c->input_count || !c->output_count) c->readable = false;
    bool range = false; /* how many numbers it gives depends on its inputs, which may be computed */
    for (size_t i = 0; i < c->op_count; i++) range = range || strcmp(c->ops[i], "Range") == 0;
    for (size_t i = 0; i < c->input_count; i++) c->bound[i] = (c->bound[i] || range) && c->inputs[i];
    if (form == NODE_CASE_AS_IS || change_model(c)) {
        *out = c;
        return true;
    }
    node_case_free(c);
    return qc_fail(st, QC_MACHINE, "out of memory");
}

void node_case_free(struct node_case *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->op_count; i++) free(c->ops[i]);
    for (size_t i = 0; i < NODE_CASE_PORTS; i++) {
        free(c->input_names[i]);
        qc_tensor_unref(c->inputs[i]);
        qc_tensor_unref(c->outputs[i]);
    }
    free(c->model);
    free(c);
}

double node_case_tolerance(const char *name)
{
    return strstr(name, "window") || strstr(name, "gridsample") || strstr(name, "roialign") ? 1e-3 : 0;
}

const char *node_case_out_of_scope(const char *name)
{
    static const struct {
        const char *name, *why;
    } list[] = {
#define QC_OUT(name, why) {name, why},
#include "conformance_out.def"
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const size_t n = strlen(list[i].name);
        if (list[i].name[n - 1] == '*' ? strncmp(list[i].name, name, n - 1) == 0 : strcmp(list[i].name, name) == 0)
            return list[i].why;
    }
    return NULL;
}

struct qc_tensor node_case_as(const struct qc_tensor *stored, enum qc_dtype declared)
{
    struct qc_tensor t = *stored;
    if (stored->dtype == QC_U16 && declared == QC_BF16) t.dtype = QC_BF16;
    return t;
}
