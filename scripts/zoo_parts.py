# SPDX-License-Identifier: Apache-2.0
"""What the networks of zoo.py and zoo_families.py share: their table, generators of samples, small blocks."""

import torch
from torch import nn
from torch.nn import functional as F

ZOO = {}


def entry(**how):
    def keep(build):
        ZOO[build.__name__] = (build, how)
        return build

    return keep


# Generators of samples.
def pictures(size, channels=3):
    def draw(generator, n):
        x = torch.zeros(n, channels, size, size)
        for side in (4, 8, 16, size):
            x += (
                F.interpolate(
                    torch.randn(n, channels, side, side, generator=generator), size=(size, size), mode="bilinear"
                )
                * (4 / side) ** 0.5
            )
        return x

    return draw


def tokens(length, count):
    def draw(generator, n):
        u = torch.rand(n, length, generator=generator)
        return (count**u - 1).long().clamp(0, count - 1)

    return draw


def sound(length):
    def draw(generator, n):
        t = torch.arange(length) / length
        x = torch.zeros(n, length)
        for _ in range(8):
            f = torch.rand(n, 1, generator=generator) * length / 4
            x += torch.randn(n, 1, generator=generator) * torch.sin(6.283 * f * t)
        return x * 0.3

    return draw


def features(*shape):
    def draw(generator, n):
        x = torch.randn(n, *shape, generator=generator)
        return x.cumsum(1) * 0.3 if len(shape) > 1 else x

    return draw


# Small blocks.
def conv(i, o, k=3, s=1, groups=1, act=nn.ReLU, bias=False):
    parts = [nn.Conv2d(i, o, k, s, k // 2, groups=groups, bias=bias), nn.BatchNorm2d(o)]
    return nn.Sequential(*parts, act()) if act else nn.Sequential(*parts)


class Squeeze(nn.Module):
    def __init__(self, c, gate=nn.Hardsigmoid):
        super().__init__()
        self.a, self.b, self.gate = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1), gate()

    def forward(self, x):
        return x * self.gate(self.b(F.relu(self.a(F.adaptive_avg_pool2d(x, 1)))))


class Inverted(nn.Module):
    def __init__(self, i, o, s, expand, act, se=None, k=3):
        super().__init__()
        m = i * expand
        self.body = nn.Sequential(
            conv(i, m, 1, act=act), conv(m, m, k, s, m, act=act), *([se(m)] if se else []), conv(m, o, 1, act=None)
        )
        self.same = s == 1 and i == o

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


class Head(nn.Module):
    def __init__(self, body, c, classes=10):
        super().__init__()
        self.body, self.fc = body, nn.Linear(c, classes)

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))
