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
    # Data set for a model input (X:nhwc: channels last); repeatable. Default: same names.
    input: Union[str, Sequence[str], None] = None,
    # (x*scale - mean)/std; none; imagenet tensorflow caffe yolo. Default: the data set's attributes.
    preprocess: Union[str, None] = None,
    # Also layout=nchw|nhwc color=rgb|bgr|grey. Default: from the model's input.
    image: Union[str, None] = None,
    # Use N samples, spread evenly. Default: all.
    samples: Union[int, None] = None,
    # Draw the samples with this seed instead.
    seed: Union[int, None] = None,
    # NaN and infinity: count, or fail. One of count, error. Default: count.
    nonfinite: Union[Literal['count', 'error'], None] = None,
    # Observer: qcalib list observers. Default: auto.
    method: Union[str, None] = None,
    # Observer for weights. Default: minmax.
    weight_method: Union[str, None] = None,
    # An observer of your own (qcalib_observer.h); repeatable.
    plugin: Union[str, Sequence[str], None] = None,
    # Uint8 int8 uint16 int16 uint4 int4 dynamic none; repeatable. One of uint8, int8, uint16, int16, uint4, int4, dynamic, none. Default: uint8.
    activation_type: Union[str, Sequence[str], None] = None,
    # [u]int8 [u]int4 [u]int3 [u]int2 int16 or none; repeatable. One of int8, uint8, int4, uint4, int3, uint3, int2, uint2, int16, none. Default: int8.
    weight_type: Union[str, Sequence[str], None] = None,
    # A scale for each N weights of a product. One of 16, 32, 64, 128, 256, none. Default: none.
    weight_block: Union[Literal['16', '32', '64', '128', '256', 'none'], None] = None,
    # Round weights one by one, or make good errors. One of nearest, compensated. Default: compensated.
    weight_rounding: Union[Literal['nearest', 'compensated'], None] = None,
    # Mean error of rounded weights into the bias. One of on, off. Default: on.
    bias_correction: Union[Literal['on', 'off'], bool, None] = None,
    # Where it is added: before narrowing or after. One of accumulator, narrowed. Default: accumulator.
    bias: Union[Literal['accumulator', 'narrowed'], None] = None,
    # Errors behind a unary function, or before it. One of on, off. Default: on.
    look_through: Union[Literal['on', 'off'], bool, None] = None,
    # One scale per weight.
    per_tensor: Union[bool, None] = None,
    # What has a scale per channel, or none. One of activations, weights, none. Default: weights.
    per_channel: Union[str, Sequence[str], bool, None] = None,
    # What is symmetric about 0, or none. One of activations, weights, none. Default: weights.
    symmetric: Union[str, Sequence[str], bool, None] = None,
    # Weights in [-128,127] or [-127,127]. One of full, restricted. Default: restricted.
    range: Union[Literal['full', 'restricted'], None] = None,
    # Int8 weights exact on x86 without VNNI. One of auto, reduce-range, off. Default: auto.
    overflow_fix: Union[Literal['auto', 'reduce-range', 'off'], None] = None,
    # Even out channels; auto: --per-tensor. One of auto, on, off. Default: auto.
    equalize: Union[Literal['auto', 'on', 'off'], bool, None] = None,
    # Scale channels before rounding; auto: if better. One of auto, awq, smooth, off. Default: auto.
    scale_channels: Union[Literal['auto', 'awq', 'smooth', 'off'], None] = None,
    # Calibrate each quantizer on the errors before it.
    propagate: Union[bool, None] = None,
    # Form of the result: qcalib list formats. One of qdq, qoperator, annotated, text. Default: qdq.
    format: Union[str, Sequence[str], None] = None,
    # Of MatMulNBits: 0 the runtime's, 1 float32, 4 int8. One of 0, 1, 2, 3, 4. Default: 0.
    accuracy_level: Union[Literal['0', '1', '2', '3', '4'], None] = None,
    # What the runtime runs in one piece. One of ort, openvino, fused. Default: ort.
    target: Union[Literal['ort', 'openvino', 'fused'], None] = None,
    # What is faster in float stays so, or is quantized. One of speed, size, integers. Default: speed.
    prefer: Union[Literal['speed', 'size', 'integers'], None] = None,
    # What is faster in float, measured: CMD prints ms.
    benchmark: Union[str, None] = None,
    # Quantize only this pattern; repeatable. Default: all.
    only: Union[str, Sequence[str], None] = None,
    # Leave these in float; repeatable.
    skip: Union[str, Sequence[str], None] = None,
    # More patterns and rewrites; repeatable.
    rules: Union[str, Sequence[str], None] = None,
    # Fail, naming each op, when one stays in float.
    require_integer: Union[bool, None] = None,
    # With --eval: layers go wider until it falls by no more.
    max_drop: Union[float, None] = None,
    # Layers go wider until every output has this SQNR.
    min_sqnr: Union[float, None] = None,
    # With --eval: the same, until nll is no more than this.
    max_nll: Union[float, None] = None,
    # Bits per layer by the size of the file: 300K, 20%.
    size: Union[str, None] = None,
    # Try what would lose less; auto: the best idea at least. One of auto, on, off. Default: auto.
    advice: Union[Literal['auto', 'on', 'off'], bool, None] = None,
    # What each layer alone does, with --eval to accuracy.
    sensitivity: Union[bool, None] = None,
    # Contract for integers, compare: of each model; what quantize reports is by it. Default: onnx.
    rounding: Union[str, None] = None,
    # Width of integer accumulators, compare: as --rounding. Default: 32.
    accumulator: Union[str, None] = None,
    # What keeps them from overflowing: proof or data. One of auto, proven, seen. Default: auto.
    accumulator_bound: Union[Literal['auto', 'proven', 'seen'], None] = None,
    # Threads; results do not depend on it. Default: all cores.
    threads: Union[int, None] = None,
    # Such as 2G; fewer threads where needed. Default: none.
    memory_limit: Union[int, str, None] = None,
    # Read other files that models or data name.
    follow_links: Union[bool, None] = None,
    # An operator of your own (qcalib_kernel.h); repeatable.
    kernel: Union[str, Sequence[str], None] = None,
    # A broken file of a folder is an error.
    strict: Union[bool, None] = None,
    # Keep what was done in FILE; go on from it.
    checkpoint: Union[str, None] = None,
) -> Result: ...
def collect(
    model: _Model,
    data: _Data,
    *,
    out: Union[_Path, None] = None,
    progress: _Progress = None,
    # Data set for a model input (X:nhwc: channels last); repeatable. Default: same names.
    input: Union[str, Sequence[str], None] = None,
    # (x*scale - mean)/std; none; imagenet tensorflow caffe yolo. Default: the data set's attributes.
    preprocess: Union[str, None] = None,
    # Also layout=nchw|nhwc color=rgb|bgr|grey. Default: from the model's input.
    image: Union[str, None] = None,
    # Use N samples, spread evenly. Default: all.
    samples: Union[int, None] = None,
    # Draw the samples with this seed instead.
    seed: Union[int, None] = None,
    # Of these, samples K, K+N, ..; 0 <= K < N.
    shard: Union[str, None] = None,
    # Collect what weight rounding needs. One of on, off. Default: on.
    second_moments: Union[Literal['on', 'off'], bool, None] = None,
    # Collect what --method output needs. One of on, off. Default: off.
    channel_statistics: Union[Literal['on', 'off'], bool, None] = None,
    # Where it is added: before narrowing or after. One of accumulator, narrowed. Default: accumulator.
    bias: Union[Literal['accumulator', 'narrowed'], None] = None,
    # More patterns and rewrites; repeatable.
    rules: Union[str, Sequence[str], None] = None,
    # Threads; results do not depend on it. Default: all cores.
    threads: Union[int, None] = None,
    # Such as 2G; fewer threads where needed. Default: none.
    memory_limit: Union[int, str, None] = None,
    # Read other files that models or data name.
    follow_links: Union[bool, None] = None,
    # An operator of your own (qcalib_kernel.h); repeatable.
    kernel: Union[str, Sequence[str], None] = None,
    # A broken file of a folder is an error.
    strict: Union[bool, None] = None,
    # Keep what was done in FILE; go on from it.
    checkpoint: Union[str, None] = None,
) -> Statistics: ...
def run(
    model: _Model,
    data: _Data,
    *,
    progress: _Progress = None,
    # Data set for a model input (X:nhwc: channels last); repeatable. Default: same names.
    input: Union[str, Sequence[str], None] = None,
    # (x*scale - mean)/std; none; imagenet tensorflow caffe yolo. Default: the data set's attributes.
    preprocess: Union[str, None] = None,
    # Also layout=nchw|nhwc color=rgb|bgr|grey. Default: from the model's input.
    image: Union[str, None] = None,
    # Use N samples, spread evenly. Default: all.
    samples: Union[int, None] = None,
    # Draw the samples with this seed instead.
    seed: Union[int, None] = None,
    # Contract for integers, compare: of each model; what quantize reports is by it. Default: onnx.
    rounding: Union[str, None] = None,
    # Width of integer accumulators, compare: as --rounding. Default: 32.
    accumulator: Union[str, None] = None,
    # Operands of products; the results are equal. One of int8, int16. Default: int8.
    lowering: Union[Literal['int8', 'int16'], None] = None,
    # Threads; results do not depend on it. Default: all cores.
    threads: Union[int, None] = None,
    # Such as 2G; fewer threads where needed. Default: none.
    memory_limit: Union[int, str, None] = None,
    # Read other files that models or data name.
    follow_links: Union[bool, None] = None,
    # An operator of your own (qcalib_kernel.h); repeatable.
    kernel: Union[str, Sequence[str], None] = None,
    # A broken file of a folder is an error.
    strict: Union[bool, None] = None,
) -> dict[str, Any]: ...
def evaluate(
    model: _Model,
    data: _Data,
    *,
    progress: _Progress = None,
    # Data set for a model input (X:nhwc: channels last); repeatable. Default: same names.
    input: Union[str, Sequence[str], None] = None,
    # (x*scale - mean)/std; none; imagenet tensorflow caffe yolo. Default: the data set's attributes.
    preprocess: Union[str, None] = None,
    # Also layout=nchw|nhwc color=rgb|bgr|grey. Default: from the model's input.
    image: Union[str, None] = None,
    # Use N samples, spread evenly. Default: all.
    samples: Union[int, None] = None,
    # Draw the samples with this seed instead.
    seed: Union[int, None] = None,
    # Contract for integers, compare: of each model; what quantize reports is by it. Default: onnx.
    rounding: Union[str, None] = None,
    # Width of integer accumulators, compare: as --rounding. Default: 32.
    accumulator: Union[str, None] = None,
    # Operands of products; the results are equal. One of int8, int16. Default: int8.
    lowering: Union[Literal['int8', 'int16'], None] = None,
    # Threads; results do not depend on it. Default: all cores.
    threads: Union[int, None] = None,
    # Such as 2G; fewer threads where needed. Default: none.
    memory_limit: Union[int, str, None] = None,
    # Read other files that models or data name.
    follow_links: Union[bool, None] = None,
    # An operator of your own (qcalib_kernel.h); repeatable.
    kernel: Union[str, Sequence[str], None] = None,
    # A broken file of a folder is an error.
    strict: Union[bool, None] = None,
) -> Metric: ...
def compare(
    reference: _Model,
    model: _Model,
    data: _Data,
    *,
    progress: _Progress = None,
    # Data set for a model input (X:nhwc: channels last); repeatable. Default: same names.
    input: Union[str, Sequence[str], None] = None,
    # (x*scale - mean)/std; none; imagenet tensorflow caffe yolo. Default: the data set's attributes.
    preprocess: Union[str, None] = None,
    # Also layout=nchw|nhwc color=rgb|bgr|grey. Default: from the model's input.
    image: Union[str, None] = None,
    # Use N samples, spread evenly. Default: all.
    samples: Union[int, None] = None,
    # Draw the samples with this seed instead.
    seed: Union[int, None] = None,
    # Contract for integers, compare: of each model; what quantize reports is by it. Default: onnx.
    rounding: Union[str, None] = None,
    # Width of integer accumulators, compare: as --rounding. Default: 32.
    accumulator: Union[str, None] = None,
    # Fail when an output differs by more than X.
    tolerance: Union[float, None] = None,
    # Threads; results do not depend on it. Default: all cores.
    threads: Union[int, None] = None,
    # Such as 2G; fewer threads where needed. Default: none.
    memory_limit: Union[int, str, None] = None,
    # Read other files that models or data name.
    follow_links: Union[bool, None] = None,
    # An operator of your own (qcalib_kernel.h); repeatable.
    kernel: Union[str, Sequence[str], None] = None,
    # A broken file of a folder is an error.
    strict: Union[bool, None] = None,
) -> Comparison: ...
