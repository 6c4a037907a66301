# SPDX-License-Identifier: Apache-2.0
"""Options of a job that change the ends of the file, or fix parameters, by their Python names."""

import json

import numpy as np
from conftest import DIGITS

import qcalib


def test_io_type(samples):
    result = qcalib.quantize(DIGITS, samples, method="minmax", io_type=["model:input"])
    (port,) = result.report["integer_ports"]
    assert (port["name"], port["direction"], port["type"]) == ("input", "input", "uint8")
    whole = qcalib.quantize(DIGITS, samples, method="minmax", prefer="integers")
    levels = np.clip(np.rint(samples / np.float32(port["scale"])) + port["zero_point"], 0, 255).astype(np.uint8)
    np.testing.assert_array_equal(qcalib.run(result, levels)["logits"], qcalib.run(whole, samples)["logits"])


def test_encodings(samples, tmp_path):
    file = tmp_path / "overrides.json"
    file.write_text(json.dumps({"input": [{"quant_type": "QUInt8", "scale": 0.0625, "zero_point": 100}]}))
    result = qcalib.quantize(DIGITS, samples, method="minmax", encodings=file)
    (layer,) = (row for row in result.report["layers"] if row["name"] == "input")
    assert layer["scale"] == [0.0625] or layer["scale"] == 0.0625
    assert layer["zero_point"] in (100, [100])
