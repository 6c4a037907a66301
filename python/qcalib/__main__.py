# SPDX-License-Identifier: Apache-2.0
"""`python -m qcalib` and `qcalib`: run the command line program in the package."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "qcalib")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
