# SPDX-License-Identifier: Apache-2.0
"""Makes an equivalent model that quantizes badly: one channel between two convolutions is multiplied by 100, and the
weights that read it are divided by 100.

    python3 tests/e2e/outlier_model.py resnet20_cifar10.onnx out.onnx [FIRST SECOND [FACTOR]]

The two are convolutions with nothing but relu between them. The first's result then needs a range of which all other channels use a hundredth.
"""

import sys

import numpy
import onnx
from onnx import numpy_helper

FIRST, SECOND = "/layer2/layer2.1/conv1/Conv", "/layer2/layer2.1/conv2/Conv"


def with_outlier(model, first=FIRST, second=SECOND, factor=100.0):
    """Scales the channel of `first` that has the largest weights by factor, and what `second` reads of it by 1/factor. A power of two would change no result at
    all; another factor changes roundings of float32 only."""
    nodes = {n.name: n for n in model.graph.node}
    tensors = {t.name: t for t in model.graph.initializer}

    def change(name, edit):
        array = numpy_helper.to_array(tensors[name]).copy()
        edit(array)
        tensors[name].CopyFrom(numpy_helper.from_array(array, name))

    weight, bias = nodes[first].input[1:3]
    channel = int(numpy.abs(numpy_helper.to_array(tensors[weight])).sum(axis=(1, 2, 3)).argmax())

    def larger(array):
        array[channel] *= factor

    def smaller(array):
        array[:, channel] /= factor

    change(weight, larger)
    change(bias, larger)
    change(nodes[second].input[1], smaller)
    return model


if __name__ == "__main__":
    made = with_outlier(onnx.load(sys.argv[1]), *sys.argv[3:5], *map(float, sys.argv[5:6]))
    onnx.save(made, sys.argv[2])
