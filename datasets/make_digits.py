#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the shipped example: digits_calib.h5, digits_test.h5 and digits_cnn.onnx, beside this script or in a given folder.

Needs numpy, h5py, onnx, onnxruntime, scikit-learn and torch (CPU). Seeds are fixed: two runs on one machine give the same
bytes. Another machine or torch release may round differently while training; the data files stay the same.
"""
import sys
from pathlib import Path

import h5py
import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

CALIB, TEST = 300, 597  # of 1797; the 1200 images that are not for testing train the network, the first 300 of them calibrate
SCALE, EPOCHS, BATCH = 1 / 16, 80, 32
BN_EPSILON = 1e-5


def split():
    digits = load_digits()
    pixels = digits.images.astype(np.uint8).reshape(-1, 1, 8, 8)  # 0..16
    labels = digits.target.astype(np.int64)
    order = np.random.RandomState(20240501).permutation(len(pixels))
    pixels, labels = pixels[order], labels[order]
    return (pixels[:-TEST], labels[:-TEST]), (pixels[-TEST:], labels[-TEST:])


def write_data(path, pixels, labels, mean, std):
    # "v108" keeps the index of the chunks small: half of the file otherwise.
    with h5py.File(path, "w", libver=("v108", "v108")) as f:
        d = f.create_dataset("input", data=pixels, chunks=(1, 1, 8, 8), compression="gzip", compression_opts=9)
        d.attrs["scale"] = np.float32(SCALE)
        d.attrs["mean"] = np.array([mean], np.float32)
        d.attrs["std"] = np.array([std], np.float32)
        d.attrs["preprocess"] = "y=(x*scale-mean)/std"
        d.attrs["source"] = "UCI Optical Recognition of Handwritten Digits (CC BY 4.0), by way of scikit-learn"
        f.create_dataset("labels", data=labels)


def conv_bn(inputs, outputs, kernel, groups=1):
    conv = torch.nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False)
    return torch.nn.ModuleDict({"conv": conv, "bn": torch.nn.BatchNorm2d(outputs, eps=BN_EPSILON)})


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = conv_bn(1, 16, 3)
        self.depthwise = conv_bn(16, 16, 3, groups=16)
        self.pointwise = conv_bn(16, 24, 1)
        self.res1 = conv_bn(24, 24, 3)
        self.res2 = conv_bn(24, 24, 3)
        self.dense1 = torch.nn.Linear(96, 32)
        self.dense2 = torch.nn.Linear(32, 10)

    def forward(self, x):
        def step(block, v):
            return block["bn"](block["conv"](v))

        f = torch.nn.functional
        x = f.relu6(step(self.stem, x))
        x = f.relu6(step(self.depthwise, x))
        x = f.max_pool2d(f.relu(step(self.pointwise, x)), 2)
        y = step(self.res2, f.relu(step(self.res1, x)))
        x = f.avg_pool2d(f.relu(x + y), 2).flatten(1)
        return self.dense2(f.relu(self.dense1(x)))


def train(pixels, labels, mean, std):
    torch.manual_seed(7)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    net = Net()
    x, y = torch.from_numpy(pixels.astype(np.float32)), torch.from_numpy(labels)
    steps = EPOCHS * (len(x) // BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    rows = torch.arange(8)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x))[: len(x) // BATCH * BATCH].view(-1, BATCH):
            padded = torch.nn.functional.pad(x[batch], (1, 1, 1, 1))  # each image moves by -1, 0 or 1 both ways
            dy, dx = torch.randint(0, 3, (2, BATCH, 1))
            moved = padded[torch.arange(BATCH)[:, None, None], 0, (rows + dy)[:, :, None], (rows + dx)[:, None, :]]
            loss = torch.nn.functional.cross_entropy(
                net((moved[:, None] * SCALE - mean) / std), y[batch], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return {name: value.numpy() for name, value in net.eval().state_dict().items()}


def make_model(state):
    nodes, constants = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), name))
        return name

    def node(op, inputs, name, **attributes):
        nodes.append(helper.make_node(op, inputs, [name], name=name + "_node", **attributes))
        return name

    def conv_bn_node(block, x):
        weight = state[f"{block}.conv.weight"]
        pad, groups = weight.shape[2] // 2, 16 if block == "depthwise" else 1
        x = node("Conv", [x, constant(f"{block}_weight", weight)], f"{block}_conv", group=groups,
                 kernel_shape=list(weight.shape[2:]), pads=[pad] * 4, strides=[1, 1], dilations=[1, 1])
        parts = [constant(f"{block}_bn_{part}", state[f"{block}.bn.{part}"])
                 for part in ("weight", "bias", "running_mean", "running_var")]
        return node("BatchNormalization", [x, *parts], f"{block}_bn", epsilon=BN_EPSILON)

    def relu6(x, name):
        return node("Clip", [x, "zero", "six"], name)

    def dense_node(block, x, name):
        weight, bias = (constant(f"{block}_{part}", state[f"{block}.{part}"]) for part in ("weight", "bias"))
        return node("Gemm", [x, weight, bias], name, transB=1)

    constant("zero", np.float32(0))
    constant("six", np.float32(6))
    x = relu6(conv_bn_node("stem", "input"), "stem")
    x = relu6(conv_bn_node("depthwise", x), "depthwise")
    x = node("Relu", [conv_bn_node("pointwise", x)], "pointwise")
    x = node("MaxPool", [x], "pool1", kernel_shape=[2, 2], strides=[2, 2])
    y = node("Relu", [conv_bn_node("res1", x)], "res1")
    x = node("Relu", [node("Add", [x, conv_bn_node("res2", y)], "sum")], "res2")
    x = node("AveragePool", [x], "pool2", kernel_shape=[2, 2], strides=[2, 2])
    x = node("Flatten", [x], "flat", axis=1)
    x = node("Relu", [dense_node("dense1", x, "dense1_out")], "dense1")
    dense_node("dense2", x, "logits")
    graph = helper.make_graph(
        nodes, "digits_cnn",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])], constants)
    model = helper.make_model(graph, producer_name="make_digits.py", opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    onnx.checker.check_model(model, full_check=True)
    return model


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    (pixels, labels), (test_pixels, test_labels) = split()
    mean = np.float32((pixels * SCALE).mean())
    std = np.float32((pixels * SCALE).std())
    write_data(folder / "digits_calib.h5", pixels[:CALIB], labels[:CALIB], mean, std)
    write_data(folder / "digits_test.h5", test_pixels, test_labels, mean, std)
    onnx.save(make_model(train(pixels, labels, mean, std)), folder / "digits_cnn.onnx")

    session = onnxruntime.InferenceSession(str(folder / "digits_cnn.onnx"), providers=["CPUExecutionProvider"])
    x = (test_pixels.astype(np.float32) * np.float32(SCALE) - mean) / std
    right = (session.run(None, {"input": x})[0].argmax(1) == test_labels).sum()
    print(f"{right} of {len(test_labels)} test images right: {100 * right / len(test_labels):.2f} %")


if __name__ == "__main__":
    main()
