// SPDX-License-Identifier: Apache-2.0
/* Samples in plans: every unit runs once, memory limits hold, errors name their sample. */
#include <pthread.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "calib/statistics/stream.h"
#include "calib_case.h"
#include "datasets/arrays/memory_data.h"

enum { SAMPLES = 9, WIDTH = 4 };

struct seen {
    pthread_mutex_t lock;
    unsigned observed[SAMPLES], finished[SAMPLES], workers[8];
    float sums[SAMPLES];
    bool wrong;
};

static bool observe(void *user, const struct qc_unit *at, size_t index, const struct qc_view *v, struct qc_status *st)
{
    struct seen *s = user;
    float sum = 0;
    for (size_t i = 0; i < qc_view_count(v); i++) sum += ((const float *)v->data)[i];
    pthread_mutex_lock(&s->lock);
    s->wrong = s->wrong || index != 0 || at->plan != 0 || at->unit >= SAMPLES || at->sample != at->unit ||
               s->finished[at->unit];
    s->observed[at->unit]++;
    s->sums[at->unit] = sum;
    pthread_mutex_unlock(&s->lock);
    return true;
}

static bool finish(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                   struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    struct seen *s = user;
    pthread_mutex_lock(&s->lock);
    s->wrong = s->wrong || !scratch || !s->observed[at->unit] || qc_runner_output(runners[0], 0).dtype != QC_F32;
    s->finished[at->unit]++;
    s->workers[at->worker]++;
    pthread_mutex_unlock(&s->lock);
    return true;
}

/* Of each sample its number and what follows. */
static struct qc_dataset *ramps(char path[CASE_PATH], const struct qc_graph *g)
{
    float x[SAMPLES][WIDTH];
    for (int s = 0; s < SAMPLES; s++)
        for (int i = 0; i < WIDTH; i++) x[s][i] = (float)(s + i);
    struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = 1, .dims = {WIDTH}};
    case_write(path, &set, 1, SAMPLES);
    return case_open(g, path, false);
}

Test(stream, every_unit_is_run_once_by_one_worker)
{
    OWN(qc_graph) *g =
        test_graph("graph \"g\"\ninput %1 \"x\" f32[N,4]\n%2 \"r\" = Relu(%1)\n%3 \"y\" = Neg(%2)\noutput \"y\" %3\n");
    CASE_FILE path[CASE_PATH];
    OWN(qc_dataset) *d = ramps(path, g);
    const qc_id observed = qc_graph_find_value(g, "r");
    for (unsigned workers = 1; workers <= 4; workers++) {
        struct seen s = {.lock = PTHREAD_MUTEX_INITIALIZER};
        OWN(qc_plan) *plan = NULL;
        const struct qc_shape *shapes = qc_stream_shapes(g, d, test_arena(), ST);
        MUST(shapes &&
             qc_plan_new(&plan, g, shapes, &(struct qc_plan_options){.observed_count = 1, .observed = &observed}, ST));
        struct qc_stream stream = FIELDS(.data = d, .input_count = 1, .plan_count = 1, .plans = {plan},
                                         .workers = workers, .observe = observe, .unit = finish, .user = &s);
        MUST(qc_stream_run(&stream, ST));
        cr_expect_not(s.wrong);
        unsigned all = 0;
        for (unsigned w = 0; w < workers; w++) all += s.workers[w];
        cr_expect_eq(all, SAMPLES);
        for (int i = 0; i < SAMPLES; i++) {
            HOLD(s.observed[i] == 1 && s.finished[i] == 1, s.sums[i] == (float)(4 * i + 6));
        }
    }
}

struct looked {
    float made[3][SAMPLES];
};

static bool skip_one(void *user, const struct qc_unit *at)
{
    return at->plan == 0 && at->unit == 2;
}

static bool look(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                 struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    struct looked *l = user;
    const struct qc_view y = qc_runner_output(runners[at->plan], 0), first = qc_runner_output(runners[0], 0);
    l->made[at->plan][at->unit] = ((const float *)y.data)[WIDTH - 1];
    /* What a plan of its own buffer has made is still there. */
    return at->unit == 2 || ((const float *)first.data)[1] == -(float)at->unit - 1;
}

Test(stream, plans_that_share_a_buffer_are_looked_at_one_by_one)
{
    static const char *const texts[] = {
        "graph \"g\"\ninput %1 \"x\" f32[N,4]\n%2 \"y\" = Neg(%1)\noutput \"y\" %2\n",
        "graph \"g\"\ninput %1 \"x\" f32[N,4]\n%2 = Add(%1, %1)\n%3 \"y\" = Mul(%2, %2)\noutput \"y\" %3\n",
        "graph \"g\"\ninput %1 \"x\" f32[N,4]\n%2 \"y\" = Add(%1, %1)\noutput \"y\" %2\n"};
    struct looked l = {.made = {{0}}};
    struct qc_graph *g[3];
    struct qc_plan *plans[3];
    CASE_FILE path[CASE_PATH];
    OWN(qc_dataset) *d = ramps(path, g[0] = test_graph(texts[0]));
    struct qc_stream stream = FIELDS(.data = d, .input_count = 1, .plan_count = 3, .workers = 2, .skips = skip_one,
                                     .share_buffer = true, .apart = 1, .ran = look, .user = &l);
    for (size_t k = 0; k < 3; k++) {
        if (k) g[k] = test_graph(texts[k]);
        MUST(qc_stream_plan(&plans[k], g[k], d, NULL, ST));
        stream.plans[k] = plans[k];
    }
    cr_expect(qc_stream_runner_bytes(&stream) <
              qc_plan_runner_bytes(plans[0]) + qc_plan_runner_bytes(plans[1]) + qc_plan_runner_bytes(plans[2]));
    MUST(qc_stream_run(&stream, ST));
    for (int s = 0; s < SAMPLES; s++) {
        const float last = (float)(s + WIDTH - 1);
        HOLD(l.made[0][s] == (s == 2 ? 0 : -last), l.made[1][s] == 4 * last * last, l.made[2][s] == 2 * last);
    }
    for (size_t k = 0; k < 3; k++) {
        qc_plan_free(plans[k]);
        qc_graph_free(g[k]);
    }
}

Test(stream, as_many_workers_as_fit)
{
    static const struct {
        unsigned wanted, workers; /* workers 0: error */
        size_t limit, fixed, each;
    } cases[] = {{4, 4, 0, 1000, 1000},    {0, 1, 0, 1000, 1000},
                 {4, 4, 5000, 1000, 1000}, {4, 3, 4999, 1000, 1000},
                 {4, 1, 2000, 1000, 1000}, {4, 0, 1999, 1000, 1000},
                 {4, 0, 999, 1000, 0},     {4, 4, 1000, 1000, 0},
                 {2, 2, SIZE_MAX, 1, 1},   {4, 0, SIZE_MAX - 1, SIZE_MAX, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned workers = 99;
        bool ok = qc_stream_workers(&workers, cases[i].wanted, cases[i].limit, cases[i].fixed, cases[i].each, ST);
        cr_expect_eq(ok, cases[i].workers > 0, "case %zu", i);
        if (ok)
            cr_expect_eq(workers, cases[i].workers, "case %zu: %u", i, workers);
        else
            cr_expect(failure.code == QC_MACHINE && strstr(failure.message, "--memory-limit"), "%s", failure.message);
    }
}

/* One calibration in a process of its own, as a user starts one after the other: each finds the same memory in use. */
struct attempt {
    bool ok;
    struct qc_status st;
    size_t each;
    unsigned workers;
};

static struct attempt calibrate_apart(const struct qc_graph *g, unsigned workers, size_t memory_limit)
{
    struct attempt done = {.st = QC_STATUS_INIT};
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    const pid_t child = fork();
    cr_assert_geq(child, 0);
    if (!child) {
        struct case_setup setup = CASE_SETUP;
        struct case_run r;
        setup.method = "kl";
        setup.samples = 4;
        setup.workers = workers;
        setup.memory_limit = memory_limit;
        if ((done.ok = case_calibrate(&r, g, QC_TEST_SOURCE "/datasets/digits_calib.h5", &setup, &done.st))) {
            done.each = r.calibration->cost.runner_bytes + r.calibration->cost.statistics_bytes;
            done.workers = r.calibration->cost.workers;
        }
        _exit(write(ends[1], &done, sizeof done) == (ssize_t)sizeof done ? 0 : 1);
    }
    close(ends[1]);
    const ssize_t n = read(ends[0], &done, sizeof done);
    close(ends[0]);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_eq(n, (ssize_t)sizeof done);
    return done;
}

Test(stream, the_memory_that_a_message_asks_for_is_enough)
{
    OWN(qc_graph) *g = case_model(QC_TEST_SOURCE "/datasets/digits_cnn.onnx");
    double mib = 0;
    const struct attempt refused = calibrate_apart(g, 4, 1 << 20);
    cr_assert(!refused.ok && refused.st.code == QC_MACHINE, "%s", refused.st.message);
    const char *needs = strstr(refused.st.message, "needs ");
    cr_assert(needs && sscanf(needs, "needs %lf MiB", &mib) == 1, "%s", refused.st.message);

    /* A page more or less is in use in each process. */
    const size_t limit = (size_t)((mib + 0.5) * 1048576);
    const struct attempt few = calibrate_apart(g, 64, limit);
    cr_assert(few.ok, "with the %.1f MiB asked for: %s", mib, few.st.message);
    cr_expect_lt(few.workers, 64);

    const struct attempt more = calibrate_apart(g, 64, limit + 8 * few.each);
    cr_assert(more.ok, "%s", more.st.message);
    cr_expect(more.workers > few.workers && more.workers < 64, "%u workers, then %u", few.workers, more.workers);
}

/* A sample that no kernel can take: an index beyond the table. */
Test(stream, the_first_failing_sample_is_named)
{
    OWN(qc_graph) *g = test_graph(
        "graph \"g\"\ninput %1 \"i\" i64[N]\nconst %2 \"table\" f32[3,2] = {1, 2, 3, 4, 5, 6}\nconst %3 \"w\" f32[2,2] "
        "= {1, 0, 0, 1}\n"
        "%4 \"e\" = Gather \"embedding\"(%2, %1) {axis=0}\n%5 \"y\" = Gemm \"gemm\"(%4, %3)\noutput \"y\" %5\n");
    static const int64_t index[SAMPLES] = {0, 1, 2, 0, 7, 1, 0, 9, 2};
    struct case_data set = {.name = "i", .dtype = QC_I64, .values = index, .rank = 0};
    CASE_FILE path[CASE_PATH];
    case_write(path, &set, 1, SAMPLES);
    for (unsigned workers = 1; workers <= 4; workers++) {
        struct case_setup setup = CASE_SETUP;
        CASE_RUN r;
        setup.workers = workers;
        REFUSES(case_calibrate(&r, g, path, &setup, ST), QC_BAD_INPUT, "");
        cr_expect(strstr(failure.message, path) && strstr(failure.message, "sample 4") &&
                      strstr(failure.message, "embedding"),
                  "%u workers: %s", workers, failure.message);
    }
}

Test(stream, an_input_without_a_shape_is_refused)
{
    OWN(qc_graph) *g = test_graph("graph \"g\"\ninput %1 \"x\" f32[?]\n%2 \"y\" = Relu(%1)\noutput \"y\" %2\n");
    REFUSES(qc_stream_specs(g, test_arena(), ST), QC_UNSUPPORTED, "'x'");
}

static bool give_row(void *out, void *user, size_t first, size_t count, struct qc_status *st)
{
    memset(out, 0, count * (first % 3 + 1) * sizeof(float));
    return true;
}

/* Samples of 1, 2, 3, 1, ... elements: those of one size beside each other, the largest first; where the order is kept
   only so many of them at a time. */
Test(stream, samples_of_one_size_run_after_each_other)
{
    enum { ALL = QC_ORDER_UNITS + 6 };
    static const struct qc_row_reader reader = {.read = give_row};
    static int64_t sizes[ALL];
    const int64_t dims[] = {ALL, -1}, free_dims[] = {-1, -1};
    const struct qc_array array = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = dims, .sizes = sizes};
    const struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = free_dims};
    OWN(qc_memory_data) *m = NULL;
    OWN(qc_dataset) *d = NULL;
    size_t *order, count, *largest;
    for (int64_t i = 0; i < ALL; i++) sizes[i] = i % 3 + 1;
    cr_assert(qc_memory_data_new(&m, "rows", ST) && qc_memory_data_add_reader(m, &array, &reader, NULL, ST));
    MUST(qc_dataset_open_memory(&d, m, &spec, 1, &QC_DATASET_OPTIONS_INIT, ST));
    MUST(qc_order_by_size(&order, d, 1, NULL, ALL, QC_ORDER_FREE, ST));
    for (size_t k = 0; k + 1 < ALL; k++) {
        const int64_t now = sizes[order[k]], next = sizes[order[k + 1]];
        cr_assert(now > next || (now == next && order[k] < order[k + 1]), "place %zu", k);
    }
    free(order);
    MUST(qc_order_by_size(&order, d, 1, NULL, ALL, QC_ORDER_KEPT, ST));
    cr_expect_eq(sizes[order[QC_ORDER_UNITS - 1]], 1);
    cr_expect_eq(order[QC_ORDER_UNITS], QC_ORDER_UNITS + 1, "the first of 3 elements behind the others");
    free(order);
    largest = qc_largest_units(&count, d, 1, test_arena(), ST);
    cr_assert(largest && count == 1 && largest[0] == 2);
}
