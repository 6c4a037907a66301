# SPDX-License-Identifier: Apache-2.0
"""A function as the program of --metric: this file, run as a program, sends the model file to the job's process, which
answers with a number."""

import contextlib
import os
import socket
import sys
import tempfile
import threading


def _ask(address, file):
    """Returns the answer of the server."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        line.sendall(os.fsencode(os.path.abspath(file)) + b"\0")
        return b"".join(iter(lambda: line.recv(4096), b"")).decode()


class Server:
    """Measures files with a function while a job runs. `error` is the exception of the function, or None."""

    def __init__(self, function):
        self._function, self.error = function, None
        self._folder = tempfile.TemporaryDirectory(prefix="qcalib-")
        self.address = os.path.join(self._folder.name, "metric")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.address)
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def command(self):
        words = [sys.executable, os.path.abspath(__file__), self.address]
        return " ".join(f"'{word}'" for word in words) + " {}"

    def _serve(self):
        while True:
            try:
                line, _ = self._socket.accept()
            except OSError:  # closed
                return
            with line:
                asked = b""
                while not asked.endswith(b"\0"):
                    more = line.recv(4096)
                    if not more:
                        break
                    asked += more
                if not asked.endswith(b"\0"):
                    continue
                try:
                    answer = repr(float(self._function(os.fsdecode(asked[:-1]))))
                except BaseException as error:  # raised again by the job's thread
                    self.error, answer = error, ""
                with contextlib.suppress(OSError):
                    line.sendall(answer.encode())

    def close(self):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        self._folder.cleanup()


if __name__ == "__main__":
    ANSWER = _ask(*sys.argv[1:3])
    print(ANSWER or "the function of metric= failed", file=sys.stdout if ANSWER else sys.stderr)
    sys.exit(0 if ANSWER else 1)
