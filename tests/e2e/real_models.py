# SPDX-License-Identifier: Apache-2.0
"""The real models of QCALIB_DATA: their data, and numpy's preprocessing of these data."""

import dataclasses

import h5py
import numpy


@dataclasses.dataclass(frozen=True)
class Case:
    model: str
    data: str
    samples: int  # at most so many, spread as `--samples` spreads them
    preprocess: str = ""  # --preprocess
    top1: float = 0  # share in percent that the folder's README gives, on all samples
    tolerance: float = 1e-4  # largest difference over largest value


CASES = [
    Case("resnet20_cifar10", "cifar10_test.h5", 1000, top1=91.73),
    Case("resnet20_cifar10_bn", "cifar10_test.h5", 1000, top1=91.73),
    Case("resnet8_cifar10_mlperf", "cifar10_test.h5", 1000, "none", top1=87.19),
    Case("dscnn_kws_mlperf", "kws01_eval872.h5", 872, top1=90.60),
    Case("dscnn_kws_mlperf_bn", "kws01_eval872.h5", 872, top1=90.60),
    Case("mobilenetv1_075_224_imagenet", "imagenet_eval256_224.h5", 128),
    Case("mnist_cntk8", "mnist_eval9744.h5", 1000),
    Case("autoencoder_ad_mlperf", "ad01_one_normal.h5", 196),
    Case("superres_pytorch", "sr_x3_y6.h5", 6),
    Case("rfb320_face_simplified", "det_unlabelled16_240x320.h5", 16),
    Case("text_transformer_agnews", "agnews_eval1600.h5", 400, top1=83.56),
]
# A step of rounding that falls the other way changes a quantized result by one level.
QUANTIZED = [
    Case("resnet8_cifar10_mlperf_tfint8_qdq", "cifar10_test.h5", 1000, "none", top1=87.02),
    Case("dscnn_kws_mlperf_tfint8_qdq", "kws01_eval872.h5", 872, top1=89.45),
]


def spread(samples, total):
    """Indices that `--samples` takes: floor(j * total / n)."""
    n = min(samples, total)
    return [j * total // n for j in range(n)]


def inputs(case, folder):
    """{input name: float32 (or integer) array}, preprocessed as the data set's attributes say."""
    feeds = {}
    with h5py.File(folder / case.data) as file:
        for name, dataset in file.items():
            if name in ("labels", "target"):
                continue
            values = dataset[spread(case.samples, len(dataset))]
            if values.dtype != numpy.int64:
                values = values.astype(numpy.float32)
            if case.preprocess != "none" and "scale" in dataset.attrs:
                one = (1, -1) + (1,) * (values.ndim - 2)
                scale, mean, std = (
                    numpy.asarray(dataset.attrs[k], numpy.float32).reshape(one) for k in ("scale", "mean", "std")
                )
                values = (values * scale - mean) / std
            feeds[name] = values
    return feeds
