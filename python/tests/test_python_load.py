# SPDX-License-Identifier: Apache-2.0
"""Many jobs in one process, in eight threads: memory and descriptors do not grow. QCALIB_LONG: 1,000 jobs, else 80."""
import concurrent.futures
import gc
import os
import pathlib

import numpy as np
from conftest import DIGITS, ROOT

import qcalib

JOBS = 1000 if "QCALIB_LONG" in os.environ else 80
THREADS = 8
GROWTH_MIB = 24


def held():
    """Returns the resident MiB and the open descriptors."""
    gc.collect()
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return kib / 1024, len(os.listdir("/proc/self/fd"))


def job(k):
    samples = np.random.default_rng(k).random((16, 1, 8, 8), dtype=np.float32)
    common = {"threads": 1, "samples": 16}
    if k % 4 == 0:
        return qcalib.quantize(DIGITS, samples, advice="off", method="mse", **common)
    if k % 4 == 1:
        return qcalib.quantize(DIGITS, ROOT / "datasets/digits_calib.h5", advice="off", method="mse", **common)
    if k % 4 == 2:
        return qcalib.run(DIGITS, samples)["logits"].shape
    try:
        qcalib.quantize(DIGITS, samples, method="no such method")
    except qcalib.QcalibError as error:
        return str(error)
    raise AssertionError("it was not refused")


def test_many_jobs_in_threads():
    with concurrent.futures.ThreadPoolExecutor(THREADS) as team:
        for part in (JOBS // 10, JOBS - JOBS // 10):
            assert all(team.map(job, range(part)))
            if part == JOBS // 10:
                early = held()
    late = held()
    print(f"{early[0]:.0f} MiB and {early[1]} descriptors after {JOBS // 10} jobs, {late[0]:.0f} MiB and {late[1]} "
          f"after {JOBS}")
    assert late[0] < early[0] + GROWTH_MIB and late[1] <= early[1]
