// SPDX-License-Identifier: Apache-2.0
/* Internal to tflite/read: state of the import of a model into a graph. */
#pragma once

#include "base/array.h"
#include "base/index.h"
#include "base/words.h"
#include "graph/core/graph.h"
#include "tflite/flatbuffer/flatbuffer_read.h"
#include "tflite/read/tflite_import.h"
#include "tflite/schema/tflite_schema.h"

/* Layout of a value: the order of axes in the file, or channels first (values with four axes). */
enum qc_tfl_layout { QC_TFL_IN_FILE, QC_TFL_CHANNELS_FIRST, QC_TFL_LAYOUTS };

/* A variable of the file: a state that is kept from run to run. */
struct qc_tfl_variable {
    const char *name;
    const struct qc_tfl_value *as; /* a tensor that is read from it or assigned; NULL: none yet */
    qc_id now;                     /* its value; 0: neither read nor assigned yet */
    bool assigned;
};

struct qc_tfl_value {
    size_t index;
    const char *name, *input_name, *output_name; /* the latter two: of the signature, or NULL */
    enum qc_dtype dtype;
    struct qc_shape shape;                              /* as in the file; the first dimension may be free */
    bool stale_shape;                                   /* the file's shape is not binding and is not checked */
    bool fixed_inside;                                  /* the file gives all dimensions but the first */
    struct qc_fb_vector scales, zeros;                  /* of quantization */
    bool quantized;                                     /* its integers have qparams */
    int axis;                                           /* axis of the scales if there are several */
    const uint8_t *data;                                /* data of a constant; otherwise NULL */
    size_t data_size;                                   /* checked, unless the constant is sparse */
    struct qc_fb_table sparsity;                        /* of a sparse constant, whose data are its leaves */
    bool dequantized;                                   /* a constant that only DEQUANTIZE reads */
    bool is_state;                                      /* the state of a recurrent operator */
    bool complex;                                       /* the last axis of `shape` has both parts of each number */
    struct qc_tfl_variable *variable;                   /* of a handle; otherwise NULL */
    qc_id stored[QC_TFL_LAYOUTS], real[QC_TFL_LAYOUTS]; /* values of the graph; 0: not created */
};

/* A constant of the graph by its place in the file. Several tensors may share the place. */
struct qc_tfl_stored {
    const uint8_t *data;
    size_t sparsity;
    enum qc_dtype dtype;
    bool narrow;
    struct qc_shape shape;
    int64_t perm[QC_RANK_MAX];
    qc_id id;
};

/* What the readers of all subgraphs share. A few bytes of a file can refer to a large part of it, any number of times,
   so the bytes that are read by reference and the bytes of constants are counted and limited by the file's size. */
struct qc_tfl_import {
    size_t size;                     /* of the file */
    size_t referred, made;           /* bytes that were read by reference; bytes of constants */
    size_t inlined;                  /* operators and tensors of graphs inside of operators */
    struct qc_lines notes, warnings; /* in the graph's arena */
    struct qc_texts variable_names;  /* number k: variables[k - 1] */
    size_t variable_count, variable_capacity;
    struct qc_tfl_variable **variables;
    struct qc_index stored_index; /* freed at the end of the import */
    size_t stored_count, stored_capacity;
    struct qc_tfl_stored *stored; /* id k of the index: stored[k - 1] */
};

struct qc_tfl_reader {
    struct qc_arena *arena; /* freed at the end of the import */
    struct qc_graph *g;
    struct qc_tfl_import *all;
    struct qc_fb_table model, subgraph;
    const uint8_t *bytes;
    size_t size;
    size_t value_count;
    struct qc_tfl_value *values;
    unsigned depth; /* of graphs inside of operators */
};

enum { QC_TFL_ATTRS = 12 };

/* An operator that is being imported. */
struct qc_tfl_node {
    struct qc_tfl_reader *r;
    const struct qc_tfl_operator_info *info;
    struct qc_fb_table options;
    enum qc_op op;           /* operator of the row */
    const char *name;        /* name of its first result: TensorFlow Lite's operators have none */
    const char *stored_name; /* name of the integers of that result */
    size_t input_count, output_count;
    struct qc_tfl_value **inputs, **outputs; /* an omitted input is NULL */
    unsigned attr_count;
    struct qc_attr attrs[QC_TFL_ATTRS]; /* attributes of the next node that is added */
};

/* Converts an operator. The row's op is the operator that it becomes, or the main one of several; QC_OP_COUNT: it
   becomes none. */
typedef bool qc_tfl_form(struct qc_tfl_node *n, struct qc_status *st);
struct qc_tfl_row {
    enum qc_tfl_operator code;
    qc_tfl_form *form;
    enum qc_op op;
};
/* The operators that have no outputs. */
qc_tfl_form qc_tfl_assign_variable, qc_tfl_call_once;
/* The absolute value, the real or the imaginary part of complex numbers. */
qc_tfl_form qc_tfl_complex_part;
/* Each list ends with a row whose form is NULL. */
extern const struct qc_tfl_row qc_tfl_layer_rows[], qc_tfl_element_rows[], qc_tfl_axis_rows[], qc_tfl_shape_rows[],
    qc_tfl_made_rows[], qc_tfl_state_rows[];

/* --- Values (read_values.c) --- */

/* Reads the tensors of the subgraph. Fails if a type, shape, scale or size of data is invalid. Sparse constants are
   checked at their first use. */
bool qc_tfl_read_values(struct qc_tfl_reader *r, struct qc_status *st);

/* Count the bytes of a name, list or vector at each reference, and those of a constant when it is made. Fail if they
   exceed a multiple of the file's size. */
bool qc_tfl_refer(struct qc_tfl_reader *r, size_t count, size_t each, struct qc_status *st);

/* Gives the elements of a sparse constant in row-major order in `a` (read_sparse.c). Fails if its indices do not fit
   its shape or data. */
bool qc_tfl_dense_data(const uint8_t **out, struct qc_arena *a, const struct qc_tfl_value *v, struct qc_status *st);

/* Return the stored value, or its real value, in a layout; CHANNELS_FIRST requires four axes. Return 0 with a status
   if the tensor is read before an operator computes it, and 0 for v NULL: a missing input flows through. */
qc_id qc_tfl_stored(struct qc_tfl_node *n, struct qc_tfl_value *v, enum qc_tfl_layout layout, struct qc_status *st);
qc_id qc_tfl_real(struct qc_tfl_node *n, struct qc_tfl_value *v, enum qc_tfl_layout layout, struct qc_status *st);
/* Returns a constant, dequantized, in another shape and order: the axes of `shape`, permuted by perm unless it is NULL.
   scale: NULL, or scales along axis `axis` of the result that replace its own, with zero points of 0. */
struct qc_tfl_scales {
    size_t count;
    const float *scale;
};
qc_id qc_tfl_constant(struct qc_tfl_node *n, const struct qc_tfl_value *v, const struct qc_shape *shape,
                      const int64_t *perm, const struct qc_tfl_scales *other, struct qc_status *st);
/* Define result k of the operator: from stored integers, or from a real value, which is quantized if the tensor has
   qparams. */
bool qc_tfl_define_stored(struct qc_tfl_node *n, size_t k, qc_id id, enum qc_tfl_layout layout, struct qc_status *st);
bool qc_tfl_define_real(struct qc_tfl_node *n, size_t k, qc_id id, enum qc_tfl_layout layout, struct qc_status *st);
/* Makes result 0 the dequantized constant x. */
bool qc_tfl_alias(struct qc_tfl_node *n, const struct qc_tfl_value *x, struct qc_status *st);
/* Defines result 0 from the real value `id` after the fused activation in the options. */
bool qc_tfl_finish(struct qc_tfl_node *n, qc_id id, enum qc_tfl_layout layout, struct qc_status *st);

/* --- Operators (read_node.c) --- */

bool qc_tfl_read_operators(struct qc_tfl_reader *r, struct qc_status *st);
/* Adds the outputs of variables that are assigned (read_control.c). */
bool qc_tfl_add_variables(struct qc_tfl_reader *r, struct qc_status *st);

/* Returns input i. Fails if it is missing. */
struct qc_tfl_value *qc_tfl_input(struct qc_tfl_node *n, size_t i, struct qc_status *st);
static inline bool qc_tfl_has_input(const struct qc_tfl_node *n, size_t i)
{
    return i < n->input_count && n->inputs[i];
}
/* Return a number of the options by the field's name, or its default if the operator has no options. */
int64_t qc_tfl_option(const struct qc_tfl_node *n, const char *field);
float qc_tfl_option_float(const struct qc_tfl_node *n, const char *field);
/* Gives the integers of constant input i, in the arena. Fails if the input is not a constant. */
bool qc_tfl_ints(int64_t **out, size_t *count, struct qc_tfl_node *n, size_t i, const char *what, struct qc_status *st);
/* Gives height and width of the image that the operator makes: elements `from` and the next of constant input i, or the
   shape of the result in the file. Fails if neither is there. */
bool qc_tfl_image_size(int64_t size[2], struct qc_tfl_node *n, size_t i, size_t from, struct qc_status *st);
/* Returns the shape of a value of the graph. */
const struct qc_shape *qc_tfl_shape(const struct qc_tfl_node *n, qc_id id);
/* True if a and b have the same qparams, or both have none. */
bool qc_tfl_alike(const struct qc_tfl_value *a, const struct qc_tfl_value *b);

/* Adds an attribute to the next node. */
void qc_tfl_attr(struct qc_tfl_node *n, struct qc_attr a);
/* The same for a list of `count` integers, copied to the arena; it is left out if all are `none`. */
bool qc_tfl_attr_ints(struct qc_tfl_node *n, const char *name, size_t count, const int64_t *v, int64_t none,
                      struct qc_status *st);
/* Adds a node with these attributes and returns its result, or 0 with a status. name: of the result; may be NULL. If it
   is the name of the operator's result, the node gets it too. */
qc_id qc_tfl_add(struct qc_tfl_node *n, enum qc_op op, unsigned count, const qc_id *in, const char *name,
                 struct qc_status *st);
qc_id qc_tfl_add_results(struct qc_tfl_node *n, enum qc_op op, unsigned count, const qc_id *in, unsigned results,
                         struct qc_status *st);
qc_id qc_tfl_transpose(struct qc_tfl_node *n, qc_id id, size_t rank, const int64_t *perm, const char *name,
                       struct qc_status *st);
qc_id qc_tfl_reshape(struct qc_tfl_node *n, qc_id id, size_t rank, const int64_t *dims, struct qc_status *st);
qc_id qc_tfl_cast(struct qc_tfl_node *n, qc_id id, enum qc_dtype to, struct qc_status *st);
/* Return new constants. */
qc_id qc_tfl_int_list(struct qc_tfl_node *n, size_t count, const int64_t *v, struct qc_status *st);
qc_id qc_tfl_int(struct qc_tfl_node *n, int64_t v, struct qc_status *st); /* a scalar */
qc_id qc_tfl_number(struct qc_tfl_node *n, float v, struct qc_status *st);

/* For four axes: channels-first position of axis i of the file, and the inverse. */
extern const int64_t qc_tfl_to_first[4], qc_tfl_to_file[4];
/* Converts an axis of the file (negative: from the end) of a value with `rank` axes to this layout. Fails if there is
   no such axis. */
bool qc_tfl_axis(int64_t *out, int64_t axis, int rank, enum qc_tfl_layout layout, struct qc_status *st);
/* Returns the layout of an operator that works in either: CHANNELS_FIRST if an input with four axes is available only
   in that layout and the other inputs can be converted. */
enum qc_tfl_layout qc_tfl_layout_of(const struct qc_tfl_node *n);
/* Returns the real value of input i for such an operator. An input with fewer axes is aligned with the last axes. */
qc_id qc_tfl_operand(struct qc_tfl_node *n, size_t i, enum qc_tfl_layout layout, struct qc_status *st);
