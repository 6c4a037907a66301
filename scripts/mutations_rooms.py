# SPDX-License-Identifier: Apache-2.0
"""Mutations outside the arithmetic: statistics, choices, reading and writing of files."""


def of_rooms(mutation):
    """Returns the mutations. mutation: the class of scripts/mutations.py."""
    def room(kind, tests):
        def one(name, file, old, new, equivalent=""):
            return mutation(kind, name, file, old, new, tests, equivalent)
        return one

    return [*graph(room("graph", ("test_graph",))), *observers(room("observers", ("test_observers", "test_calib"))),
            *calib(room("calib", ("test_calib",))),
            *datasets(room("datasets", ("test_datasets",))), *onnx(room("onnx", ("test_onnx",))),
            *export(room("export", ("test_export",))), *record(room("record", ("test_quantize",)))]


def graph(one):
    uses, rebuild = "graph/core/uses.c", "graph/core/rebuild.c"
    return [
        one("readers: outputs of the graph are none", uses, "add_use(use, next, g->outputs[i].value, 0, (unsigned)i);", ""),
        one("readers: nodes count outputs too", uses, "outputs[g->outputs[i].value]++;", ""),
        one("readers: the first of several is the only one", uses, "return l.count == 1 ? l.of[0].node : 0;",
            "return l.count ? l.of[0].node : 0;"),
        one("readers: which input is not kept", uses, ".node = node, .input = input}", ".node = node, .input = 0}"),
        one("a node like another: always its op", rebuild, "if (def.op == QC_OP_INVALID) def.op = n->op;",
            "def.op = n->op;"),
        one("a node like another: without its attributes", rebuild, "def.attr_count = n->attr_count;",
            "def.attr_count = 0;"),
        one("a node like another: outputs have no names", rebuild, "names[k] = from->values[n->outputs + k].name;",
            "names[k] = NULL;"),
    ]


def observers(one):
    histogram, search, kl = "observers/histogram_counting.c", "observers/search.c", "observers/kl.c"
    merge = "observers/histogram_counting.c"
    return [
        one("percentile: the share is cut off both ends in full", "observers/percentile.c", "if (two_sided) cut /= 2;",
            ""),
        one("percentile: zeros are no mass", "observers/percentile.c", "if (bins && s->zeros) bins[n++] =",
            "if (bins && s->zeros > UINT64_MAX - 1) bins[n++] ="),
        one("percentile: beyond what was seen", "observers/percentile.c",
            "fmin(limits.hi, fmax(0, qc_bins_value(bins, n, total - cut)))", "limits.hi"),
        one("ema: the new sample counts for the past", "observers/ema.c", "keep * lo + (1 - keep) * (double)e->min",
            "(1 - keep) * lo + keep * (double)e->min"),
        one("ema: the first sample is not the beginning", "observers/ema.c", "hi = first ? (double)e->max :",
            "hi = false ? (double)e->max :"),
        one("avgmax: sum instead of mean", "observers/avgmax.c", "return n ? sum / (double)n : 0;", "return sum;"),
        one("mse: every norm is 2", "observers/mse.c", "if (p.norm != 2) search.objective = objective_of_norm;", ""),
        one("mse: the objective is a sum", "observers/mse.c",
            "r->levels, r->symmetry, p->clip) / p->count;", "r->levels, r->symmetry, p->clip);"),
        one("kl: no smoothing", kl, "if (w >= 1) {", "if (w < 0) {"),
        one("kl: any squared error is admitted", kl, "return (double)INFINITY;\n    return divergence_of(user",
            ";\n    return divergence_of(user"),
        one("kl: the last level ends at its own cell", kl,
            "double to = k < last ? qc_level_edge(k, levels) * s : d->b;\n"
            "        if (to <= from) continue;\n        if (to > d->b) to = d->b;\n"
             "        double upto = mass_below(d, to), m",
            "double to = qc_level_edge(k, levels) * s;\n"
            "        if (to <= from) continue;\n        if (to > d->b) to = d->b;\n"
             "        double upto = mass_below(d, to), m"),
        one("kl: as many levels as bins are searched too", kl, ">= (int64_t)count) {",
            ">= (int64_t)count && count == 1) {"),
        one("search: no descent", search, "        descend(&near);\n        descend(&far);\n", ""),
        one("search: not refined", search, "    refine(&near);\n", ""),
        one("search: a worse range is taken", search, "if (!(v < w->best)) return false;",
            "if (!(v > w->best)) return false;"),
        one("search: beyond the limits", search, "hi = hi < limits->hi ? hi : limits->hi;", ""),
        one("histogram: NaN is infinity", histogram, "s->tally.nan++;", "s->tally.pos_inf++;"),
        one("histogram: minus infinity is plus infinity", histogram, "u >> 31 ? &s->tally.neg_inf",
            "u >> 31 ? &s->tally.pos_inf"),
        one("histogram: zeros beside NaN are not counted", histogram, "s->tally.zeros += one.zeros;", ""),
        one("histogram: zeros are not counted", histogram, "s->tally.zeros += f.zeros;\n", "\n"),
        one("histogram: what falls below the window is lost", histogram,
            "for (size_t i = 1; i <= d; i++) counts[0] += counts[i];", ""),
        one("histogram: a list of values is not counted", histogram, "    count_list(s->counts, s);",
            "    memset(s->counts, 0, QC_COUNTERS * sizeof *s->counts);"),
        one("histogram: merging moves what falls below the window", merge, "(counter > d ? counter - d : 0)",
            "(counter > d ? counter - d : counter)"),
        one("histogram: merging keeps one of two counts", merge, "to->counts[to->used - 1] += count;",
            "to->counts[to->used - 1] = count;"),
        one("histogram: merged zeros", merge, "t->zeros += o->zeros;", ""),
        one("histogram: first bad sample is the last", merge, "o->first_bad_sample < t->first_bad_sample",
            "o->first_bad_sample > t->first_bad_sample"),
        one("histogram: sample of the least value", merge,
            "if (lower || (o->min == t->min && o->min_sample < t->min_sample))", "if (false)"),
        one("histogram: bins reach beyond what was seen", merge, ".hi = clamp(negative ? -inner : outer, min, max)",
            ".hi = negative ? -inner : outer"),
    ]


def calib(one):
    merge, compensate = "calib/statistics/collection.c", "calib/weights/compensate.c"
    solve, scoring = "calib/weights/round_weights_solve.c", "calib/metrics/accuracy.c"
    compare = "calib/metrics/compare.c"
    weights, fit = "calib/ranges/weights.c", "calib/accumulator/fit_accumulator.c"
    factorise, low_rank = "calib/weights/factorise.c", "calib/weights/low_rank.c"
    read, rows, trials = "calib/moments/moments_read.c", "calib/moments/moments_sums.c", "calib/trials/trial_run.c"
    return [
        one("merge: statistics of another model", merge, "if (strcmp(a->model_sha256, b->model_sha256) != 0)",
            "if (false)"),
        one("merge: other preprocessing", merge, "if (strcmp(expected, got) != 0)", "if (false)"),
        one("merge: a shard twice", merge, "if (before && r.first - before->first < before->count) return",
            "if (false) return"),
        one("merge: shards that overlap behind", merge, "if (after && after->first - r.first < r.count) return",
            "if (false) return"),
        one("merge: ranges do not join", merge, "before && before->first + before->count == r.first,", "false,"),
        one("merge: samples keep the number of another part", merge,
            "for (size_t i = 0; i < c->range_count; i++) c->ranges[i].part += c->ranges[i].part >= at;", ""),
        one("merge: a missing shard", merge, "if (seen != c->parts[p].chosen)", "if (false)"),
        one("factor: a panel too few", factorise, "first += QC_FACTOR_PANEL) {",
            "first += QC_FACTOR_PANEL + (first == 0 && n > 250)) {"),
        one("factor: no damping", factorise, "for (size_t i = 0; i < n; i++) a[i * n + i] += damping;", ""),
        one("factor: the other order of columns", factorise, "return diagonal[x] < diagonal[y] ||",
            "return diagonal[x] > diagonal[y] ||"),
        one("low rank: not centred", low_rank, "left[i] += centre[i] * (centre[i] - 2 * mean[i]);", ";"),
        one("low rank: earlier columns stay in", low_rank, "take_off(row, rows, w, at, f->rank, w);", ""),
        one("low rank: the matrix stays", low_rank, "!qc_pool_run(panels, take_block_off, &b, team, st)",
            "false"),
        one("low rank: errors are not carried", low_rank, "e[k * QC_LANES + l] = (float)to[l];",
            "e[k * QC_LANES + l] = 0;"),
        one("low rank: rows are not centred", read, "((double)x[i] - (centre ? centre[i] : 0))", "(double)x[i]"),
        one("moments: a column below the diagonal", read, "least_moments(i, column), i > column ? i : column);",
            "i, column);"),
        one("compensated: levels have no end", compensate, "x = x > hi ? hi : x;", ""),
        one("compensated: cut", compensate, "return (x + magic) - magic;", "return (double)(long long)x;"),
        one("compensated: a second look at what is no more", compensate,
            "qc_lanes_carry(scratch + begin * QC_LANES, h + i * n + begin, by, end - begin);", ""),
        one("compensated: columns before a block keep their sums", compensate,
            "qc_lanes_carry_all(scratch, c.row, c.by, 0, begin, c.count);", ""),
        one("moments: rows that came twice count once", rows, "to->counts[to->count] = (double)same;", "to->counts[to->count] = 1;"),
        one("crossed: all of it is believed", "calib/weights/crossed.c", "fmin(fmax(with / of, 0), 1)", "1"),
        one("crossed: nothing is held back", "calib/weights/crossed.c",
            "if (c->held) read_crossed_part(c->held_h",
            "if (c->held) read_crossed_part(c->h"),
        one("crossed: means of the real values", "calib/weights/crossed.c", "real[i] = all[at] + all[at + each];",
            "real[i] = all[at];"),
        one("crossed: few samples are believed", "calib/weights/crossed.c", "PART_UNKNOWN = 0.5;", "PART_UNKNOWN = 1;"),
        one("checkpoint: damaged layers are taken", "calib/weights/rounded_layers.c", "sum == w.sum;", "true;"),
        one("trials: samples that weights were fitted to judge", trials, "if (held < HELD_LEAST) return;",
            "if (held < 1000000) return;"),
        one("trials: a gain is surer than it is", trials, "sqrt(squares * (double)units / ((double)units - 1))",
            "sqrt(squares)"),
        one("few samples: as few as one", "calib/ranges/expected_error.c",
            "QC_MANY_SAMPLES / (double)n;", "QC_MANY_SAMPLES;"),
        one("unseen: nothing is beyond what was seen", "calib/ranges/expected_error.c", "return law > 0 ?", "return law < 0 ?"),
        one("rounding: the worse of two is kept", solve, "(o.crossed || after[k] < before[k])",
            "(o.crossed || after[k] > before[k])"),
        one("rounding: the bias takes no shift up", solve,
            "s->shift[k] += ((double)from[k] - (double)to) * mean",
            "s->shift[k] += 0 * mean"),
        one("rounding: error in steps", solve, "made->error += (better ? after[k] : before[k]) * base[k] * base[k];",
            "made->error += (better ? after[k] : before[k]);"),
        one("rounding: one scale for all outputs", solve, "l->qparams->count == 1 ? 0 : g->transposed ? at % per : at;",
            "0;"),
        one("rounding: moments are not centred", "calib/weights/round_weights_parts.c",
            "h[i * w + j] += centre[i] * centre[j] - centre[i] * m[j] - m[i] * centre[j];",
            "h[i * w + j] += 0 * centre[i] * m[j];"),
        one("top-1: a tie counts", scoring, "(r.at[c * r.step] == own && c < label)", "false"),
        one("top-1: NaN is right", scoring, "t->top1 += !isnan(own) && better == 0;", "t->top1 += better == 0;"),
        one("top-5: the sixth counts", scoring, "better < 5;", "better < 6;"),
        one("PSNR: nothing is clamped", scoring, "out->clamped += (inside - to) * (inside - to);",
            "out->clamped += (v - to) * (v - to);"),
        one("labels beyond the classes", scoring, "if (labels[i] < 0 || (uint64_t)labels[i] >= classes)",
            "if (labels[i] < 0)"),
        one("chance: any top-1 is better", "calib/metrics/accuracy.c", "(m->value - guess) / (1 - guess) < 0.1;",
            "false;"),
        one("drop: in parts, not points", "calib/metrics/accuracy.c", "? 100 * drop :",
            "? drop :"),
        one("interval: both ends low", "calib/metrics/interval_beta.c", "beta_quantile(1 - tail, k + 1, misses)",
            "beta_quantile(tail, k + 1, misses)"),
        one("SQNR: natural logarithm", compare, "10 * log10(e->signal / e->noise)", "10 * log(e->signal / e->noise)"),
        one("cosine: of anything is 1", compare, "if (e->cross == e->signal && e->cross == e->power) return 1;",
            "return 1;"),
        one("saturated: lower end is not counted", compare, "(uint64_t)(integer <= lo) | (uint64_t)(integer >= hi)",
            "(uint64_t)(integer >= hi)"),
        one("errors: largest of two units", compare, "if (e->max_abs > to->max_abs) to->max_abs = e->max_abs;", ""),
        one("errors: the rest behind whole lanes", compare, "for (size_t l = 0; i < n; i++, l++) compare_lane",
            "for (size_t l = 0; i < n && l > 99; i++, l++) compare_lane"),
        one("weights: a channel of zeros keeps scale 0", weights, "c->scale[i] = widest > 0 ? widest : 1;",
            "c->scale[i] = widest > 0 ? 0 : 1;"),
        one("pairs: the second takes what it likes", "calib/weights/compensate.c",
            "hi[l] = above < hi[l] ? above : hi[l];", ""),
        one("pairs: no scale is raised", "calib/ranges/fit_pairs.c", "if (now <= limit) return scale;", "return scale;"),
        one("weights: NaN is taken", weights, "if (choice->seen.nan || choice->seen.pos_inf || choice->seen.neg_inf)",
            "if (false)"),
        one("weights: the bias may overflow", weights, "s->c->raised += fit_bias(channels, s, &quantizer->use);", ""),
        one("accumulator: what was proven is not", fit, "if (now <= f->limit) return scale;", "return scale;"),
        one("accumulator: sums below 0 are not seen", fit,
            "fmax((double)of->sums.highest[c], -(double)of->sums.lowest[c])", "(double)of->sums.highest[c]"),
    ]


def datasets(one):
    preprocess, choice = "datasets/samples/preprocess.c", "datasets/stream/dataset_units.c"
    convert = "datasets/stream/sample_convert.c"
    process, windows = "datasets/hdf5/reader_process.c", "datasets/hdf5/data_reader.c"
    sandbox = "datasets/hdf5/sandbox.c"
    return [
        one("preprocess: a key twice", preprocess, "if (*keys[i].count) return", "if (false) return"),
        one("preprocess: std of 0", preprocess, "if (p.std[i] == 0.0f) return", "if (false) return"),
        one("preprocess: fractions", preprocess, "float v = (float)(a / b);", "float v = (float)a;"),
        one("preprocess: hexadecimal numbers", preprocess, "if (!strchr(\"+-.0123456789eE\", *p)) return false;", ";"),
        one("preprocess: none beside others", preprocess, "if (none && words > 1) return", "if (false) return"),
        one("samples: not spread evenly", choice, "out[j] = j * (total / n) + j * (total % n) / n;",
            "out[j] = j * (total / n);"),
        one("samples: drawn twice", choice, "out[k] = insert(table, size - 1, t) ? t : j;",
            "insert(table, size - 1, t); out[k] = t;"),
        one("samples: the seed is nothing", choice, "state = selection->seed;", "state = 0;"),
        one("samples: not in order", choice, "qsort(out, n, sizeof *out, qc_order_u64);", ""),
        one("convert: the mean is added", convert, "return (x * s.scale - s.mean) / s.std;",
            "return (x * s.scale + s.mean) / s.std;"),
        one("convert: no std", convert, "return (x * s.scale - s.mean) / s.std;", "return x * s.scale - s.mean;"),
        one("convert: one mean for all channels", convert, "p->mean[p->mean_count > 1 ? channel : 0]", "p->mean[0]"),
        one("convert: integers that do not fit", convert,
            "if (!fits || w.magnitude > (w.negative ? negative : positive))", "if (!fits)"),
        one("convert: fractions become integers", convert, "|| v != trunc(v)) return false;", ") return false;"),
        one("reader: answers of any size", process, "(!p->shared || a.size > SHARED_BYTES)", "!p->shared"),
        one("reader: an answer that nobody waited for is given to the next", process,
            "finish_begun(p);\n    int64_t left", "int64_t left"),
        one("reader: what is begun twice", process, "const bool idle = p->pid && !p->begun",
            "const bool idle = p->pid"),
        one("reader: an answer too large for both begins anew", process,
            "if (r->larger && r->size) memcpy(p, r->data, r->size);", ""),
        one("windows: rows behind the end of one", windows, "first - w->first <= w->count - count;", "true;"),
        one("windows: the next one is that before", windows, "w->first = w->next;\n", ""),
        one("windows: another row of it", "datasets/hdf5/data_reader.c", "(size_t)(first - w->first) * s->row_bytes",
            "0 * s->row_bytes"),
        one("convert: least int64", convert, "v < 0 ? 0 - (uint64_t)v : (uint64_t)v", "(uint64_t)v"),
        one("sandbox: files are opened to write", sandbox, "O_RDONLY | O_CLOEXEC | O_NONBLOCK",
            "O_RDONLY | O_WRONLY | O_CLOEXEC | O_NONBLOCK"),
        one("sandbox: a call that reading does not need", sandbox, "CALL(getdents64),", "CALL(getdents64), CALL(getpriority),"),
        one("sandbox: folders are not listed", sandbox, "CALL(getdents64),", ""),
        one("sandbox: memory as code, with plugins", sandbox, "PROT_READ | PROT_EXEC, WITHIN, 3, MAPPED)",
            "PROT_READ | PROT_EXEC, WITHIN, 3, MAPPED | MAP_ANONYMOUS)"),
        one("sandbox: memory of other processes", sandbox, "    leave_other_processes();", "    (void)leave_other_processes;"),
        one("reader: it lives on", process, "    kill(pid, SIGKILL);", "    return true;"),
        one("reader: its text as it is", process, "text += qc_shown(piece, &escaped, text);",
            "escaped = false; piece[0] = *text++; piece[1] = 0;"),
        one("images: 300 scans", "datasets/images/read_jpeg.c", "SCANS_MAX = 200", "SCANS_MAX = 300"),
        one("images: decoded outside of the sandbox", process, "    qc_sandbox_enter(channel, code_of(kind));",
            "    if (kind->plugins) qc_sandbox_enter(channel, code_of(kind));"),
        one("images: any number of pixels", "datasets/images/pixels.c", " || count > QC_PIXELS_MAX)", ")"),
    ]


def onnx(one):
    external = "onnx/read/import_tensor.c"
    tensor, shapes, opset = "onnx/read/import_tensor.c", "onnx/read/import_shapes.c", "onnx/write/emit_model.c"
    return [
        one("4 bits: high half first", tensor, "(unsigned)p[i / each] >> (i % each * bits)",
            "(unsigned)p[i / each] >> ((each - 1 - i % each) * bits)"),
        one("4 bits: no sign", tensor, "&& v & sign ? v - most - 1 : v", "&& v & sign ? v : v"),
        one("bool: any byte", tensor, "((uint8_t *)t->data)[i] = p[i] != 0;", "((uint8_t *)t->data)[i] = p[i];"),
        one("integers outside of their type", tensor, "if (t->dtype != QC_BOOL && (v[i] < lo || v[i] > hi))",
            "if (false)"),
        one("too few elements", tensor, "if (got == want) return true;", "return true;"),
        one("raw data of another size", tensor, "if (p->raw_data.len == raw) return true;", "return true;"),
        one("external data above the model's folder", external, "if (n == 2 && p[0] == '.' && p[1] == '.') return false;",
            ""),
        one("external data by an absolute path", external, "if (!*s || *s == '/') return false;", ""),
        one("external data of another length", external, "else if (e.has_length && e.length != need)", "else if (false)"),
        one("negative dimensions", tensor, "if (p->dims[i] < 0) return", "if (false) return"),
        one("pad: axes are not spread", shapes, "all[rank + at] = pads[axis_count + k];", "all[rank + at] = pads[k];"),
        one("pad: a fill value is taken for zero", shapes, "(fill && fill->count == 1 && all_zero_bytes(fill))",
            "fill"),
        one("slice: steps are dropped", shapes, "if (ones) qc_import_set(w, 4, QC_ABSENT);",
            "if (steps) qc_import_set(w, 4, QC_ABSENT);"),
        one("split: the last part is not smaller", shapes, "v[i] = left < each ? left : each;", "v[i] = each;"),
        one("transpose: without perm", shapes, "perm[i] = rank - 1 - i;", "perm[i] = i;"),
        one("opset of HardSwish", opset, "{QC_OP_HardSwish, 14},", "{QC_OP_HardSwish, 13},"),
        one("opset of 16-bit QuantizeLinear", opset,
            "if (stored == QC_U16 || stored == QC_I16 || qc_attr_int(n, \"block_size\", 0))\n            opset = 21;",
            "if (qc_attr_int(n, \"block_size\", 0))\n            opset = 21;"),
        one("opset of the model itself", opset, "int opset = larger(LOWEST, g->opset);", "int opset = LOWEST;"),
        one("opset of 4-bit values", opset, "if (t == QC_U4 || t == QC_I4) return 21;", ""),
    ]


def export(one):
    lowering, qoperator = "export/formats/lowering.c", "export/formats/qoperator.c"
    return [
        one("4 bits are not clipped", lowering, "return have.lo > all.lo || have.hi < all.hi;", "return false;"),
        one("zero point is 0", lowering, "zero[i] = (unsigned char)z;", "zero[i] = 0;"),
        one("axis of QuantizeLinear is left out", lowering, ".attr_count = vector,", ".attr_count = 0,"),
        one("float weights are rounded by the runtime", lowering,
            "if (is_rounded_by_runtime(x, n, inputs[0])) inputs", "if (false) inputs"),
        one("channels are fused by the runtime", lowering,
            "if (has_channels(x, v)) return x->real[v] = keep_apart(x, JOINS_CHANNELS, real, qc_lower_base(x, v), st);",
            ""),
        one("names that exist already", lowering,
            "for (unsigned k = 1; *name && qc_graph_find_value(x->to, *name); k++) {",
            "for (unsigned k = 1; false; k++) {"),
        one("one value has many QuantizeLinear", lowering, "if (x->real[v]) return x->real[v];", ""),
        one("QLinearConv with zero points by channel", qoperator, "return n->op != QC_OP_Conv || !qc_lower_zero_points_differ(w);",
            "return true;"),
        one("an accumulator that two read", qoperator, "n ? qc_only_reader(&x->uses, n->outputs) : 0;",
            "n && qc_all_uses(&x->uses, n->outputs).count\n"
             "            ? x->uses.use[x->uses.first[n->outputs + 1] - 1].node : 0;"),
        one("relu's lowest level", qoperator, "n->op == QC_OP_Relu ? s->zero_point[0] : levels.lo", "levels.lo"),
        one("padding of integers", qoperator, "int32_t q = s->zero_point[0];\n        bound_level",
            "int32_t q = 0;\n        bound_level"),
        one("pools with dilations", qoperator, "|| qc_attr_find(n, \"dilations\")) return false;", ") return false;"),
    ]


def record(one):
    layers = "quantize/report/record_layers.c"
    return [
        one("scale in place of the zero point", layers,
            "zero_point ? qc_json_integer(p->zero_point[0]) : qc_json_float(p->scale[0])",
            "qc_json_float(p->scale[0])"),
        one("clipped share", layers, "c->range.clipped_fraction", "l->lost_fraction"),
        one("SQNR of a layer alone", layers, "l->sqnr_db, l->alone_db,", "l->sqnr_db, l->sqnr_db,"),
        one("number of quantized operators", "quantize/job.c", "quantized_ops %zu\", quantized);", "quantized_ops %zu\", qc_json_size(floats));"),
    ]
