#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_node_tests.py FOLDER: writes the node tests of the installed onnx, which come as a program, into
FOLDER/test_x/{model.onnx,tolerance,test_data_set_0/{input,output}_N.pb}. Does nothing where they are there already."""
import pathlib
import sys
import warnings

import onnx
from onnx import TensorProto, numpy_helper


def tensor(value, port):
    """The bytes of a tensor; none where the port is a sequence, an optional or a map."""
    if not port.type.HasField("tensor_type"):
        return b""
    if not isinstance(value, TensorProto):
        value = numpy_helper.from_array(value, port.name)
    return value.SerializeToString()


def main():
    folder = pathlib.Path(sys.argv[1])
    stamp = folder / "version"
    if stamp.exists() and stamp.read_text() == onnx.__version__:
        return
    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        to = folder / case.name
        data = to / "test_data_set_0"
        data.mkdir(parents=True, exist_ok=True)
        (to / "model.onnx").write_bytes(case.model.SerializeToString())
        (to / "tolerance").write_text(f"{case.rtol} {case.atol}\n")
        graph = case.model.graph
        inputs, outputs = case.data_sets[0]
        for kind, values, ports in (("input", inputs, graph.input), ("output", outputs, graph.output)):
            for k, (value, port) in enumerate(zip(values, ports)):
                (data / f"{kind}_{k}.pb").write_bytes(tensor(value, port))
    stamp.write_text(onnx.__version__)


main()
