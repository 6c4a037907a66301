# SPDX-License-Identifier: Apache-2.0
# Made by scripts/python_stubs.py from the table of options; do not edit.
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, Union

import numpy as np

class _ModelProto(Protocol):
    def SerializeToString(self) -> bytes: ...

class _DataReader(Protocol):
    def get_next(self) -> Any: ...

_Path = Union[str, os.PathLike[str]]
_Model = Union[_Path, bytes, bytearray, memoryview, _ModelProto, Any]
_Data = Union[_Path, np.ndarray, Mapping[str, Any], Iterable[Any], _DataReader]
_Progress = Union[bool, Callable[[str, int, int], Any], None]

__version__: str

class QcalibError(Exception):
    code: int

class DemandError(QcalibError):
    result: Union[Result, None]

class UsageError(QcalibError, ValueError): ...
class BadInputError(QcalibError, ValueError): ...
class MissingFileError(BadInputError, FileNotFoundError): ...
class UnsupportedError(QcalibError): ...
class MachineError(QcalibError, OSError): ...
class QcalibWarning(UserWarning): ...

class Layer(NamedTuple):
    name: str
    op: str
    type: str
    axis: Union[int, None]
    scale: np.ndarray
    zero_point: np.ndarray
    sqnr_db: float

class Metric(NamedTuple):
    name: str
    value: float
    low: float
    high: float
    top5: float
    mse: float
    samples: int
    seconds: float

class Difference(NamedTuple):
    name: Union[str, None]
    sqnr_db: float
    cosine: float
    max_abs: float

class Rows(list[Any]):
    def to_pandas(self) -> Any: ...

class Result:
    @property
    def formats(self) -> list[str]: ...
    @property
    def model(self) -> bytes: ...
    def model_of(self, format: Union[str, None] = None) -> bytes: ...
    def save(self, path: _Path, format: Union[str, None] = None) -> None: ...
    def save_report(self, folder: _Path) -> None: ...
    def plot(self, most: int = ..., ax: Any = ...) -> Any: ...
    @property
    def report(self) -> dict[str, Any]: ...
    @property
    def latency(self) -> Union[dict[str, Any], None]: ...
    @property
    def layers(self) -> Rows: ...
    @property
    def warnings(self) -> list[str]: ...

class Statistics:
    @classmethod
    def load(cls, path: _Path) -> Statistics: ...
    def save(self, path: _Path) -> None: ...
    @property
    def samples(self) -> int: ...
    @property
    def tensors(self) -> int: ...

class Comparison:
    outputs: Rows
    layers: Rows

def check(file: _Path, *, target: _Path = "ort", data: Union[_Path, None] = None, **options: Any) -> dict[str, Any]: ...
def convert(file: _Path, *, out: _Path, format: str = "qdq", **options: Any) -> dict[str, Any]: ...
def inspect(file: Union[_Path, _Model]) -> dict[str, Any]: ...
def merge(statistics: Iterable[Union[Statistics, _Path]], *, out: Union[_Path, None] = None) -> Statistics: ...
def quantize(
    model: _Model,
    data: Union[_Data, None] = None,
    *,
    out: Union[_Path, None] = None,
    eval: Union[_Data, None] = None,
    statistics: Union[Statistics, _Path, None] = None,
    progress: _Progress = None,
    # Names the data set of a model input: "NAME=DATASET", with ":nhwc" behind it if channels are last. A list names several. Default: same names.
    input: Union[str, Sequence[str], None] = None,
    # Feeds an output back as an input, in order of the samples: "INPUT=OUTPUT". A list names several. Default: none.
    state: Union[str, Sequence[str], None] = None,
    # Sets the preprocessing: "scale=A mean=B,.. std=C,..", "imagenet", "tensorflow", "caffe", "yolo" or "none". The formula is (x*scale - mean)/std. Default: the data set's attributes.
    preprocess: Union[str, None] = None,
    # Sets how image files are read: "resize=A crop=B layout=nchw|nhwc color=rgb|bgr|grey". Default: from the model's input.
    image: Union[str, None] = None,
    # Uses this number of samples, spread evenly over the data. Default: all.
    samples: Union[int, None] = None,
    # Draws the samples at random with this seed, instead of evenly spread.
    seed: Union[int, None] = None,
    # Measures model files with a program in place of accuracy: "CMD {}" prints a number. "lower:CMD {}": less is better. Default: top-1, PSNR.
    metric: Union[str, None] = None,
    # Decides whether NaN and infinity are counted and ignored, or are an error. One of count, error. Default: count.
    nonfinite: Union[Literal['count', 'error'], None] = None,
    # Selects the observer that finds the ranges of activations; 'qcalib list observers' shows them. Default: auto.
    method: Union[str, None] = None,
    # Selects the observer that finds the ranges of weights. Default: minmax.
    weight_method: Union[str, None] = None,
    # Loads an observer of your own from a shared object (qcalib_observer.h). A list loads several.
    plugin: Union[str, Sequence[str], None] = None,
    # Reads ranges and types of tensors from a file: encodings of AIMET or QNN, overrides of ONNX Runtime. Default: none.
    encodings: Union[str, None] = None,
    # Sets the type of activations, for the model or as "TYPE:NODE", "TYPE:OP", "TYPE:GLOB". A list sets several. One of uint8, int8, uint16, int16, uint4, int4, float8e4m3fn, float8e4m3fnuz, float8e5m2, float8e5m2fnuz, mxfp8, mxfp8e5m2, mxfp6, mxfp6e3m2, mxfp4, mxint8, nvfp4, bfp16, dynamic, none. Default: uint8.
    activation_type: Union[str, Sequence[str], None] = None,
    # Makes inputs and outputs of the file integers, all of them or as "TYPE:NAME", "TYPE:GLOB". "pixels" makes images bytes, channels last, and puts the preprocessing into the file. A list names several. One of float, uint8, int8, model, pixels. Default: float.
    io_type: Union[str, Sequence[str], None] = None,
    # Sets the type of weights, for the model or as "TYPE:NODE", "TYPE:OP", "TYPE:GLOB". A list sets several. One of int8, uint8, int7, uint7, int6, uint6, int5, uint5, int4, uint4, int3, uint3, int2, uint2, int16, int14, int12, int10, float8e4m3fn, float8e4m3fnuz, float8e5m2, float8e5m2fnuz, float4e2m1, mxfp8, mxfp8e5m2, mxfp6, mxfp6e3m2, mxfp4, mxint8, nvfp4, bfp16, none. Default: int8.
    weight_type: Union[str, Sequence[str], None] = None,
    # Sets the type of the first and last layers if activations have fewer than 8 bits. One of auto, uint8, int8, none. Default: auto.
    edges_type: Union[Literal['auto', 'uint8', 'int8', 'none'], None] = None,
    # Sets the type of key/value caches, which are inputs and outputs of the model. One of none, int8, int4, float8e4m3fn. Default: none.
    kv_type: Union[Literal['none', 'int8', 'int4', 'float8e4m3fn'], None] = None,
    # Gives each block of this number of weights of a matrix product a scale of its own. One of 16, 32, 64, 128, 256, none. Default: none.
    weight_block: Union[Literal['16', '32', '64', '128', '256', 'none'], None] = None,
    # Selects how weights are rounded: each to nearest, or so that errors compensate (GPTQ). One of nearest, compensated. Default: compensated.
    weight_rounding: Union[Literal['nearest', 'compensated'], None] = None,
    # Adds the mean error of rounded weights to the bias. One of on, off. Default: on.
    bias_correction: Union[Literal['on', 'off'], bool, None] = None,
    # Decides where the bias is added: in the accumulator, or after the accumulator was narrowed. One of accumulator, narrowed. Default: accumulator.
    bias: Union[Literal['accumulator', 'narrowed'], None] = None,
    # Chooses the range before a unary function by the error behind that function. One of on, off. Default: on.
    look_through: Union[Literal['on', 'off'], bool, None] = None,
    # Gives each weight tensor one scale instead of one for each channel.
    per_tensor: Union[bool, None] = None,
    # Selects which tensors have a scale for each channel. One of activations, weights, none. Default: weights.
    per_channel: Union[str, Sequence[str], bool, None] = None,
    # Selects which tensors have a range that is symmetric about 0. One of activations, weights, none. Default: weights.
    symmetric: Union[str, Sequence[str], bool, None] = None,
    # Selects the range of int8 weights: [-128, 127] or [-127, 127]. One of full, restricted. Default: restricted.
    range: Union[Literal['full', 'restricted'], None] = None,
    # Keeps int8 weights exact on x86 processors without VNNI. One of auto, reduce-range, off. Default: auto.
    overflow_fix: Union[Literal['auto', 'reduce-range', 'off'], None] = None,
    # Sets how far to search among changes that cost nothing at run time: "low", "normal" or "high". One of low, normal, high. Default: normal.
    effort: Union[Literal['low', 'normal', 'high'], None] = None,
    # Equalizes the ranges of channels between layers; "auto" does so with per_tensor=True. One of auto, on, free, off. Default: auto.
    equalize: Union[Literal['auto', 'on', 'free', 'off'], bool, None] = None,
    # Scales channels before weights are rounded; "auto" does so if the error falls. One of auto, awq, smooth, free, off. Default: auto.
    scale_channels: Union[Literal['auto', 'awq', 'smooth', 'free', 'off'], None] = None,
    # Calibrates tensors one after the other, each on the errors of those before it.
    propagate: Union[bool, None] = None,
    # Selects the form of the result; a list gives several files. One of qdq, qoperator, annotated, encodings, mnn, trt-cache, text, tflite. Default: qdq.
    format: Union[str, Sequence[str], None] = None,
    # Sets accuracy_level of MatMulNBits: 0 leaves it to the runtime, 1 is float32, 4 is int8. One of 0, 1, 2, 3, 4. Default: 0.
    accuracy_level: Union[Literal['0', '1', '2', '3', '4'], None] = None,
    # Names the runtime, whose conventions hold where no option is given, or a file of rules. Default: ort.
    target: Union[str, None] = None,
    # Decides about operators that are faster in float: left there, or quantized for size or for integers. One of speed, size, integers. Default: speed.
    prefer: Union[Literal['speed', 'size', 'integers'], None] = None,
    # Names the processor whose estimated times decide what stays in float. One of any, avx512-vnni, avx2, amx. Default: any.
    processor: Union[Literal['any', 'avx512-vnni', 'avx2', 'amx'], None] = None,
    # Measures which operators are faster in float, with a command that prints milliseconds: "CMD {}".
    benchmark: Union[str, None] = None,
    # Quantizes only these operators, or those that match this pattern. A list gives several. Default: all.
    only: Union[str, Sequence[str], None] = None,
    # Leaves a node, an operator type or all nodes that match a glob in float. A list gives several.
    skip: Union[str, Sequence[str], None] = None,
    # Reads more patterns and rewrites from a file. A list reads several.
    rules: Union[str, Sequence[str], None] = None,
    # Raises an error that names each operator that stays in float.
    require_integer: Union[bool, None] = None,
    # Widens types of layers until accuracy on eval falls by at most this number of points.
    max_drop: Union[float, None] = None,
    # Widens types of layers until every output has at least this SQNR in dB.
    min_sqnr: Union[float, None] = None,
    # Widens types of layers until the negative log-likelihood on eval is at most this.
    max_nll: Union[float, None] = None,
    # Chooses the bits of each layer so that the file has at most this size: "300K" or "20%".
    size: Union[str, None] = None,
    # Tries changes that reduce the error; "auto" the best ones, if the outputs are noisy. One of auto, on, off. Default: auto.
    advice: Union[Literal['auto', 'on', 'off'], bool, None] = None,
    # Measures the effect of each layer alone on the outputs, and with eval on accuracy.
    sensitivity: Union[bool, None] = None,
    # Sets the rounding of integer arithmetic; compare takes one for each model. Errors in the report are measured with it. Default: onnx.
    rounding: Union[str, None] = None,
    # Sets the bits of integer accumulators, with ":wrap" or ":saturate"; compare takes one for each model. Default: 32.
    accumulator: Union[str, None] = None,
    # Selects what keeps accumulators from overflowing: a proof for any input, or the data. One of auto, proven, seen. Default: auto.
    accumulator_bound: Union[Literal['auto', 'proven', 'seen'], None] = None,
    # Sets the number of threads; results do not depend on it. Default: all cores.
    threads: Union[int, None] = None,
    # Limits memory, such as "2G"; if necessary, fewer threads run. Default: none.
    memory_limit: Union[int, str, None] = None,
    # Allows models and data to name other files that lie elsewhere.
    follow_links: Union[bool, None] = None,
    # Loads an operator of your own from a shared object (qcalib_kernel.h). A list loads several.
    kernel: Union[str, Sequence[str], None] = None,
    # Raises an error for a broken file in a folder, instead of leaving it out.
    strict: Union[bool, None] = None,
    # Saves finished work to this file, and continues from it.
    checkpoint: Union[str, None] = None,
) -> Result: ...
def collect(
    model: _Model,
    data: _Data,
    *,
    out: Union[_Path, None] = None,
    progress: _Progress = None,
    # Names the data set of a model input: "NAME=DATASET", with ":nhwc" behind it if channels are last. A list names several. Default: same names.
    input: Union[str, Sequence[str], None] = None,
    # Feeds an output back as an input, in order of the samples: "INPUT=OUTPUT". A list names several. Default: none.
    state: Union[str, Sequence[str], None] = None,
    # Sets the preprocessing: "scale=A mean=B,.. std=C,..", "imagenet", "tensorflow", "caffe", "yolo" or "none". The formula is (x*scale - mean)/std. Default: the data set's attributes.
    preprocess: Union[str, None] = None,
    # Sets how image files are read: "resize=A crop=B layout=nchw|nhwc color=rgb|bgr|grey". Default: from the model's input.
    image: Union[str, None] = None,
    # Uses this number of samples, spread evenly over the data. Default: all.
    samples: Union[int, None] = None,
    # Draws the samples at random with this seed, instead of evenly spread.
    seed: Union[int, None] = None,
    # Selects one part of the samples: "K/N" takes samples K, K+N, and so on.
    shard: Union[str, None] = None,
    # Collects the second moments that weight rounding needs. One of on, off. Default: on.
    second_moments: Union[Literal['on', 'off'], bool, None] = None,
    # Collects the histograms of channels that method="output" needs. One of on, off. Default: off.
    channel_statistics: Union[Literal['on', 'off'], bool, None] = None,
    # Decides where the bias is added: in the accumulator, or after the accumulator was narrowed. One of accumulator, narrowed. Default: accumulator.
    bias: Union[Literal['accumulator', 'narrowed'], None] = None,
    # Names the runtime, whose conventions hold where no option is given, or a file of rules. Default: ort.
    target: Union[str, None] = None,
    # Reads more patterns and rewrites from a file. A list reads several.
    rules: Union[str, Sequence[str], None] = None,
    # Sets the number of threads; results do not depend on it. Default: all cores.
    threads: Union[int, None] = None,
    # Limits memory, such as "2G"; if necessary, fewer threads run. Default: none.
    memory_limit: Union[int, str, None] = None,
    # Allows models and data to name other files that lie elsewhere.
    follow_links: Union[bool, None] = None,
    # Loads an operator of your own from a shared object (qcalib_kernel.h). A list loads several.
    kernel: Union[str, Sequence[str], None] = None,
    # Raises an error for a broken file in a folder, instead of leaving it out.
    strict: Union[bool, None] = None,
    # Saves finished work to this file, and continues from it.
    checkpoint: Union[str, None] = None,
) -> Statistics: ...
def run(
    model: _Model,
    data: _Data,
    *,
    progress: _Progress = None,
    # Names the data set of a model input: "NAME=DATASET", with ":nhwc" behind it if channels are last. A list names several. Default: same names.
    input: Union[str, Sequence[str], None] = None,
    # Feeds an output back as an input, in order of the samples: "INPUT=OUTPUT". A list names several. Default: none.
    state: Union[str, Sequence[str], None] = None,
    # Sets the preprocessing: "scale=A mean=B,.. std=C,..", "imagenet", "tensorflow", "caffe", "yolo" or "none". The formula is (x*scale - mean)/std. Default: the data set's attributes.
    preprocess: Union[str, None] = None,
    # Sets how image files are read: "resize=A crop=B layout=nchw|nhwc color=rgb|bgr|grey". Default: from the model's input.
    image: Union[str, None] = None,
    # Uses this number of samples, spread evenly over the data. Default: all.
    samples: Union[int, None] = None,
    # Draws the samples at random with this seed, instead of evenly spread.
    seed: Union[int, None] = None,
    # Sets the rounding of integer arithmetic; compare takes one for each model. Errors in the report are measured with it. Default: onnx.
    rounding: Union[str, None] = None,
    # Sets the bits of integer accumulators, with ":wrap" or ":saturate"; compare takes one for each model. Default: 32.
    accumulator: Union[str, None] = None,
    # Sets the type of operands of integer products; the results are equal. One of int8, int16. Default: int8.
    lowering: Union[Literal['int8', 'int16'], None] = None,
    # Sets the number of threads; results do not depend on it. Default: all cores.
    threads: Union[int, None] = None,
    # Limits memory, such as "2G"; if necessary, fewer threads run. Default: none.
    memory_limit: Union[int, str, None] = None,
    # Allows models and data to name other files that lie elsewhere.
    follow_links: Union[bool, None] = None,
    # Loads an operator of your own from a shared object (qcalib_kernel.h). A list loads several.
    kernel: Union[str, Sequence[str], None] = None,
    # Raises an error for a broken file in a folder, instead of leaving it out.
    strict: Union[bool, None] = None,
) -> dict[str, Any]: ...
def evaluate(
    model: _Model,
    data: _Data,
    *,
    progress: _Progress = None,
    # Names the data set of a model input: "NAME=DATASET", with ":nhwc" behind it if channels are last. A list names several. Default: same names.
    input: Union[str, Sequence[str], None] = None,
    # Feeds an output back as an input, in order of the samples: "INPUT=OUTPUT". A list names several. Default: none.
    state: Union[str, Sequence[str], None] = None,
    # Sets the preprocessing: "scale=A mean=B,.. std=C,..", "imagenet", "tensorflow", "caffe", "yolo" or "none". The formula is (x*scale - mean)/std. Default: the data set's attributes.
    preprocess: Union[str, None] = None,
    # Sets how image files are read: "resize=A crop=B layout=nchw|nhwc color=rgb|bgr|grey". Default: from the model's input.
    image: Union[str, None] = None,
    # Uses this number of samples, spread evenly over the data. Default: all.
    samples: Union[int, None] = None,
    # Draws the samples at random with this seed, instead of evenly spread.
    seed: Union[int, None] = None,
    # Measures model files with a program in place of accuracy: "CMD {}" prints a number. "lower:CMD {}": less is better. Default: top-1, PSNR.
    metric: Union[str, None] = None,
    # Sets the rounding of integer arithmetic; compare takes one for each model. Errors in the report are measured with it. Default: onnx.
    rounding: Union[str, None] = None,
    # Sets the bits of integer accumulators, with ":wrap" or ":saturate"; compare takes one for each model. Default: 32.
    accumulator: Union[str, None] = None,
    # Sets the type of operands of integer products; the results are equal. One of int8, int16. Default: int8.
    lowering: Union[Literal['int8', 'int16'], None] = None,
    # Sets the number of threads; results do not depend on it. Default: all cores.
    threads: Union[int, None] = None,
    # Limits memory, such as "2G"; if necessary, fewer threads run. Default: none.
    memory_limit: Union[int, str, None] = None,
    # Allows models and data to name other files that lie elsewhere.
    follow_links: Union[bool, None] = None,
    # Loads an operator of your own from a shared object (qcalib_kernel.h). A list loads several.
    kernel: Union[str, Sequence[str], None] = None,
    # Raises an error for a broken file in a folder, instead of leaving it out.
    strict: Union[bool, None] = None,
) -> Metric: ...
def compare(
    reference: _Model,
    model: _Model,
    data: _Data,
    *,
    progress: _Progress = None,
    # Names the data set of a model input: "NAME=DATASET", with ":nhwc" behind it if channels are last. A list names several. Default: same names.
    input: Union[str, Sequence[str], None] = None,
    # Feeds an output back as an input, in order of the samples: "INPUT=OUTPUT". A list names several. Default: none.
    state: Union[str, Sequence[str], None] = None,
    # Sets the preprocessing: "scale=A mean=B,.. std=C,..", "imagenet", "tensorflow", "caffe", "yolo" or "none". The formula is (x*scale - mean)/std. Default: the data set's attributes.
    preprocess: Union[str, None] = None,
    # Sets how image files are read: "resize=A crop=B layout=nchw|nhwc color=rgb|bgr|grey". Default: from the model's input.
    image: Union[str, None] = None,
    # Uses this number of samples, spread evenly over the data. Default: all.
    samples: Union[int, None] = None,
    # Draws the samples at random with this seed, instead of evenly spread.
    seed: Union[int, None] = None,
    # Sets the rounding of integer arithmetic; compare takes one for each model. Errors in the report are measured with it. Default: onnx.
    rounding: Union[str, None] = None,
    # Sets the bits of integer accumulators, with ":wrap" or ":saturate"; compare takes one for each model. Default: 32.
    accumulator: Union[str, None] = None,
    # Fails if an output differs by more than this.
    tolerance: Union[float, None] = None,
    # Sets the number of threads; results do not depend on it. Default: all cores.
    threads: Union[int, None] = None,
    # Limits memory, such as "2G"; if necessary, fewer threads run. Default: none.
    memory_limit: Union[int, str, None] = None,
    # Allows models and data to name other files that lie elsewhere.
    follow_links: Union[bool, None] = None,
    # Loads an operator of your own from a shared object (qcalib_kernel.h). A list loads several.
    kernel: Union[str, Sequence[str], None] = None,
    # Raises an error for a broken file in a folder, instead of leaving it out.
    strict: Union[bool, None] = None,
) -> Comparison: ...
