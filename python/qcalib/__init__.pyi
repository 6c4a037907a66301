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
    # data set for a model input (X:nhwc: channels last); repeatable; default: same names
    input: Union[str, Sequence[str], None] = None,
    # (x*scale - mean)/std; none; imagenet tensorflow caffe yolo; default: the data set's attributes
    preprocess: Union[str, None] = None,
    # also layout=nchw|nhwc color=rgb|bgr|grey; default: from the model's input
    image: Union[str, None] = None,
    # use N samples, spread evenly; default: all
    samples: Union[int, None] = None,
    # draw the samples with this seed instead
    seed: Union[int, None] = None,
    # NaN and infinity: count, or fail; of count error; default: count
    nonfinite: Union[Literal['count', 'error'], None] = None,
    # observer: qcalib list observers; default: auto
    method: Union[str, None] = None,
    # observer for weights; default: minmax
    weight_method: Union[str, None] = None,
    # an observer of your own (qcalib_observer.h); repeatable
    plugin: Union[str, Sequence[str], None] = None,
    # uint8 int8 uint16 int16 uint4 int4 dynamic none; repeatable; of uint8 int8 uint16 int16 uint4 int4 dynamic none; default: uint8
    activation_type: Union[str, Sequence[str], None] = None,
    # [u]int8 [u]int4 [u]int3 [u]int2 int16 or none; repeatable; of int8 uint8 int4 uint4 int3 uint3 int2 uint2 int16 none; default: int8
    weight_type: Union[str, Sequence[str], None] = None,
    # a scale for each N weights of a product; of 16 32 64 128 256 none; default: none
    weight_block: Union[Literal['16', '32', '64', '128', '256', 'none'], None] = None,
    # round weights one by one, or make good errors; of nearest compensated; default: compensated
    weight_rounding: Union[Literal['nearest', 'compensated'], None] = None,
    # mean error of rounded weights into the bias; of on off; default: on
    bias_correction: Union[Literal['on', 'off'], bool, None] = None,
    # where it is added: before narrowing or after; of accumulator narrowed; default: accumulator
    bias: Union[Literal['accumulator', 'narrowed'], None] = None,
    # errors behind a unary function, or before it; of on off; default: on
    look_through: Union[Literal['on', 'off'], bool, None] = None,
    # one scale per weight
    per_tensor: Union[bool, None] = None,
    # what has a scale per channel, or none; of activations weights none; default: weights
    per_channel: Union[str, Sequence[str], bool, None] = None,
    # what is symmetric about 0, or none; of activations weights none; default: weights
    symmetric: Union[str, Sequence[str], bool, None] = None,
    # weights in [-128,127] or [-127,127]; of full restricted; default: restricted
    range: Union[Literal['full', 'restricted'], None] = None,
    # int8 weights exact on x86 without VNNI; of auto reduce-range off; default: auto
    overflow_fix: Union[Literal['auto', 'reduce-range', 'off'], None] = None,
    # even out channels; auto: --per-tensor; of auto on off; default: auto
    equalize: Union[Literal['auto', 'on', 'off'], bool, None] = None,
    # scale channels before rounding; auto: if better; of auto awq smooth off; default: auto
    scale_channels: Union[Literal['auto', 'awq', 'smooth', 'off'], None] = None,
    # calibrate each quantizer on the errors before it
    propagate: Union[bool, None] = None,
    # form of the result: qcalib list formats; of qdq qoperator annotated text; default: qdq
    format: Union[str, Sequence[str], None] = None,
    # of MatMulNBits: 0 the runtime's, 1 float32, 4 int8; of 0 1 2 3 4; default: 0
    accuracy_level: Union[Literal['0', '1', '2', '3', '4'], None] = None,
    # what the runtime runs in one piece; of ort openvino fused; default: ort
    target: Union[Literal['ort', 'openvino', 'fused'], None] = None,
    # what is faster in float stays so, or is quantized; of speed size integers; default: speed
    prefer: Union[Literal['speed', 'size', 'integers'], None] = None,
    # what is faster in float, measured: CMD prints ms
    benchmark: Union[str, None] = None,
    # quantize only this pattern; repeatable; default: all
    only: Union[str, Sequence[str], None] = None,
    # leave these in float; repeatable
    skip: Union[str, Sequence[str], None] = None,
    # more patterns and rewrites; repeatable
    rules: Union[str, Sequence[str], None] = None,
    # fail, naming each op, when one stays in float
    require_integer: Union[bool, None] = None,
    # with --eval: layers go wider until it falls by no more
    max_drop: Union[float, None] = None,
    # layers go wider until every output has this SQNR
    min_sqnr: Union[float, None] = None,
    # with --eval: the same, until nll is no more than this
    max_nll: Union[float, None] = None,
    # bits per layer by the size of the file: 300K, 20%
    size: Union[str, None] = None,
    # try what would lose less; auto: for a tenth of the work; of auto on off; default: auto
    advice: Union[Literal['auto', 'on', 'off'], bool, None] = None,
    # what each layer alone does, with --eval to accuracy
    sensitivity: Union[bool, None] = None,
    # contract for integers, compare: of each model; what quantize reports is by it; default: onnx
    rounding: Union[str, None] = None,
    # width of integer accumulators, compare: as --rounding; default: 32
    accumulator: Union[str, None] = None,
    # what keeps them from overflowing: proof or data; of auto proven seen; default: auto
    accumulator_bound: Union[Literal['auto', 'proven', 'seen'], None] = None,
    # threads; results do not depend on it; default: all cores
    threads: Union[int, None] = None,
    # such as 2G; fewer threads where needed; default: none
    memory_limit: Union[int, str, None] = None,
    # read other files that models or data name
    follow_links: Union[bool, None] = None,
    # an operator of your own (qcalib_kernel.h); repeatable
    kernel: Union[str, Sequence[str], None] = None,
    # a broken file of a folder is an error
    strict: Union[bool, None] = None,
    # keep what was done in FILE; go on from it
    checkpoint: Union[str, None] = None,
) -> Result: ...
def collect(
    model: _Model,
    data: _Data,
    *,
    out: Union[_Path, None] = None,
    progress: _Progress = None,
    # data set for a model input (X:nhwc: channels last); repeatable; default: same names
    input: Union[str, Sequence[str], None] = None,
    # (x*scale - mean)/std; none; imagenet tensorflow caffe yolo; default: the data set's attributes
    preprocess: Union[str, None] = None,
    # also layout=nchw|nhwc color=rgb|bgr|grey; default: from the model's input
    image: Union[str, None] = None,
    # use N samples, spread evenly; default: all
    samples: Union[int, None] = None,
    # draw the samples with this seed instead
    seed: Union[int, None] = None,
    # of these, samples K, K+N, ..; 0 <= K < N
    shard: Union[str, None] = None,
    # collect what weight rounding needs; of on off; default: on
    second_moments: Union[Literal['on', 'off'], bool, None] = None,
    # collect what --method output needs; of on off; default: off
    channel_statistics: Union[Literal['on', 'off'], bool, None] = None,
    # where it is added: before narrowing or after; of accumulator narrowed; default: accumulator
    bias: Union[Literal['accumulator', 'narrowed'], None] = None,
    # more patterns and rewrites; repeatable
    rules: Union[str, Sequence[str], None] = None,
    # threads; results do not depend on it; default: all cores
    threads: Union[int, None] = None,
    # such as 2G; fewer threads where needed; default: none
    memory_limit: Union[int, str, None] = None,
    # read other files that models or data name
    follow_links: Union[bool, None] = None,
    # an operator of your own (qcalib_kernel.h); repeatable
    kernel: Union[str, Sequence[str], None] = None,
    # a broken file of a folder is an error
    strict: Union[bool, None] = None,
    # keep what was done in FILE; go on from it
    checkpoint: Union[str, None] = None,
) -> Statistics: ...
def run(
    model: _Model,
    data: _Data,
    *,
    progress: _Progress = None,
    # data set for a model input (X:nhwc: channels last); repeatable; default: same names
    input: Union[str, Sequence[str], None] = None,
    # (x*scale - mean)/std; none; imagenet tensorflow caffe yolo; default: the data set's attributes
    preprocess: Union[str, None] = None,
    # also layout=nchw|nhwc color=rgb|bgr|grey; default: from the model's input
    image: Union[str, None] = None,
    # use N samples, spread evenly; default: all
    samples: Union[int, None] = None,
    # draw the samples with this seed instead
    seed: Union[int, None] = None,
    # contract for integers, compare: of each model; what quantize reports is by it; default: onnx
    rounding: Union[str, None] = None,
    # width of integer accumulators, compare: as --rounding; default: 32
    accumulator: Union[str, None] = None,
    # operands of products; the results are equal; of int8 int16; default: int8
    lowering: Union[Literal['int8', 'int16'], None] = None,
    # threads; results do not depend on it; default: all cores
    threads: Union[int, None] = None,
    # such as 2G; fewer threads where needed; default: none
    memory_limit: Union[int, str, None] = None,
    # read other files that models or data name
    follow_links: Union[bool, None] = None,
    # an operator of your own (qcalib_kernel.h); repeatable
    kernel: Union[str, Sequence[str], None] = None,
    # a broken file of a folder is an error
    strict: Union[bool, None] = None,
) -> dict[str, Any]: ...
def evaluate(
    model: _Model,
    data: _Data,
    *,
    progress: _Progress = None,
    # data set for a model input (X:nhwc: channels last); repeatable; default: same names
    input: Union[str, Sequence[str], None] = None,
    # (x*scale - mean)/std; none; imagenet tensorflow caffe yolo; default: the data set's attributes
    preprocess: Union[str, None] = None,
    # also layout=nchw|nhwc color=rgb|bgr|grey; default: from the model's input
    image: Union[str, None] = None,
    # use N samples, spread evenly; default: all
    samples: Union[int, None] = None,
    # draw the samples with this seed instead
    seed: Union[int, None] = None,
    # contract for integers, compare: of each model; what quantize reports is by it; default: onnx
    rounding: Union[str, None] = None,
    # width of integer accumulators, compare: as --rounding; default: 32
    accumulator: Union[str, None] = None,
    # operands of products; the results are equal; of int8 int16; default: int8
    lowering: Union[Literal['int8', 'int16'], None] = None,
    # threads; results do not depend on it; default: all cores
    threads: Union[int, None] = None,
    # such as 2G; fewer threads where needed; default: none
    memory_limit: Union[int, str, None] = None,
    # read other files that models or data name
    follow_links: Union[bool, None] = None,
    # an operator of your own (qcalib_kernel.h); repeatable
    kernel: Union[str, Sequence[str], None] = None,
    # a broken file of a folder is an error
    strict: Union[bool, None] = None,
) -> Metric: ...
def compare(
    reference: _Model,
    model: _Model,
    data: _Data,
    *,
    progress: _Progress = None,
    # data set for a model input (X:nhwc: channels last); repeatable; default: same names
    input: Union[str, Sequence[str], None] = None,
    # (x*scale - mean)/std; none; imagenet tensorflow caffe yolo; default: the data set's attributes
    preprocess: Union[str, None] = None,
    # also layout=nchw|nhwc color=rgb|bgr|grey; default: from the model's input
    image: Union[str, None] = None,
    # use N samples, spread evenly; default: all
    samples: Union[int, None] = None,
    # draw the samples with this seed instead
    seed: Union[int, None] = None,
    # contract for integers, compare: of each model; what quantize reports is by it; default: onnx
    rounding: Union[str, None] = None,
    # width of integer accumulators, compare: as --rounding; default: 32
    accumulator: Union[str, None] = None,
    # fail when an output differs by more than X
    tolerance: Union[float, None] = None,
    # threads; results do not depend on it; default: all cores
    threads: Union[int, None] = None,
    # such as 2G; fewer threads where needed; default: none
    memory_limit: Union[int, str, None] = None,
    # read other files that models or data name
    follow_links: Union[bool, None] = None,
    # an operator of your own (qcalib_kernel.h); repeatable
    kernel: Union[str, Sequence[str], None] = None,
    # a broken file of a folder is an error
    strict: Union[bool, None] = None,
) -> Comparison: ...
