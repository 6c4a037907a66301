# SPDX-License-Identifier: Apache-2.0
"""Runs a program on a pseudo terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios


def on_terminal(program, folder, *arguments, columns=None, **environment):
    """Runs with standard output and error on a pseudo terminal; returns all that was written."""
    main, side = pty.openpty()
    if columns:
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")} | {"TERM": "xterm"} | environment
    run = subprocess.Popen(
        [program, *map(str, arguments)], cwd=folder, stdin=subprocess.DEVNULL, stdout=side, stderr=side, env=env
    )
    os.close(side)
    text = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        text += part
    os.close(main)
    return run.wait(), text.decode()
