# SPDX-License-Identifier: Apache-2.0
"""scripts/release: the tag is the version of the source, and its changes are dated."""

import re
import shutil
import subprocess

import documentation
import pytest

VERSION = re.search(r"^project\(qcalib VERSION ([\d.]+)", (documentation.ROOT / "CMakeLists.txt").read_text(), re.M)[1]


@pytest.fixture
def release(tmp_path):
    """Runs scripts/release in a copy with this text as CHANGELOG.md."""
    (tmp_path / "scripts").mkdir()
    for file in ("scripts/release", "CMakeLists.txt"):
        shutil.copy(documentation.ROOT / file, tmp_path / file)

    def run(changes, tag=f"v{VERSION}"):
        (tmp_path / "CHANGELOG.md").write_text(changes)
        return subprocess.run([tmp_path / "scripts/release", tag], capture_output=True, text=True, check=False)

    return run


def test_it_prints_the_changes_of_the_version(release):
    new = f"## {VERSION}, 2026-12-01\n\nNew\n- a thing\n\n"
    done = release(f"# Changes\n\n{new}## 0.0.9, 2026-01-01\n\nOld\n")
    assert done.returncode == 0 and done.stdout.strip() == new.strip()


def test_another_tag_is_refused(release):
    done = release(f"## {VERSION}, 2026-12-01\n", "v99.0.0")
    assert done.returncode == 1 and f"the version {VERSION}" in done.stderr


@pytest.mark.parametrize("heading", ["{}, not released yet", "{}0, 2026-12-01", "0.0.9, 2026-01-01"])
def test_changes_without_a_date_are_refused(heading, release):
    done = release(f"## {heading.format(VERSION)}\n\nNew\n")
    assert done.returncode == 1 and f"## {VERSION}, YYYY-MM-DD" in done.stderr and not done.stdout


def test_the_change_log_begins_with_the_version():
    assert re.search(r"^## ([\d.]+), ", (documentation.ROOT / "CHANGELOG.md").read_text(), re.M)[1] == VERSION
