#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small PyTorch classifier, exports it to ONNX and quantizes it to int8 with its own DataLoader.

Needs torch, onnx, onnxscript, onnxruntime and qcalib; with matplotlib it also draws a plot. Nothing is downloaded: the
images are made here. Writes classifier.onnx, classifier.int8.onnx and classifier.png into the current folder.
"""
import numpy as np
import onnxruntime
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import qcalib

CLASSES = 10
torch.manual_seed(0)
patterns = nn.functional.interpolate(torch.rand(CLASSES, 3, 4, 4), scale_factor=4)


def make_images(count):
    """Returns images of pattern `label`, moved by up to two pixels, with noise. Replace it by your own Dataset."""
    labels = torch.randint(CLASSES, (count,))
    shifts = torch.randint(-2, 3, (count, 2)).tolist()
    images = torch.stack([patterns[label].roll(shift, (1, 2)) for label, shift in zip(labels, shifts)])
    return TensorDataset(images + torch.randn_like(images) - 0.5, labels)


def make_network():
    def block(inputs, outputs):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
                             nn.MaxPool2d(2))

    return nn.Sequential(block(3, 16), block(16, 32), block(32, 64), nn.Flatten(), nn.Linear(256, CLASSES))


def train(net, loader, epochs=3):
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()


def accuracy(model, loader):
    """Returns top-1 of a model file in ONNX Runtime."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    right = [session.run(None, {"image": x.numpy()})[0].argmax(axis=1) == y.numpy() for x, y in loader]
    return np.concatenate(right).mean()


train_loader = DataLoader(make_images(2000), batch_size=32, shuffle=True)
test_loader = DataLoader(make_images(1000), batch_size=100)
net = make_network()
train(net, train_loader)

net.eval()  # fixes batch norm and dropout; the exported model is wrong without it
torch.onnx.export(net, (torch.zeros(2, 3, 16, 16),), "classifier.onnx", input_names=["image"], output_names=["logits"],
                  dynamic_shapes=({0: torch.export.Dim("batch")},), external_data=False, dynamo=True)

# 256 training images set the scales; labels in the batches are ignored. The test images only measure.
result = qcalib.quantize("classifier.onnx", train_loader, samples=256, eval=test_loader, out="classifier.int8.onnx")
print(result)
for name in "classifier.onnx", "classifier.int8.onnx":
    print(f"{name}: {100 * accuracy(name, test_loader):.2f} % in ONNX Runtime")

try:
    result.plot().figure.savefig("classifier.png")
except ImportError as missing:
    print(missing)
