// SPDX-License-Identifier: Apache-2.0
#include "onnx/read/import.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/scope.h"
#include "graph/core/body.h"
#include "graph/core/custom.h"
#include "onnx/read/importing.h"

/* --- Kinds of files --- */

/* Returns the name of another kind of file that users mistake for a model, or NULL. */
static const char *other_kind(const unsigned char *p, size_t size)
{
    static const struct {
        size_t at, size;
        const char *magic, *what;
    } kinds[] = {
        {0, 8, "\x89HDF\r\n\x1a\n", "an HDF5 file; data is given with --data"},
        {0, 4, "PK\x03\x04", "a zip archive (PyTorch checkpoint or NumPy .npz?); export the model to ONNX"},
        {0, 2, "\x80\x02", "a Python pickle (PyTorch checkpoint?); export the model to ONNX"},
        {4, 4, "TFL3", "a TensorFlow Lite model"},
        {4, 4, "ORTM", "a model in ONNX Runtime's own format; use the ONNX file it was made from"},
        {0, 2, "\x1f\x8b", "compressed with gzip; unpack it"},
        {0, 6, "\x93NUMPY", "a NumPy array"},
        {0, 4,
         "\x7f"
         "ELF",
         "a program or library"},
        {0, 23, "version https://git-lfs", "a Git LFS pointer; fetch the file with 'git lfs pull'"},
        {0, 4, "\x89PNG", "a PNG image"},
        {0, 3, "\xff\xd8\xff", "a JPEG image"},
        {0, 5, "<?xml", "an XML file"},
        {0, 1, "{", "a text file (JSON?)"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (size >= kinds[i].at + kinds[i].size && memcmp(p + kinds[i].at, kinds[i].magic, kinds[i].size) == 0)
            return kinds[i].what;
    return NULL;
}

/* The bytes of a model; raw_data of its tensors points into them. */
struct source {
    const void *bytes;
    size_t size;
    struct qc_file_map *map; /* mapping that contains the bytes; NULL: they are in memory */
};

static bool unpack_model(Onnx__ModelProto **out, const struct source *from, const struct qc_budget *budget,
                         struct qc_status *st)
{
    const void *bytes = from->bytes;
    const size_t size = from->size;
    if (size == 0) return qc_fail(st, QC_BAD_INPUT, "the file is empty; an ONNX model was expected");
    const char *other = other_kind(bytes, size);
    if (other) return qc_fail(st, QC_BAD_INPUT, "not an ONNX model: this is %s", other);
    ProtobufCMessage *message;
    if (!qc_proto_unpack_borrowing(&message, &onnx__model_proto__descriptor, bytes, size, "an ONNX model", budget, st))
        return false;
    Onnx__ModelProto *m = (Onnx__ModelProto *)message;
    if (!m->graph || (!m->n_opset_import && !m->has_ir_version)) {
        qc_fail(st, QC_BAD_INPUT, "a protobuf, but not an ONNX model (it has no %s)",
                m->graph ? "IR version" : "graph");
    } else if (!m->n_opset_import && m->ir_version >= 3) {
        qc_fail(st, QC_BAD_INPUT, "has no opset_import; the file is truncated or damaged");
    } else {
        *out = m;
        return true;
    }
    qc_proto_free_borrowing(message, bytes, size);
    return false;
}

static bool find_opset(int *out, const Onnx__ModelProto *m, struct qc_status *st)
{
    int64_t opset = m->n_opset_import ? 0 : 1; /* before IR version 3 there was only one */
    for (size_t i = 0; i < m->n_opset_import; i++) {
        const bool own = !*qc_proto_domain(m->opset_import[i]->domain);
        if (own && m->opset_import[i]->version > opset) opset = m->opset_import[i]->version;
    }
    bool used = false;
    for (size_t i = 0; i < m->graph->n_node; i++) used = used || !*qc_proto_domain(m->graph->node[i]->domain);
    if (opset == 0 && !used) opset = 13; /* all operators are of other domains */
    if (opset == 0)
        return qc_fail(st, QC_UNSUPPORTED, "has operators of the ONNX domain, but opset_import does not name it");
    if (opset < QC_ONNX_OPSET_MIN)
        return qc_fail(st, QC_UNSUPPORTED,
                       "opset %lld is too old, %d to %d are handled; convert it with onnx.version_converter",
                       (long long)opset, QC_ONNX_OPSET_MIN, QC_ONNX_OPSET_MAX);
    if (opset > INT16_MAX) return qc_fail(st, QC_BAD_INPUT, "opset %lld is not valid", (long long)opset);
    *out = (int)opset;
    return true;
}

/* --- Inputs and outputs --- */

int64_t qc_import_dim(const Onnx__TensorShapeProto__Dimension *d)
{
    int64_t n = 0;
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) n = d->dim_value;
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM) {
        /* PyTorch's exporter names some fixed dimensions by their number ("32"). */
        const char *name = qc_proto_text(d->dim_param);
        const size_t digits = strspn(name, "0123456789");
        n = digits && digits < 10 && !name[digits] ? strtoll(name, NULL, 10) : 0;
    }
    return n > 0 ? n : QC_FREE;
}

static bool read_shape(struct qc_shape *out, const char **symbols, struct qc_importer *im,
                       const Onnx__ValueInfoProto *v, struct qc_status *st)
{
    const Onnx__TensorShapeProto *s = v->type->tensor_type->shape;
    *out = QC_SHAPE_UNKNOWN;
    if (!s) return true;
    if (s->n_dim > QC_RANK_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "'%.200s' has %zu dimensions, at most %d are handled",
                       qc_proto_text(v->name), s->n_dim, QC_RANK_MAX);
    *out = (struct qc_shape){.rank = (int)s->n_dim};
    for (size_t i = 0; i < s->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *d = s->dim[i];
        out->dim[i] = qc_import_dim(d);
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && out->dim[i] == QC_FREE &&
            *qc_proto_text(d->dim_param))
            if (!(symbols[i] = qc_arena_strdup(im->g->arena, d->dim_param, st))) return false;
    }
    return true;
}

static bool add_model_inputs(struct qc_importer *im, struct qc_status *st)
{
    const Onnx__GraphProto *p = im->proto;
    bool with_initializer = false;
    for (size_t i = 0; i < p->n_input; i++) {
        const char *name = qc_proto_text(p->input[i]->name), *symbols[QC_RANK_MAX] = {NULL};
        struct qc_onnx_name *n = qc_import_find(im, name);
        struct qc_shape shape;
        if (n->origin == QC_FROM_INITIALIZER) {
            with_initializer = true;
            continue;
        }
        if (n->carried) continue;
        if (!read_shape(&shape, symbols, im, p->input[i], st)) return false;
        n->id =
            qc_graph_add_input(im->g, name, qc_dtype_from_onnx(p->input[i]->type->tensor_type->elem_type), &shape, st);
        if (!n->id) return false;
        memcpy(im->g->inputs[im->g->input_count - 1].symbol, symbols, sizeof symbols);
    }
    return !with_initializer ||
           qc_lines_add(&im->notes, im->g->arena, st, "graph inputs with an initializer were taken as constants");
}

static bool shapes_contradict(const struct qc_shape *a, const struct qc_shape *b)
{
    if (a->rank < 0 || b->rank < 0) return false;
    if (a->rank != b->rank) return true;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] >= 0 && b->dim[i] >= 0 && a->dim[i] != b->dim[i]) return true;
    return false;
}

bool qc_import_add_output(struct qc_importer *im, const Onnx__ValueInfoProto *v, struct qc_status *st)
{
    const char *name = qc_proto_text(v->name), *symbols[QC_RANK_MAX] = {NULL};
    struct qc_shape declared;
    char a[QC_SHAPE_TEXT], b[QC_SHAPE_TEXT];
    struct qc_onnx_name *own = qc_import_find(im, name);
    if (st->code != QC_OK || own->carried || (own->is_added && !im->depth)) return st->code == QC_OK;
    own->is_added = true;
    struct qc_onnx_name *n = qc_import_resolve(im, name);
    qc_id id = qc_import_enter_value(im, n, st);
    if (!id || !qc_graph_add_output(im->g, name, id, st)) return false;
    if (!v->type || v->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) return true;
    if (!read_shape(&declared, symbols, im, v, st)) return false;
    const struct qc_type *type = &im->g->values[id].type;
    struct qc_port *port = &im->g->outputs[im->g->output_count - 1];
    for (int i = 0; i < declared.rank && i < type->shape.rank; i++)
        if (type->shape.dim[i] == QC_FREE) port->symbol[i] = symbols[i];
    if (type->shape.rank < 0 && declared.rank >= 0) {
        memcpy(port->symbol, symbols, sizeof symbols);
        if (!(port->declared = qc_arena_dup(im->g->arena, &declared, 1, sizeof declared, st))) return false;
    }
    if (shapes_contradict(&declared, &type->shape) &&
        !qc_lines_add(&im->warnings, im->g->arena, st, "output '%s' is declared as %s, but is computed as %s", name,
                      qc_shape_text(a, &declared), qc_shape_text(b, &type->shape)))
        return false;
    const int elem = v->type->tensor_type->elem_type;
    if (elem != 0 && qc_dtype_from_onnx(elem) != type->dtype &&
        !(im->indices_for_texts && elem == ONNX__TENSOR_PROTO__DATA_TYPE__STRING))
        return qc_lines_add(&im->warnings, im->g->arena, st, "output '%s' is declared as %s, but is computed as %s",
                            name, qc_import_type_text(a, elem), qc_dtype_info(type->dtype)->name);
    return true;
}

/* --- The model --- */

static const char *keep(struct qc_importer *im, const char *s, struct qc_status *st)
{
    return qc_arena_strdup(im->g->arena, qc_proto_text(s), st);
}

static bool read_info(struct qc_model_info *info, struct qc_importer *im, const Onnx__ModelProto *m,
                      struct qc_status *st)
{
    struct qc_model_property *properties =
        QC_NEW_ARRAY(im->g->arena, struct qc_model_property, m->n_metadata_props, st);
    *info = (struct qc_model_info){
        .producer = keep(im, m->producer_name, st),
        .producer_version = keep(im, m->producer_version, st),
        .domain = keep(im, m->domain, st),
        .doc = keep(im, m->doc_string, st),
        .ir_version = m->ir_version,
        .model_version = m->model_version,
        .opset = im->opset,
        .property_count = m->n_metadata_props,
        .properties = properties,
    };
    for (size_t i = 0; properties && i < m->n_metadata_props; i++)
        properties[i] = (struct qc_model_property){keep(im, m->metadata_props[i]->key, st),
                                                   keep(im, m->metadata_props[i]->value, st)};
    return st->code == QC_OK;
}

static bool import_model(struct qc_importer *im, struct qc_model_info *info, const Onnx__ModelProto *m,
                         struct qc_status *st)
{
    if (!find_opset(&im->opset, m, st)) return false;
    if (m->graph->n_sparse_initializer)
        return qc_fail(st, QC_UNSUPPORTED, "has sparse initializers, which are not handled; store them dense");
    im->g->opset = im->opset;
    if (im->opset > QC_ONNX_OPSET_MAX)
        qc_lines_add(
            &im->warnings, im->g->arena, st,
            "opset %d is newer than %d, the newest that is known; its operators are read as those of that opset",
            im->opset, QC_ONNX_OPSET_MAX);
    if (m->n_training_info) qc_lines_add(&im->notes, im->g->arena, st, "training information was left out");
    im->g->name = *qc_proto_text(m->graph->name) ? keep(im, m->graph->name, st) : "graph";
    if (st->code != QC_OK || !qc_import_inline(&im->proto, im, m, st) || !qc_import_enter_names(im, NULL, st) ||
        !qc_import_mark_live(im, st) || !qc_import_carry_begin(im, st))
        return false;
    /* Values after Identity or Dropout have the names of their graph outputs. */
    const Onnx__GraphProto *p = im->proto;
    for (size_t i = 0; i < p->n_output; i++) {
        struct qc_onnx_name *out = qc_import_find(im, qc_proto_text(p->output[i]->name)), *n = out;
        for (size_t steps = 0; n && n->origin == QC_FROM_NODE && steps <= p->n_node; steps++) {
            const Onnx__NodeProto *node = p->node[n->index];
            const char *op = qc_proto_text(node->op_type);
            if ((strcmp(op, "Identity") != 0 && strcmp(op, "Dropout") != 0) || !node->n_input ||
                strcmp(node->output[0], n->name) != 0)
                break;
            n = qc_import_find(im, node->input[0]);
        }
        if (n && n != out && n->origin == QC_FROM_NODE && !n->is_output && n->as == n->name) n->as = out->name;
    }
    if (!add_model_inputs(im, st) || !qc_import_nodes(im, st)) return false;
    for (size_t i = 0; i < m->graph->n_output; i++) qc_import_add_output(im, m->graph->output[i], st);
    if (st->code != QC_OK || !qc_import_carry_end(im, m, st) || !read_info(info, im, m, st) ||
        !qc_import_files(im, info, st))
        return false;
    info->notes = im->notes.lines;
    info->note_count = im->notes.count;
    info->unused = im->unused.lines;
    info->unused_count = im->unused.count;
    info->repeated = im->repeated.lines;
    info->repeated_count = im->repeated.count;
    info->warnings = im->warnings.lines;
    info->warning_count = im->warnings.count;
    return true;
}

/* Bytes of initializers in files, by their shapes. External files are checked when they are read. */
struct outside {
    size_t count;       /* number of tensors with external data */
    size_t all, copied; /* their bytes; copied: bytes that are read into memory */
    size_t inside;      /* bytes in the model's file that move to a temporary file */
};

static void add_bytes(size_t *sum, size_t bytes)
{
    if (!qc_add_size(sum, *sum, bytes)) *sum = SIZE_MAX;
}

static void add_outside(struct outside *o, const Onnx__GraphProto *p, unsigned depth)
{
    for (size_t i = 0; depth < QC_BODY_DEPTH_MAX && i < p->n_node; i++)
        for (size_t k = 0; k < p->node[i]->n_attribute; k++)
            if (p->node[i]->attribute[k]->g) add_outside(o, p->node[i]->attribute[k]->g, depth + 1);
    for (size_t i = 0; i < p->n_initializer; i++) {
        const Onnx__TensorProto *t = p->initializer[i];
        const enum qc_dtype dtype = qc_dtype_from_onnx(t->data_type);
        size_t n = qc_dtype_size(dtype);
        if (!qc_proto_outside(t)) {
            if (t->has_raw_data && t->raw_data.len >= QC_SPILLED_LEAST) add_bytes(&o->inside, t->raw_data.len);
            continue;
        }
        for (size_t k = 0; k < t->n_dims; k++)
            if (t->dims[k] < 0 || !qc_mul_size(&n, n, (size_t)t->dims[k])) n = 0;
        o->count++;
        add_bytes(&o->all, n);
        if (dtype == QC_NONE || !qc_import_is_mapped(dtype, n)) add_bytes(&o->copied, n);
    }
}

bool qc_onnx_whole(const struct qc_graph *g, struct qc_status *st)
{
    char list[QC_CARRIED_TEXT];
    if (!g->carried) return true;
    if (!g->carried->unknown_count)
        return qc_fail(st, QC_UNSUPPORTED, "has inputs or outputs of types that are not handled");
    return qc_fail(st, QC_UNSUPPORTED,
                   "operators that are not handled: %s; export the model without them, or simplify it first",
                   qc_carried_text(list, g->carried));
}

enum { LARGE = 256 << 20, SHARE = 32 };

/* budget: the memory limit and the size of the file. */
static bool import_unpacked(struct qc_graph **out, struct qc_model_info *info, const Onnx__ModelProto *m,
                            struct qc_beside beside, struct qc_budget budget, const struct qc_import_options *o,
                            struct qc_status *st)
{
    const size_t file_bytes = budget.model_bytes;
    struct outside outside = {.copied = file_bytes};
    add_outside(&outside, m->graph, 0);
    add_bytes(&budget.model_bytes, outside.all);
    /* Constants derived from a large model may be too large to hold in memory at the same time. */
    const bool large =
        budget.model_bytes >= LARGE || (budget.memory_limit && budget.model_bytes >= budget.memory_limit / SHARE);
    if (large) outside.copied -= outside.inside < outside.copied ? outside.inside : outside.copied;
    if (!qc_budget_hold(&budget, outside.copied, st)) return qc_where(st, "its tensors");
    if (!large) beside.own = NULL;
    size_t readings = 0;
    struct qc_external_files files = {0};
    beside.files = &files;
    struct qc_importer im = {.beside = beside,
                             .model = m,
                             .expander = o->expander,
                             .indices_for_texts = o->indices_for_texts,
                             .arena = qc_arena_new(),
                             .g = qc_graph_new(st),
                             .readings = &readings};
    if (im.g) im.g->budget = budget;
    if (im.g) im.g->spills = large;
    if (im.g) im.g->custom = qc_custom_ops_ref(o->custom);
    struct qc_model_info found;
    const bool ok =
        im.g && import_model(&im, &found, m, st) && (o->unknown != QC_UNKNOWN_REFUSED || qc_onnx_whole(im.g, st));
    if (ok) {
        /* Tensors may share bytes, so their sum is limited to the size of the files. */
        add_bytes(&files.bytes, file_bytes);
        if (files.bytes < im.g->budget.model_bytes) im.g->budget.model_bytes = files.bytes;
        im.g->external_data = outside.count > 0;
        if (info) *info = found;
    }
    qc_import_release_names(&im);
    qc_import_release_unpacked(&im);
    qc_import_release_external(&files);
    qc_arena_free(im.arena);
    return QC_HAND_OVER(ok, out, im.g, qc_graph_free);
}

static bool import_source(struct qc_graph **out, struct qc_model_info *info, const struct source *from,
                          const char *folder, const struct qc_import_options *o, struct qc_status *st)
{
    Onnx__ModelProto *m;
    const struct qc_budget budget = {.memory_limit = o->memory_limit, .model_bytes = from->size};
    const struct qc_beside beside = {.folder = folder,
                                     .follow = o->follow,
                                     .own = from->map,
                                     .own_bytes = from->map ? from->size : 0};
    if (!unpack_model(&m, from, &budget, st)) return false;
    const bool ok = import_unpacked(out, info, m, beside, budget, o, st);
    qc_proto_free_borrowing(&m->base, from->bytes, from->size);
    return ok;
}

bool qc_onnx_import_memory_with(struct qc_graph **out, struct qc_model_info *info, const void *bytes, size_t size,
                                const char *folder, const struct qc_import_options *o, struct qc_status *st)
{
    return import_source(out, info, &(struct source){.bytes = bytes, .size = size}, folder, o, st);
}

bool qc_onnx_import_with(struct qc_graph **out, struct qc_model_info *info, const char *path,
                         const struct qc_import_options *o, struct qc_status *st)
{
    const char *slash = strrchr(path, '/');
    QC_FREED char *folder = !slash ? strdup(".") : slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
    if (!folder) return qc_fail_memory(st, strlen(path));
    /* Large files are mapped, so that they take no memory. */
    enum { MAPPED_LEAST = 16 << 20 };
    struct stat found;
    struct source from = {0};
    struct qc_budget budget = {.memory_limit = o->memory_limit};
    QC_ARENA_SCOPE *a = qc_arena_new();
    void *bytes = NULL;
    const bool large = stat(path, &found) == 0 && S_ISREG(found.st_mode) && found.st_size >= MAPPED_LEAST;
    bool ok = true;
    if (large) ok = qc_file_map(&from.map, &from.size, path, st);
    if (ok && !from.map) ok = qc_budget_file(&budget, path, 2, st) && qc_file_read(&bytes, &from.size, path, a, st);
    from.bytes = from.map ? qc_file_map_data(from.map) : bytes;
    ok = ok && import_source(out, info, &from, folder, o, st);
    qc_file_map_unref(from.map);
    return ok || qc_where(st, "%s", path);
}
