// SPDX-License-Identifier: Apache-2.0
/* Inside tflite/read: a model on its way into a graph. */
#pragma once

#include "graph/core/graph.h"
#include "tflite/flatbuffer/flatbuffer_read.h"
#include "tflite/read/tflite_import.h"
#include "tflite/schema/tflite_schema.h"

/* Order of the axes of a value: as in the file, or of four axes with the channels first. */
enum qc_tfl_layout { QC_TFL_IN_FILE, QC_TFL_CHANNELS_FIRST, QC_TFL_LAYOUTS };

struct qc_tfl_value {
    size_t index;
    const char *name;
    enum qc_dtype dtype;
    struct qc_shape shape;                              /* as in the file; the first dimension may be free */
    bool stale_shape;                                   /* it is not said by the file */
    bool fixed_inside;                                  /* the file says all dimensions but the first */
    struct qc_fb_vector scales, zeros;                  /* of quantization */
    bool quantized;                                     /* scales say how its integers are read */
    int axis;                                           /* of several scales */
    const uint8_t *data;                                /* of a constant, checked to fit; else NULL */
    bool dequantized;                                   /* a constant whose stored integers are not asked for */
    qc_id stored[QC_TFL_LAYOUTS], real[QC_TFL_LAYOUTS]; /* values of the graph; 0: not made */
};

struct qc_tfl_lines {
    size_t count, capacity;
    const char **lines;
};

struct qc_tfl_reader {
    struct qc_arena *arena; /* dies with the import */
    struct qc_graph *g;
    struct qc_fb_table model, subgraph;
    const uint8_t *bytes;
    size_t size;
    size_t value_count;
    struct qc_tfl_value *values;
    struct qc_tfl_lines notes, warnings; /* in the graph's arena */
};

enum { QC_TFL_ATTRS = 12 };

/* An operator on its way. */
struct qc_tfl_node {
    struct qc_tfl_reader *r;
    const struct qc_tfl_operator_info *info;
    struct qc_fb_table options;
    enum qc_op op;           /* of the row */
    const char *name;        /* of its first result: TensorFlow Lite's operators have none */
    const char *stored_name; /* of the integers of that */
    size_t input_count, output_count;
    struct qc_tfl_value **inputs, **outputs; /* inputs: NULL where one is left out */
    unsigned attr_count;
    struct qc_attr attrs[QC_TFL_ATTRS]; /* for the next node that is added */
};

/* How an operator becomes ours; op: the one that it becomes, or the main one of several. */
typedef bool qc_tfl_form(struct qc_tfl_node *n, struct qc_status *st);
struct qc_tfl_row {
    enum qc_tfl_operator code;
    qc_tfl_form *form;
    enum qc_op op;
};
/* end with form NULL */
extern const struct qc_tfl_row qc_tfl_layer_rows[], qc_tfl_element_rows[], qc_tfl_axis_rows[], qc_tfl_shape_rows[],
    qc_tfl_made_rows[];

/* --- Values (read_values.c) --- */

/* Reads tensors of the subgraph. Errors: types, shapes, scales and data that do not fit. */
bool qc_tfl_read_values(struct qc_tfl_reader *r, struct qc_status *st);

/* Elements of a sparse constant of `shape`, `each` bytes long, in row-major order (read_sparse.c). Errors: its indices
   do not fit its shape or data. */
bool qc_tfl_dense_data(const uint8_t **out, size_t *size, struct qc_tfl_reader *r, const struct qc_fb_table *sparsity,
                       const struct qc_shape *shape, size_t each, const uint8_t *data, size_t data_size,
                       struct qc_status *st);

/* The stored value, or what it stands for, in an order of axes; CHANNELS_FIRST only of four axes. 0 and a status on
   failure: it is used before it is made. */
qc_id qc_tfl_stored(struct qc_tfl_node *n, struct qc_tfl_value *v, enum qc_tfl_layout layout, struct qc_status *st);
qc_id qc_tfl_real(struct qc_tfl_node *n, struct qc_tfl_value *v, enum qc_tfl_layout layout, struct qc_status *st);
/* A constant of another shape and order: the axes of `shape` by perm (NULL: as they are); of a quantized one what it
   stands for. scale: NULL, or scales[scale_count] instead of its own (zero points 0), along axis `axis` of the result.
 */
struct qc_tfl_scales {
    size_t count;
    const float *scale;
};
qc_id qc_tfl_constant(struct qc_tfl_node *n, const struct qc_tfl_value *v, const struct qc_shape *shape,
                      const int64_t *perm, const struct qc_tfl_scales *other, struct qc_status *st);
/* The result k of the operator: from stored integers, or from a real value that is quantized where it has parameters.
 */
bool qc_tfl_define_stored(struct qc_tfl_node *n, size_t k, qc_id id, enum qc_tfl_layout layout, struct qc_status *st);
bool qc_tfl_define_real(struct qc_tfl_node *n, size_t k, qc_id id, enum qc_tfl_layout layout, struct qc_status *st);
/* Result 0 is the constant x, which is read as it stands for from then on. */
bool qc_tfl_alias(struct qc_tfl_node *n, const struct qc_tfl_value *x, struct qc_status *st);
/* The same behind the fused activation of the options. */
bool qc_tfl_finish(struct qc_tfl_node *n, qc_id id, enum qc_tfl_layout layout, struct qc_status *st);

/* --- Operators (read_node.c) --- */

bool qc_tfl_read_operators(struct qc_tfl_reader *r, struct qc_status *st);

/* Input i. Errors: it is missing. */
struct qc_tfl_value *qc_tfl_input(struct qc_tfl_node *n, size_t i, struct qc_status *st);
static inline bool qc_tfl_has_input(const struct qc_tfl_node *n, size_t i)
{
    return i < n->input_count && n->inputs[i];
}
/* A number of the options, by the field's name; its default where the operator has no options. */
int64_t qc_tfl_option(const struct qc_tfl_node *n, const char *field);
float qc_tfl_option_float(const struct qc_tfl_node *n, const char *field);
/* Integers of constant input i, in the arena. Errors: it is computed. */
bool qc_tfl_ints(int64_t **out, size_t *count, struct qc_tfl_node *n, size_t i, const char *what, struct qc_status *st);
/* Height and width of the image that the operator makes: of constant input i, where they are `from` on, or as the file
   has the result. Errors: neither says them. */
bool qc_tfl_image_size(int64_t size[2], struct qc_tfl_node *n, size_t i, size_t from, struct qc_status *st);
/* Shape of a value of the graph. */
const struct qc_shape *qc_tfl_shape(const struct qc_tfl_node *n, qc_id id);
/* Are integers of a and b read alike, or is neither read at all? */
bool qc_tfl_alike(const struct qc_tfl_value *a, const struct qc_tfl_value *b);

/* For the next node. */
void qc_tfl_attr(struct qc_tfl_node *n, struct qc_attr a);
/* ints [count], kept in the arena; left out where all are `none`. */
bool qc_tfl_attr_ints(struct qc_tfl_node *n, const char *name, size_t count, const int64_t *v, int64_t none,
                      struct qc_status *st);
/* Adds a node with these attributes; name: of its result, may be NULL; with that of the operator's result the node has
   it too. 0 and a status on failure. */
qc_id qc_tfl_add(struct qc_tfl_node *n, enum qc_op op, unsigned count, const qc_id *in, const char *name,
                 struct qc_status *st);
qc_id qc_tfl_add_results(struct qc_tfl_node *n, enum qc_op op, unsigned count, const qc_id *in, unsigned results,
                         struct qc_status *st);
qc_id qc_tfl_transpose(struct qc_tfl_node *n, qc_id id, size_t rank, const int64_t *perm, const char *name,
                       struct qc_status *st);
qc_id qc_tfl_reshape(struct qc_tfl_node *n, qc_id id, size_t rank, const int64_t *dims, struct qc_status *st);
qc_id qc_tfl_cast(struct qc_tfl_node *n, qc_id id, enum qc_dtype to, struct qc_status *st);
/* Constants. */
qc_id qc_tfl_int_list(struct qc_tfl_node *n, size_t count, const int64_t *v, struct qc_status *st);
qc_id qc_tfl_number(struct qc_tfl_node *n, float v, struct qc_status *st);

/* Axes of four: where axis i of the file is with channels first, and the other way round. */
extern const int64_t qc_tfl_to_first[4], qc_tfl_to_file[4];
/* Axis of a value with `rank` axes as the file counts it (negative: from the end), in this layout. Errors: there is no
   such axis. */
bool qc_tfl_axis(int64_t *out, int64_t axis, int rank, enum qc_tfl_layout layout, struct qc_status *st);
/* In which order an operator computes that may do so in any: CHANNELS_FIRST where an input of four axes is known in
   that one alone, and the others can follow. */
enum qc_tfl_layout qc_tfl_layout_of(const struct qc_tfl_node *n);
/* Input i for such an operator, what it stands for: fewer axes are lined up with the last ones. */
qc_id qc_tfl_operand(struct qc_tfl_node *n, size_t i, enum qc_tfl_layout layout, struct qc_status *st);

bool qc_tfl_line(struct qc_tfl_reader *r, struct qc_tfl_lines *to, struct qc_status *st, const char *fmt, ...)
    QC_PRINTF(4, 5);
