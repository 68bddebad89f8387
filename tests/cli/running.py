"""`headway train` as a process of its own: started, and waited for."""

import subprocess
import sys


def start(job, *words, **how):
    command = [sys.executable, "-m", "headway", "train", str(job), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)


def end(process, timeout=90):
    """Exit status, stdout and stderr; no traceback is ever shown."""
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert "Traceback" not in err
    return process.returncode, out, err
