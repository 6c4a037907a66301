// SPDX-License-Identifier: Apache-2.0
/* Small ONNX models for the tests, made message by message: of any opset, right or wrong. */
#pragma once

#include "onnx/read/import.h"
#include "onnx/read/proto.h"

enum { MAKER_MOST = 32 };

struct maker {
    struct qc_arena *arena;
    struct qc_status st; /* the maker's own troubles; none are expected */
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto opset, *opsets[1];
    Onnx__NodeProto *nodes[MAKER_MOST];
    Onnx__ValueInfoProto *inputs[MAKER_MOST], *outputs[MAKER_MOST];
    Onnx__TensorProto *initializers[MAKER_MOST];
};

void maker_start(struct maker *m, int opset); /* IR version 7 */
void maker_stop(struct maker *m);
#define MAKER __attribute__((cleanup(maker_stop), unused)) struct maker

/* Float unless elem says otherwise; rank -1: no shape. A dimension of -1 is named after `symbol` (NULL: not named). */
void maker_input(struct maker *m, const char *name, const char *symbol, int rank, const int64_t *dims);
void maker_output(struct maker *m, const char *name);
Onnx__TensorProto *maker_floats(struct maker *m, const char *name, int rank, const int64_t *dims, const float *v);
Onnx__TensorProto *maker_ints(struct maker *m, const char *name, int64_t count, const int64_t *v); /* int64, rank 1 */
/* inputs and outputs: names with spaces between, "-" for an empty one. The node is called name (NULL: not). */
Onnx__NodeProto *maker_node(struct maker *m, const char *op, const char *name, const char *inputs, const char *outputs);
/* Attributes of the last node. */
void maker_int(struct maker *m, const char *name, int64_t v);
void maker_float(struct maker *m, const char *name, float v);
void maker_text(struct maker *m, const char *name, const char *v);
void maker_int_list(struct maker *m, const char *name, size_t count, const int64_t *v);
void maker_float_list(struct maker *m, const char *name, size_t count, const float *v);
void maker_tensor(struct maker *m, const char *name, Onnx__TensorProto *t);

void write_file(const char *path, const void *data, size_t size); /* ends the test if it cannot */

/* The bytes, in the maker's arena. */
void maker_pack(const struct maker *m, void **bytes, size_t *size);
/* Imports; the graph is the caller's. On failure NULL, with the error in *st. */
struct qc_graph *maker_import(const struct maker *m, struct qc_model_info *info, struct qc_status *st);
/* Imports and expects no error. */
struct qc_graph *maker_graph(const struct maker *m);

/* Whether the ops of the graph's nodes are these, in order, with spaces between. */
bool graph_has_ops(const struct qc_graph *g, const char *ops);
/* The node that makes a value; NULL when there is none. */
const struct qc_node *graph_node(const struct qc_graph *g, const char *value);
/* Whether input i of a node is a constant of these integers. */
bool node_input_is(const struct qc_graph *g, const struct qc_node *n, unsigned i, size_t count, const int64_t *v);
bool node_ints_are(const struct qc_node *n, const char *attr, size_t count, const int64_t *v);

#define DIMS(...)                                                                                                      \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                                       \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define LIST(...)                                                                                                      \
    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[])                                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
