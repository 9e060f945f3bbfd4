"""Runs a command on two of the processors that this process may use.

    on_two_processors.py COMMAND WORD...
"""

import os
import sys

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
os.execvp(sys.argv[1], sys.argv[1:])
