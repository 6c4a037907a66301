// SPDX-License-Identifier: Apache-2.0
/* THE JOB: a float model and samples of what it is used on, or statistics of them, into quantized models and a report.
   Nothing is printed here, and no file is written but those that are asked for. A job belongs to one thread at a time;
   jobs of different threads have nothing in common. */
#pragma once

#include "export/report/report.h"
#include "quantize/interface/inputs.h"
#include "quantize/interface/progress.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"
#include "quantize/pipeline_state.h"

struct qc_job;

/* Who listens to a job; all of it may be NULL. */
struct qc_job_listener {
    struct qc_progress *progress;
    /* Told after each stage (quantize/stages/stages.h), with its graph at hand; those that are repeated for --max-drop
       once, at the end. false: the job ends with that error. */
    bool (*stage_done)(void *user, const struct qc_pipeline *p, const struct qc_stage *s, struct qc_status *st);
    void *stage_user;
};

/* Checks options and inputs against each other and reads rules and observers; no model yet. Of `o` (command
   QC_COMMAND_quantize or QC_COMMAND_collect) --data, --eval and --stats are only what the report says: what the job
   works on is `in`. o, what `in` points to and the listener's progress are borrowed until qc_job_free. Errors:
   QC_USAGE; files of rules and observers that cannot be read. */
bool qc_job_new(struct qc_job **out, const struct qc_options *o, const struct qc_job_inputs *in,
                const struct qc_job_listener *listener, struct qc_status *st);
void qc_job_free(struct qc_job *j); /* NULL-safe */

/* What o->data, o->eval and o->stats name, with the model of a file. */
struct qc_job_inputs qc_job_inputs_of(const struct qc_options *o, const char *model_file);

/* Texts that people should see, so far: also when the job has failed. NULL: none yet. */
const struct qc_warnings *qc_job_warnings(const struct qc_job *j);

/* ---- quantize ---- */

/* The forms of the result (--format). */
size_t qc_job_format_count(const struct qc_job *j);
const struct qc_exporter *qc_job_format(const struct qc_job *j, size_t format);

/* The whole work: stages, accuracy, wider types for a demand, comparison of layers, report. Once per job. Errors:
   those of the stages; QC_DEMAND: --require-integer; QC_INTERRUPTED. In a team (qc_job_inputs) ranks other than 0 get
   false without an error. */
bool qc_job_run(struct qc_job *j, struct qc_status *st);

/* Behind qc_job_run: whether --max-drop, --min-sqnr and --max-nll are met. QC_DEMAND: not; the report shows what was
   tried. *models: whether models should be written, not where --max-drop is missed. */
bool qc_job_check_demand(bool *models, const struct qc_job *j, struct qc_status *st);

/* The model in one of its forms; the file appears only when complete. The report names it. Errors: as
   qc_export_file. */
bool qc_job_write(struct qc_job *j, size_t format, const char *path, struct qc_status *st);

/* The report, with the files that were written so far; strings and arrays live as long as the job. json: owned by the
   caller. */
const struct qc_report *qc_job_report(struct qc_job *j);
bool qc_job_report_json(struct qc_json **out, struct qc_job *j, struct qc_status *st);

/* What the stages left: graphs, calibration, data. */
const struct qc_pipeline *qc_job_pipeline(const struct qc_job *j);

/* The checkpoint of --checkpoint, if there is one, goes: what the job was for is kept elsewhere. */
void qc_job_done(const struct qc_job *j);

/* ---- collect ---- */

/* Instead of qc_job_run: statistics of the samples. *out is borrowed, until the job is freed. */
struct qc_collect_result {
    const struct qc_collection *statistics;
    size_t tensors;
    unsigned workers;
    double seconds;
};
bool qc_job_collect(struct qc_collect_result *out, struct qc_job *j, struct qc_status *st);

/* Behind it: the statistics become the caller's (qc_collection_free). */
struct qc_collection *qc_job_take_statistics(struct qc_job *j);
