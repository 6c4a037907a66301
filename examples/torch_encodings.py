#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads the encodings of a model into torch.ao: fake quantization in the PyTorch network that the model was exported from.

Needs torch, onnx, onnxruntime and qcalib. Exports a small network, quantizes it with `format=["qdq", "encodings"]`, puts
a FakeQuantize into the network for each encoding, and compares it with the QDQ file in ONNX Runtime. From there the
network can be trained further with these scales. Writes net.onnx into the current folder.
"""
import json

import numpy as np
import onnxruntime
import torch
from torch import nn
from torch.ao.quantization import FakeQuantize, FixedQParamsObserver, PerChannelMinMaxObserver
from torch.nn.utils import parametrize

import qcalib


def fake_quantize(encodings):
    """Returns a torch.ao FakeQuantize with the parameters of one tensor: real = scale * (q + offset), q from 0."""
    scale, zero_point = [e["scale"] for e in encodings], [-e["offset"] for e in encodings]
    limits = {"dtype": torch.quint8, "quant_min": 0, "quant_max": 2 ** encodings[0]["bitwidth"] - 1}
    if len(encodings) == 1:
        fake = FakeQuantize(FixedQParamsObserver, scale=scale[0], zero_point=zero_point[0], **limits)
    else:  # weights: one scale for each result, which is axis 0 in PyTorch
        fake = FakeQuantize(PerChannelMinMaxObserver, ch_axis=0, **limits)
    fake.disable_observer()  # the scales stay as they are
    fake.scale, fake.zero_point = torch.tensor(scale), torch.tensor(zero_point, dtype=torch.int32)
    return fake


def load_encodings(net, encodings, inputs):
    """Puts the encodings into the network. `inputs`: names of its inputs in the ONNX file. Returns the names without a place.

    torch.onnx.export(dynamo=False) names a weight as its parameter, and the result of a module "/PATH/Op_output_0".
    """
    modules, parameters, lost = dict(net.named_modules()), dict(net.named_parameters()), []
    for name, encoding in encodings["param_encodings"].items():
        if name in parameters:
            owner, _, parameter = name.rpartition(".")
            parametrize.register_parametrization(modules[owner], parameter, fake_quantize(encoding))
        else:
            lost.append(name)
    for name, encoding in encodings["activation_encodings"].items():
        fake = fake_quantize(encoding)
        path = name.split("/")[-2] if name.count("/") > 1 else None
        if name in inputs:
            net.register_forward_pre_hook(
                lambda _, x, fake=fake, i=inputs.index(name): (*x[:i], fake(x[i]), *x[i + 1:]))
        elif path in modules:
            modules[path].register_forward_hook(lambda _, x, y, fake=fake: fake(y))
        else:
            lost.append(name)
    return lost


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)).eval()
    torch.onnx.export(net, torch.zeros(1, 3, 16, 16), "net.onnx", input_names=["image"], output_names=["logits"], dynamo=False,
                      dynamic_axes={"image": {0: "N"}, "logits": {0: "N"}})
    images = torch.randn(256, 3, 16, 16)
    result = qcalib.quantize("net.onnx", {"image": images.numpy()}, format=["qdq", "encodings"], weight_rounding="nearest",
                             bias_correction="off")  # the network keeps its own float weights and biases
    with torch.no_grad():
        real = net(images).numpy()
        lost = load_encodings(net, json.loads(result.model_of("encodings")), ["image"])
        fake = net(images).numpy()
    session = onnxruntime.InferenceSession(result.model_of("qdq"), providers=["CPUExecutionProvider"])
    integers = session.run(None, {"image": images.numpy()})[0]

    def sqnr(reference, other):
        return 10 * np.log10((reference**2).sum() / ((reference - other) ** 2).sum())

    print(f"encodings without a place: {lost}")
    print(f"SQNR of torch.ao against float: {sqnr(real, fake):.2f} dB")
    print(f"SQNR of the QDQ file against float: {sqnr(real, integers):.2f} dB")
    print(f"SQNR between both: {sqnr(integers, fake):.2f} dB")


if __name__ == "__main__":
    main()
