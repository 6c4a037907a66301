# SPDX-License-Identifier: Apache-2.0
"""The release build: hardening flags, the list of linked libraries, the same bytes in any folder, no network."""

import json
import pathlib
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import ROOT
from test_failed_allocations import JOBS, inputs  # noqa: F401 (inputs is a fixture)

RELEASE = ROOT / "build/release"
LINKED = ["qcalib", "libqcalib.so"]


def readelf(*arguments):
    done = subprocess.run(["readelf", "-W", *map(str, arguments)], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(params=LINKED)
def linked(request):
    path = RELEASE / request.param
    assert path.exists(), "build the release preset"
    return path


def test_position_independent_and_read_only_after_relocation(linked):
    """PIE, full RELRO, a stack that cannot be executed, no segment that is writable and executable."""
    assert "DYN" in re.search(r"Type:.*", readelf("-h", linked)).group()
    segments = readelf("-l", linked)
    assert "GNU_RELRO" in segments
    flags = re.findall(r"^\s+(\w+)\s+0x\S+ 0x\S+ 0x\S+ 0x\S+ 0x\S+ ([RWE ]{3}) ", segments, re.M)
    assert flags and not any("W" in f and "E" in f for _, f in flags)
    assert ("GNU_STACK", "RW ") in flags
    assert "NOW" in readelf("-d", linked)


def test_stack_protector_and_checked_functions(linked):
    symbols = readelf("--dyn-syms", linked)
    assert "__stack_chk_fail" in symbols
    assert {"__memcpy_chk", "__snprintf_chk"} & set(re.findall(r"(__\w+_chk)\b", symbols))


def test_calls_have_landing_places():
    """CET on x86-64 and branch target identification on arm64, for all code of the project. Start files of the system may
    have been built without them, so the whole program need not have the property."""
    wanted = {"x86_64": "x86 feature: IBT, SHSTK", "aarch64": "aarch64 feature: BTI, PAC"}[platform.machine()]
    assert wanted in readelf("-n", RELEASE / "libqcalib.a")


def test_no_path_of_the_build_is_in_the_program(linked):
    assert str(ROOT).encode() not in linked.read_bytes()


def test_list_of_linked_libraries():
    """It names what the dynamic linker loads, with the version that the package manager knows, where there is one."""
    bill = json.loads((RELEASE / "qcalib.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX" and bill["specVersion"] == "1.5"
    components = {c["bom-ref"]: c for c in bill["components"]}
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", RELEASE / "libqcalib.so"))
    assert sorted(components) == sorted(needed) == sorted(bill["dependencies"][0]["dependsOn"])
    assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", RELEASE / "qcalib"))) <= set(needed)
    paths = dict(re.findall(r"(\S+) => (/\S+)", subprocess.check_output(["ldd", RELEASE / "libqcalib.so"], text=True)))
    known = 0
    for name, component in components.items():
        assert component["version"] in component["purl"] and re.match(r"\d+\.\d+", component["version"]), component
        if not shutil.which("dpkg") or name not in paths:
            continue
        path = pathlib.Path(paths[name])
        owner = [
            subprocess.run(["dpkg", "-S", p], capture_output=True, text=True, check=False).stdout.split(": ")[0]
            for p in {str(path), str(path.resolve()), str(path.resolve()).removeprefix("/usr")}
        ]
        package = next((o for o in owner if o), None)
        if not package or "," in package:
            continue
        version = subprocess.check_output(["dpkg-query", "-W", "-f", "${source:Upstream-Version}", package], text=True)
        if component["name"] in ("gcc", "llvm-openmp"):
            continue  # libgomp of the newest gcc that is installed serves all of them
        assert re.split(r"[+~]", version)[0].startswith(component["version"]), (component, version)
        known += 1
    assert known >= 8 or not shutil.which("dpkg")


@pytest.fixture(scope="session")
def driver(program):
    path = RELEASE / "tests/no_network"
    assert path.exists(), "build the tests"
    connect = "import socket; socket.socket()"
    done = subprocess.run([path, sys.executable, "-c", connect], capture_output=True, check=False)
    if done.returncode == 77:
        pytest.skip("this kernel has no filters of system calls")
    assert done.returncode == -signal.SIGSYS  # it does refuse
    return path


@pytest.mark.parametrize("name", JOBS)
def test_no_network(name, program, driver, inputs, tmp_path):  # noqa: F811
    """Every command does its work where any use of the network kills it."""
    shutil.copytree(inputs, tmp_path / "job")
    command = shlex.split(JOBS[name][0].format(n=2))
    done = subprocess.run(
        [driver, program, *command], cwd=tmp_path / "job", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for output in JOBS[name][1]:
        assert (tmp_path / "job" / output).stat().st_size
