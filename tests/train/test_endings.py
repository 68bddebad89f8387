"""What asks a worker to stop: the control file of its run, seen within a second or so."""

import time

from headway import control
from headway.train.endings import TOLD, Stop


def test_a_file_that_is_made_in_mid_run_asks_and_says_why(tmp_path):
    stop = Stop()
    stop.look_into(tmp_path)
    time.sleep(0.05)
    assert (stop.asked, stop.why) == (False, TOLD)
    control.stop_file(tmp_path).parent.mkdir()
    control.stop_file(tmp_path).write_text("the node is wanted")
    deadline = time.monotonic() + 20
    while not stop.asked:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert stop.why == f"{control.stop_file(tmp_path)} says: the node is wanted"
