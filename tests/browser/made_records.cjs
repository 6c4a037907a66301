// SPDX-License-Identifier: Apache-2.0
// Records of reports that no job has written, and pages with them as export/report/page.c makes them.
'use strict';
const fs = require('node:fs');
const path = require('node:path');

const viewer = path.join(__dirname, '../../export/report/viewer');
const NAME = '</script><img src=x onerror="globalThis.broken=1"><b data-hostile>\u202e\u0007\u200b\'`${broken}{{record}}/';

const madePage = (folder, name, json) => {
  const text = JSON.stringify(json).replaceAll('<', '\\u003c');
  const page = fs.readFileSync(path.join(viewer, 'report.html'), 'utf8')
    .replace(/\{\{#layers\}\}[^]*\{\{\/layers\}\}/, '')
    .replaceAll(/\{\{>([\w.]+)\}\}/g, (_, file) => fs.readFileSync(path.join(viewer, file), 'utf8'))
    .replaceAll(/\{\{(?!record)[\w.]+\}\}/g, '')
    .replace('{{record}}', () => text);
  const file = path.join(folder, `${name}.html`);
  fs.writeFileSync(file, page);
  return file;
};

// A chain of convolutions, each with its weight: `count` layers in all. The order of the errors is not that of the layers.
const record = (count, prefix = '/', grade = 'usable', sqnr_db = 25) => {
  const layers = [], graph = [{ kind: 'input', name: `${prefix}input`, op: 'input', shape: '[N,3,8,8]', inputs: [], layer: null }], ranking = [];
  for (let i = 0; i < count; i++) {
    const block = Math.floor(i / 2), node = `${prefix}block${block}/conv`, weight = i % 2 === 1, db = 20 + (block * 7919) % 40, spread = 1 + (i % 5);
    layers.push({ name: `${prefix}block${block}/${weight ? 'weight' : 'out'}`, op: 'Conv', node, kind: weight ? 'weight' : 'activation', type: weight ? 'i8' : 'u8',
      scale: weight ? [0.01, 0.02, 0.03] : 0.05, zero_point: weight ? [0, 0, 0] : 3, axis: weight ? 0 : null, one_scale: null, method: 'mse',
      observed: { min: -spread, max: spread, count: 4096, nan: i === 4 ? 2 : 0, inf: 0 }, chosen: { min: -spread * 0.9, max: spread * 0.9 }, clipped_fraction: 0.001,
      solver: { known: { min: weight ? null : 0, max: null }, behind: null, objective: 1e-4, objective_minmax: 2e-4, candidates: 4, curve: [[1, 1e-2], [2, 1e-3], [3, null], [4, 2e-3]], refused: [[3, 5e-4]], runner_up: { min: -2, max: 2, objective: 1e-3 } },
      output_sqnr_db: db, sqnr_db: weight ? null : db - 3, sqnr_alone_db: db + 5, cosine: weight ? null : 0.999, max_abs: weight ? null : 0.2, saturated_fraction: 0.01,
      weight_rounding: weight ? { method: 'compensated', reason: null, judged_on: 'all', error_nearest: 2e-5, error: 1e-5, outputs: 3, outputs_nearest: 0, blocks: 1 } : null,
      bias_correction: weight ? { rms: 1e-3, max: 2e-3 } : null, accumulator_bits: weight ? null : 21, accumulator_bits_seen: weight ? null : 18, accumulator_overflows: null, lost_fraction: 0.02,
      histogram: { min: -spread, max: spread, zeros: 12, counts: Array.from({ length: 64 }, (_, k) => Math.round(1000 * Math.exp(-((k - 32) ** 2) / 100))) },
      ...(weight ? { channels: { count: 3, min: [-1, -0.5, -2], max: [1, 0.7, 1.5] } } : {}) });
    if (weight) continue;
    ranking.push({ node, op: 'Conv', output_sqnr_db: db, measured: block % 3 === 0 });
    graph.push({ kind: 'integer', name: node, op: ['Conv', 'Conv + Relu', 'Conv + Clip', 'Gemm'][(block * block) % 7 % 4], shape: '[N,8,4,4]', inputs: [graph.length - 1], layer: i });
  }
  graph.push({ kind: 'output', name: `${prefix}y`, op: 'output', shape: '[N,10]', inputs: [graph.length - 1], layer: null });
  const node = layers[0]?.node ?? null, measured = (before, after) => ({ sqnr_db_before: before, sqnr_db_after: after, outputs: [{ name: `${prefix}y`, sqnr_db_before: before, sqnr_db_after: after }], held_back: { sqnr_db_before: before, sqnr_db_after: after } });
  return { tool: 'qcalib', version: '1', verdict: { grade, text: `the outputs have ${sqnr_db} dB` }, network: 'int8', command: `qcalib quantize ${prefix}model.onnx`,
    model: { file: `${prefix}model.onnx`, sha256: '00', bytes: 1e6 }, data: { file: `${prefix}data.h5`, sha256: '11', samples: 10, samples_in_file: 20, samples_dropped: 0 }, statistics: null,
    options: { method: 'mse', skip: [prefix] }, accuracy: null, accumulator: { bits: 16, overflow: 'wrap', bound: 'auto', file: `${prefix}data.h5`, samples: 4, scales_raised: 1, channels_bounded: 2, layers: [{ name: node, overflows: 3, results: 1000, bits: 18 }] },
    outputs: [{ name: `${prefix}y`, sqnr_db, cosine: 0.99, max_abs: 0.5, equal: false }], measured_samples: 4, quantized_ops: count / 2,
    float_ops: [{ name: `${prefix}softmax`, op: 'Softmax', reason: `has no integer form ${prefix}` }], int8_share: 1, integer_share: 1,
    sensitivity: [], sensitivity_samples: 0, fallback: { max_drop: null, min_sqnr: 30, max_nll: null, met: false, mended: true, options: [], command: null, steps: [{ layers: 2, type: '16 bits', value: null, drop: null, sqnr_db: 25, nll: null, int8_share: 0.5, met: false, chosen: false, reason: null }] },
    trials: [{ method: 'mse', sqnr_db, gain_db: 0, error_db: 0, worth_db: 0, samples: 4, chosen: true }, { method: 'kl', sqnr_db: 20, gain_db: -5, error_db: 1, worth_db: -6, samples: 4, chosen: false }],
    free_changes: [{ name: 'equalize', options: ['--equalize=free'], gain_db: 2, error_db: 0.1, samples: 4, kept: true }], groups: [], ranking: ranking.sort((a, b) => a.output_sqnr_db - b.output_sqnr_db),
    suggestions: [{ name: node, op: 'Conv', sqnr_db_before: 40, sqnr_db_after: 20, why: `its range is wide ${prefix}`, layer: 0 }],
    advice: [{ command: ['qcalib', 'quantize', `--skip=${node}`, `${prefix}model.onnx`], action: 'Keep in float', node, measured: measured(sqnr_db, sqnr_db + 5) },
      { command: ['qcalib', 'quantize'], action: 'Change nothing', node: null, measured: measured(sqnr_db, sqnr_db + 0.001) }], advice_tried: 2, advice_left: 1, advice_state: 'tried', advice_left_out: [{ action: 'Give weights 4 bits', node: null }],
    cheaper: null, warnings: [`a warning about ${prefix}`], layers, graph, files: [{ file: `${prefix}model.int8.onnx`, bytes: 260000 }], memory: {}, timing: {} };
};

module.exports = { NAME, madePage, record };
