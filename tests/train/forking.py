"""Run a script as so many ranks, forked from one process: what the script imports takes its seconds once, not for each.

python forking.py WORLD FOLDER SCRIPT.py ARGUMENT…      (rank N prints into FOLDER/rank N)
"""

import os
import runpy
import sys
import traceback
from pathlib import Path


def rank(number: int, folder: Path, script: str) -> int:
    """In a child: the script as that rank; the exit status."""
    output = os.open(folder / f"rank {number}", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number)}
    try:
        runpy.run_path(script, run_name="__main__")
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main(world: int, folder: Path, script: str, arguments: list[str]) -> int:
    """Whether any of the ranks failed."""
    runpy.run_path(script, run_name="imported")  # it starts no threads: those a child would not have
    sys.argv = [script, *arguments]
    children = []
    for number in range(world):
        if not (child := os.fork()):
            status = rank(number, folder, script)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4:]))
