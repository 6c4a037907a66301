# SPDX-License-Identifier: Apache-2.0
"""scripts/determinism: results have the same bytes for any number of threads, order of samples, shards, locale, umask, folder of
temporary files and instruction set. With QCALIB_LONG it takes all models."""

import os
import subprocess
import sys

import pytest
from conftest import LONG, ROOT


def test_results_are_the_same_everywhere(program):
    models = [] if LONG else ["--models", "digits"]
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/determinism", *models],
        env={**os.environ, "QCALIB": str(program)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 2 and "the locale" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| digits_cnn |" in done.stdout and done.stdout.count("same") >= 12
