# SPDX-License-Identifier: Apache-2.0
"""Runs a job in a separate thread, so that the calling thread can show progress and be interrupted."""

import ctypes
import queue
import sys
import threading
import warnings
from ctypes import byref

from . import _library
from ._errors import QcalibWarning
from ._words import in_python


class _Bars:
    """A bar of tqdm for each phase."""

    def __init__(self, tqdm):
        self._tqdm, self._bar, self._phase = tqdm, None, ""

    def __call__(self, phase, done, total):
        if phase != self._phase or not total:
            self.close()
        if total and not self._bar:
            self._bar, self._phase = self._tqdm(total=total, desc=phase, leave=False), phase
        if self._bar:
            self._bar.update(done - self._bar.n)

    def close(self):
        if self._bar:
            self._bar.close()
        self._bar, self._phase = None, ""


class _Steps:
    """Calls a function once for each step, but not at the beginning or end of a phase."""

    def __init__(self, told):
        self._told, self._last = told, None

    def __call__(self, phase, done, total):
        if phase and total and (phase, done, total) != self._last:
            self._last = phase, done, total
            self._told(phase, done, total)


def _shown(progress):
    """Returns the receiver of progress: a function, bars or None. progress=None: bars in a terminal or notebook."""
    if callable(progress):
        return _Steps(progress)
    if progress is None:
        progress = (sys.stderr is not None and sys.stderr.isatty()) or "ipykernel" in sys.modules
    if not progress:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return _Bars(tqdm)


class _Listener:
    """Receives progress and messages in any thread of the job and passes them to the waiting thread."""

    def __init__(self, told):
        self.events = queue.SimpleQueue()
        self.stop = False
        self.warnings = []
        self._told = told
        # Also set without a receiver of progress: the job asks this function whether to continue.
        self.progress = _library.ProgressFunction(self._progress)
        self.message = _library.MessageFunction(self._message)

    def _progress(self, _user, phase, done, total):
        if self._told:
            self.events.put((_library.text(phase), done, total))
        return int(self.stop)

    def _message(self, _user, text):
        self.warnings.append(in_python(_library.text(text)))


def _wait(listener, thread, told):
    """Shows progress until the job ends. An interrupt stops the job and is raised when the job has ended."""
    try:
        while (event := listener.events.get()) is not None:
            told(*event)
    except BaseException:
        listener.stop = True
        while thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt:  # the job is being stopped
                pass
        raise
    thread.join()


def perform(name, before, after, *, options=None, data=None, eval=None, statistics=None, progress=None, out=None):
    """Calls qcalib_NAME(before..., job, after...). Returns the exception for its error or None. Handles may be None.

    out: the path that will be written; the job checks it before any work."""
    told = _shown(progress)
    listener = _Listener(told)
    job = _library.Job(progress=listener.progress, message=listener.message)
    if out is not None:
        job.outputs, job.output_count = (ctypes.c_char_p * 1)(_library.path_bytes(out)), 1
    for member, handle in (("options", options), ("data", data), ("eval", eval), ("statistics", statistics)):
        if handle:
            setattr(job, member, handle.pointer)
    found = []

    def work():
        try:
            found.append(_library.outcome(name, *before, byref(job), *after))
        except BaseException as error:  # raised in the waiting thread
            found.append(error)
        finally:
            listener.events.put(None)

    thread = threading.Thread(target=work, name="qcalib", daemon=True)
    thread.start()
    try:
        _wait(listener, thread, told)
    finally:
        if isinstance(told, _Bars):
            told.close()
    for text in listener.warnings:
        warnings.warn(text, QcalibWarning, stacklevel=4)
    return found[0]
