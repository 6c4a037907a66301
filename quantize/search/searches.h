// SPDX-License-Identifier: Apache-2.0
/* The searches, in the order in which a job calls them: first those that complete one network (qc_decide), then those
   that compare networks of changed options (quantize/job.c). Each is described at the top of its file. */
#pragma once

#include "calib/metrics/sensitivity.h"
#include "quantize/make/bodies.h"
#include "quantize/report/quantize_suggest.h"
#include "quantize/search/candidate.h"

struct qc_json;

struct qc_centred_input {
    const char *name; /* of the value */
    size_t channels, layers;
    double error; /* squared error of the outputs relative to that without */
};

struct qc_channel_centring {
    size_t count;
    struct qc_centred_input *of;
};

/* Makes the graph with centred inputs and simulates the network again, if there are any. Needs second moments; without
   them nothing is centred. If the target quantizes an Add that gives a MatMul its bias, the product in front of it has
   no statistics: such products are left as they are. Errors: those of the passes. */
bool qc_centre_channels(struct qc_network *net, struct qc_status *st);

/* Puts the centred inputs into the record of the job. */
void qc_record_centred(struct qc_json *record, const struct qc_network *net);

/* Sets net->auto_method, and with it the methods of the scheme. net->simulated is unbound before and after. Needs data
   and their statistics. Errors: those of observers, rounding and runs. */
bool qc_auto_method_find(struct qc_network *net, struct qc_status *st);

/* Rounds the layers again, one after the other (calib/sequential/sequential.h), and compares both networks on samples.
   The better one becomes p->rounded and p->weight_rounding; p->crossed has the result. Does nothing unless weights are
   compensated and have few bits (or are alone, or --method auto found a low SQNR), all samples have one size, and
   memory is not limited. Errors: those of runs. */
bool qc_round_crossed(struct qc_network *p, struct qc_status *st);

/* Runs the samples of a network, keeps the inputs of its bodies, and quantizes each body with `maker`, as a job does. A
   body that cannot be quantized stays in float, with a reason. Fails if memory is out, the samples cannot run, or the
   job is interrupted. */
bool qc_quantize_bodies(struct qc_body_set **out, const struct qc_network *net, qc_network_maker *maker,
                        struct qc_status *st);

struct qc_shared_weights;

/* g: the graph whose bodies share weights; borrowed. */
bool qc_shared_weights_new(struct qc_shared_weights **out, const struct qc_graph *g, struct qc_status *st);
void qc_shared_weights_free(struct qc_shared_weights *s); /* NULL-safe */

/* Returns true if the body has weights that another graph has too. Its channels must keep their sizes then. */
bool qc_shared_weights_in(const struct qc_shared_weights *s, const struct qc_graph *body);

/* Adds the weights of a body's graph that its network has stored in integers of 4 or 8 bits. */
bool qc_shared_weights_add(struct qc_shared_weights *s, const struct qc_graph *body, const struct qc_network *net,
                           struct qc_status *st);

/* PRODUCTS: only weights that all readers take as the weight of a product, and none in blocks, with which no integers
   are multiplied. */
enum qc_shared_readers { QC_SHARED_ALL, QC_SHARED_PRODUCTS };

/* *out: the body with these weights as DequantizeLinear of the stored integers; NULL if it has none of them. */
bool qc_shared_weights_put(struct qc_graph **out, const struct qc_shared_weights *s, const struct qc_graph *body,
                           enum qc_shared_readers readers, struct qc_status *st);

/* Returns true if the job looks for free changes: with samples, without --effort low, and if there is memory for a
   second network. */
bool qc_looks_for_free(const struct qc_candidate *c);
/* c has its first network. Ideas that gain are kept: then c has their schemes. An option that is given is not
   overruled. Warns if --memory-limit leaves no room for them. Puts the ideas that were tried into r. *changed: c has
   another network. Errors: those of making and of runs. */
bool qc_take_free_ideas(struct qc_report *r, bool *changed, struct qc_candidate *c, struct qc_status *st);

enum { QC_FLOAT_OPERATORS = 8 };

struct qc_float_operators {
    size_t count;
    bool must_save;                        /* latency, and no bytes more */
    const char *globs[QC_FLOAT_OPERATORS]; /* for --skip; in the arena of the candidate; most noise per latency first */
};

/* Finds operators of the candidate's network that add noise to the outputs, and whose estimated latency in float is at
   most QC_FREE_LATENCY above that in integers, or lower if it must save. None if integers are demanded, if the estimate
   is not for the target, or if the outputs could gain less than twice QC_FREE_GAIN_DB. Selects the samples of --data
   that the options ask for. Errors: those of runs. */
bool qc_find_float_operators(struct qc_float_operators *out, const struct qc_candidate *c, struct qc_status *st);

/* Returns true if a network costs neither latency nor bytes beyond QC_FREE_LATENCY and QC_FREE_BYTES of another one.
   must_save: if it takes less by QC_FREE_LATENCY, and no more bytes. */
bool qc_costs_nothing(bool *out, const struct qc_network *is, const struct qc_network *was, bool must_save,
                      struct qc_status *st);

/* Sets *out to the scheme that --size begins with: all weights have 4 bits, also tables, which have at least 8 bits by
   default. from: the scheme of the options. */
bool qc_size_first(struct qc_scheme *out, const struct qc_scheme *from, const struct qc_setup *s, struct qc_arena *a,
                   struct qc_status *st);

/* The network of c has the scheme above. Networks with 8 bits and, if weights have blocks, with 2 are made. The error
   of each layer's weights follows from the second moments in closed form. One measurement of each single layer scales
   it to the noise of the outputs. The least sum of noise within the size is chosen and made; if the file is larger than
   estimated, the choice is repeated. Afterwards c has the chosen widths, and the record "size" and "frontier". Errors:
   those of making; QC_DEMAND with the least possible size if no file fits. */
bool qc_fit_size(struct qc_report *r, struct qc_candidate *c, struct qc_status *st);

/* Runs the command once on the model file, if there is one, so that it fails before any work begins. */
bool qc_placement_check(const struct qc_setup *s, struct qc_arena *a, struct qc_status *st);

/* Afterwards c has the fastest placement, with --prefer integers and a --skip for each operator in float; if nothing is
   faster, they are unchanged. *out: "timing.benchmark" of the record, owned by the caller. Errors: those of the command
   (quantize/search/latency.h), of the stages, of temporary files. job_seconds: of the job before, which bound the time
   of the search (QC_PLACEMENT_BUDGET). */
bool qc_place_by_latency(struct qc_json **out, struct qc_candidate *c, double job_seconds, struct qc_status *st);

/* Measures the latency and the error of c again, after it has changed, and puts them into *to. */
bool qc_placement_measure_again(struct qc_json *to, struct qc_candidate *c, struct qc_status *st);

/* db: SQNR of the worst output on samples that calibrated. Sets *out to "fallback" of the record, owned by the caller,
   or to NULL. If it is met, c has the wider types afterwards, else its scheme is unchanged. *changed: the network was
   made again, so everything that borrows from its graphs must be made again, too. Errors: those of making and of runs.
 */
bool qc_mend(struct qc_json **out, bool *changed, struct qc_candidate *c, double db, struct qc_status *st);

/* Warns if an output has less than 10 dB. The warning names the layer that loses most, and a remedy: a command of the
   advice, one that follows from the cause of error (ideas), or a demand. */
bool qc_warn_useless(const struct qc_report *r, const struct qc_ideas *ideas, struct qc_network *net,
                     const struct qc_measurement *m, struct qc_status *st);

/* Puts the ranking of layers, the suggestions and the advice into the record. effects: of the layers of c; if NULL,
   they are measured here on a few samples. Ideas are added to `ideas`, those that cannot be tried are left out. Selects
   the samples of --data that the options ask for. Fails if samples cannot be read, or with QC_INTERRUPTED. */
bool qc_fill_advice(struct qc_report *r, struct qc_ideas *ideas, struct qc_candidate *c, const struct qc_measurement *m,
                    const struct qc_sensitivity *effects, struct qc_status *st);
