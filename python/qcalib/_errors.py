# SPDX-License-Identifier: Apache-2.0
"""Exceptions, one for each exit code of the command line."""

import errno
import os


class QcalibError(Exception):
    """Any error of qcalib. `code` is the exit code of the command line."""

    code = 5


class DemandError(QcalibError):
    """A demand was not met: require_integer, max_drop. `result` has the report, or is None."""

    code = 1
    result = None

    def __reduce__(self):
        """The result stays in its process: after pickling it is None."""
        return type(self), self.args


class UsageError(QcalibError, ValueError):
    """Wrong options or arguments."""

    code = 2


class BadInputError(QcalibError, ValueError):
    """A damaged or inconsistent model, data or statistics."""

    code = 3


class MissingFileError(BadInputError, FileNotFoundError):
    """A file does not exist."""


class UnsupportedError(QcalibError):
    """Operators, types or an opset that qcalib does not support; the message names all of them."""

    code = 4


class MachineError(QcalibError, OSError):
    """Memory, disk, file permissions."""

    code = 5


class QcalibWarning(UserWarning):
    """A warning of a job."""


INTERRUPTED = 130
_MISSING = os.strerror(errno.ENOENT)


def _missing(message):
    error = MissingFileError(message)
    error.errno = errno.ENOENT
    return error


def of_code(code, message):
    """Returns the exception for an error code of the library, which is not 0."""
    if code == INTERRUPTED:
        return KeyboardInterrupt(message)
    for kind in (DemandError, UsageError, BadInputError, UnsupportedError, MachineError):
        if kind.code == code:
            return kind(message) if code != 3 or _MISSING not in message else _missing(message)
    error = QcalibError(message)
    error.code = code
    return error
