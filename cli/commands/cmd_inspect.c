// SPDX-License-Identifier: Apache-2.0
/* qcalib inspect FILE: prints a text of the object that --json prints (evaluate/evaluate.h). */
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "cli/commands/cmd.h"
#include "cli/terminal/screen.h"
#include "evaluate/evaluate.h"

static const char *text(const struct qc_json *v, const char *path)
{
    const char *found = qc_json_find_text(v, path);
    return found ? found : "";
}

static uint64_t whole(const struct qc_json *v, const char *path)
{
    const double n = qc_json_find_number(v, path);
    return n > 0 ? (uint64_t)n : 0;
}

/* Prints a shape; other: of a free dimension. */
static void print_shape(const struct qc_json *shape, const char *other)
{
    qc_say("[%s", shape ? "" : "?");
    for (size_t i = 0; i < qc_json_size(shape); i++) {
        const char *digits = qc_json_digits(qc_json_at(shape, i));
        qc_say("%s%s", i ? "," : "", digits ? digits : other);
    }
    qc_say("]");
}

/* Returns how many elements of a list are shown, and says of the others that -v lists them; all: every one. */
static size_t shown(const struct qc_json *list, size_t most, bool all)
{
    const size_t count = qc_json_size(list);
    return all || count <= most ? count : most;
}

static void say_rest(const struct qc_json *list, size_t listed, const char *indent, const char *noun)
{
    const size_t rest = qc_json_size(list) - listed;
    if (rest) qc_say("%sand %zu more %ss; -v lists them\n", indent, rest, noun);
}

/* ---- Models ---- */

static void print_ports(const char *label, const struct qc_json *ports, bool all)
{
    enum { LISTED = 3 };
    const size_t count = shown(ports, LISTED, all || qc_json_size(ports) == LISTED + 1);
    for (size_t i = 0; i < count; i++) {
        const struct qc_json *p = qc_json_at(ports, i);
        qc_say("%-9s%s %s ", label, text(p, "name"), text(p, "type"));
        print_shape(qc_json_find(p, "shape"), "N");
        qc_say("\n");
    }
    say_rest(ports, count, "         ", label);
}

static void print_values(const struct qc_json *v)
{
    const struct qc_json *notes = qc_json_find(v, "notes"), *quantized = qc_json_find(v, "quantized"),
                         *nodes = qc_json_find(v, "node_list"), *values = qc_json_find(v, "values");
    for (size_t i = 0; i < qc_json_size(notes); i++) qc_say("note     %s\n", qc_json_text(qc_json_at(notes, i)));
    if (qc_json_size(quantized)) qc_say("quantized values\n");
    for (size_t i = 0; i < qc_json_size(quantized); i++) {
        const struct qc_json *q = qc_json_at(quantized, i);
        const uint64_t scales = whole(q, "scales");
        qc_say("  %s  %s %s  ", text(q, "name"), text(q, "kind"), text(q, "type"));
        if (!scales) {
            qc_say("no scale\n");
            continue;
        }
        if (scales > 1) qc_say("%llu scales, first ", (unsigned long long)scales);
        qc_say("%s%.6g, zero point %.0f\n", scales > 1 ? "" : "scale ",
               qc_json_value(qc_json_at(qc_json_find(q, "scale"), 0)),
               qc_json_value(qc_json_at(qc_json_find(q, "zero_point"), 0)));
    }
    qc_say("nodes\n"); /* with the names that options accept */
    for (size_t i = 0; i < qc_json_size(nodes); i++)
        qc_say("  %s  %s\n", text(qc_json_at(nodes, i), "name"), text(qc_json_at(nodes, i), "op"));
    qc_say("values\n");
    for (size_t i = 0; i < qc_json_size(values); i++) {
        const struct qc_json *one = qc_json_at(values, i);
        qc_say("  %s  %s ", text(one, "name"), text(one, "type"));
        print_shape(qc_json_find(one, "shape"), "N");
        qc_say("  %s\n", text(one, "op"));
    }
}

static void print_model(const struct qc_json *v, bool verbose)
{
    const char *producer = text(v, "producer"), *version = text(v, "producer_version");
    const uint64_t followers = whole(v, "followers"), saturating = whole(v, "saturating"),
                   unknown = whole(v, "unknown");
    if (strcmp(text(v, "format"), "tflite") == 0)
        qc_say("file     %s: TensorFlow Lite, schema %.0f%s%s\n", text(v, "file"), qc_json_find_number(v, "schema"),
               *producer ? ", " : "", producer);
    else
        qc_say("file     %s: ONNX, opset %.0f, IR %.0f%s%s%s%s\n", text(v, "file"), qc_json_find_number(v, "opset"),
               qc_json_find_number(v, "ir_version"), *producer ? ", made by " : "", producer, *version ? " " : "",
               version);
    print_ports("input", qc_json_find(v, "inputs"), verbose);
    print_ports("output", qc_json_find(v, "outputs"), verbose);
    const struct qc_json *ops = qc_json_find(v, "ops");
    const size_t nodes = (size_t)whole(v, "nodes");
    int at = qc_say("ops      %zu:", nodes);
    for (size_t most = nodes; most > 0; most--)
        for (size_t i = 0; i < qc_json_size(ops); i++) {
            if ((size_t)qc_json_value(qc_json_at(ops, i)) != most) continue;
            if (at > 90) at = qc_say("\n        ") - 1;
            at += qc_say(" %s %zu", qc_json_key(ops, i), most);
        }
    qc_say("\n");
    if (qc_json_find(v, "carried")) {
        qc_say("not handled: %s", text(v, "carried"));
        if (followers)
            qc_say("; %llu node%s follow%s from them", (unsigned long long)followers, qc_plural(followers),
                   followers == 1 ? "s" : "");
        qc_say("\n");
    }
    qc_say("weights  %s parameters, %s\n", QC_COUNT(whole(v, "parameters")), QC_BYTES(whole(v, "parameter_bytes")));
    if (qc_json_find(v, "macs")) qc_say("work     %s multiply-accumulates (batch 1)\n", QC_COUNT(whole(v, "macs")));
    const struct qc_json *list = qc_json_find(v, "quantized");
    size_t activations = 0, per_channel = 0;
    const size_t count = qc_json_size(list);
    for (size_t i = 0; i < count; i++) {
        activations += strcmp(text(qc_json_at(list, i), "kind"), "activation") == 0;
        per_channel += whole(qc_json_at(list, i), "scales") > 1;
    }
    if (count)
        qc_say("int      %zu quantized values: %zu activations, %zu constants, %zu per channel%s\n", count, activations,
               count - activations, per_channel, verbose ? "" : "; -v lists them");
    if (qc_json_find(v, "products"))
        qc_say("x86      exact without VNNI: %s; %llu of %llu products of int8 weights can saturate%s\n",
               saturating ? "no"
               : unknown  ? "not known"
                          : "yes",
               (unsigned long long)saturating, (unsigned long long)whole(v, "products"),
               unknown ? "; those of DynamicQuantizeLSTM are not examined" : "");
    if (verbose) print_values(v);
}

/* ---- Other files ---- */

static void print_extreme(const struct qc_json *tensor, const char *key, const char *sample, bool all)
{
    qc_say("%g", qc_json_find_number(tensor, key));
    const struct qc_json *at = all ? qc_json_find(tensor, sample) : NULL;
    if (at)
        qc_say(" (sample %llu of part %llu)", (unsigned long long)whole(at, "sample"),
               (unsigned long long)whole(at, "part"));
}

static void print_statistics(const struct qc_json *v, bool all)
{
    enum { LISTED = 4 };
    const struct qc_json *parts = qc_json_find(v, "parts"), *tensors = qc_json_find(v, "tensors");
    const size_t part_count = shown(parts, LISTED, all), count = shown(tensors, LISTED, all);
    qc_say("file     %s: statistics of qcalib, version %.0f\n", text(v, "file"), qc_json_find_number(v, "version"));
    qc_say("model    SHA-256 %s\n", text(v, "model_sha256"));
    for (size_t i = 0; i < part_count; i++) {
        const struct qc_json *p = qc_json_at(parts, i);
        qc_say("part %-3zu SHA-256 %s, %llu of %llu samples chosen\n", i, text(p, "sha256"),
               (unsigned long long)whole(p, "samples_chosen"), (unsigned long long)whole(p, "samples_in_file"));
    }
    say_rest(parts, part_count, "", "part");
    qc_say("samples  %llu\n", (unsigned long long)whole(v, "samples"));
    for (size_t i = 0; i < count; i++) {
        const struct qc_json *t = qc_json_at(tensors, i);
        qc_say("tensor   %s from ", text(t, "name"));
        print_extreme(t, "min", "min_at", all);
        qc_say(" to ");
        print_extreme(t, "max", "max_at", all);
        qc_say(", %llu values\n", (unsigned long long)whole(t, "count"));
    }
    say_rest(tensors, count, "", "tensor");
}

/* Returns true for attributes that change a model's input or its evaluation; -v shows the others too. */
static bool preprocesses(const char *name)
{
    static const char *const names[] = {"scale", "mean", "std", "peak"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static void print_data(const struct qc_json *v, bool all)
{
    enum { LISTED = 4 };
    const struct qc_json *sets = qc_json_find(v, "datasets");
    const size_t count = shown(sets, LISTED, all);
    qc_say("file     %s: %s%zu data set%s\n", text(v, "file"), qc_data_is_hdf5(text(v, "file")) ? "HDF5, " : "",
           qc_json_size(sets), qc_plural(qc_json_size(sets)));
    for (size_t i = 0; i < count; i++) {
        const struct qc_json *s = qc_json_at(sets, i), *attributes = qc_json_find(s, "attributes");
        qc_say("%s  %s ", text(s, "name"), text(s, "type"));
        print_shape(qc_json_find(s, "shape"), "?");
        qc_say("  %s\n", text(s, "storage"));
        for (size_t k = 0; k < qc_json_size(attributes); k++)
            if (all || preprocesses(qc_json_key(attributes, k)))
                qc_say("    %s = %s\n", qc_json_key(attributes, k), qc_json_text(qc_json_at(attributes, k)));
    }
    say_rest(sets, count, "", "data set");
}

/* The file of a report may have members of any type. */
static void print_report(const struct qc_json *v)
{
    static const char *const members[][2] = {{"command", "command"},
                                             {"model", "model.file"},
                                             {"data", "data.file"},
                                             {"samples", "data.samples"},
                                             {"method", "options.method"}};
    qc_say("file     %s: report of qcalib %s\n", text(v, "file"), *text(v, "version") ? text(v, "version") : "?");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        QC_FREED char *printed = qc_json_print(qc_json_find(v, members[i][1]), 0);
        const size_t n = printed ? strlen(printed) : 0;
        const bool quotes = n >= 2 && printed[0] == '"';
        if (quotes) printed[n - 1] = '\0';
        if (printed) qc_say("%-9s%s\n", members[i][0], printed + quotes);
    }
    if (*text(v, "accuracy.metric"))
        qc_say("accuracy %s %.6g %s, %.6g int8\n", text(v, "accuracy.metric"), qc_json_find_number(v, "accuracy.fp32"),
               qc_json_find(v, "reference") ? "reference" : "float", qc_json_find_number(v, "accuracy.int8"));
    qc_say("layers   %llu quantized values, %llu ops in float, %llu warnings\n", (unsigned long long)whole(v, "layers"),
           (unsigned long long)whole(v, "float_ops"), (unsigned long long)whole(v, "warnings"));
}

bool qc_cmd_inspect(const struct qc_cli_options *o, struct qc_status *st)
{
    const unsigned more = (o->verbose ? QC_DESCRIBE_VALUES : 0) | (o->json ? 0 : QC_DESCRIBE_FOR_TEXT);
    struct qc_json *v = NULL;
    struct qc_warnings *w = NULL;
    bool ok = qc_warnings_new(&w, st) && qc_describe_file(&v, o->operands.items[0], &o->job, more, w, st);
    const char *kind = text(v, "kind");
    if (ok && o->json) {
        ok = qc_print_json(v, st);
        v = NULL; /* taken */
    } else if (ok && (ok = qc_json_is_whole(v) || qc_fail_memory(st, 1))) {
        if (strcmp(kind, "model") == 0) print_model(v, o->verbose);
        if (strcmp(kind, "data") == 0) print_data(v, o->verbose);
        if (strcmp(kind, "statistics") == 0) print_statistics(v, o->verbose);
        if (strcmp(kind, "report") == 0) print_report(v);
    }
    if (ok) qc_warnings_print(w, o);
    qc_json_free(v);
    qc_warnings_free(w);
    return ok;
}
