"""Runs on one device, on four, in two processes, and killed and resumed give the same bytes."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from jaxhamel.ensemble._study._devices import in_order
from tests.ensemble import many_devices

PROGRAM = Path(many_devices.__file__)


def test_tasks_run_beside_each_other_and_come_in_order():
    second = threading.Event()

    def work(task):
        if task == 1:
            second.set()
        return task, task > 0 or second.wait(5.0)  # task 0 waits for task 1

    assert list(in_order(work, range(9), threads=2)) == [(task, True) for task in range(9)]


def start(folder, *arguments, devices=1):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, PROGRAM, str(folder), *map(str, arguments)],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answers(processes):
    said = [process.communicate(timeout=200) for process in processes]
    for process, (_, errors) in zip(processes, said, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


@pytest.fixture(scope="module")
def alone():
    """Statistics of a run on the single device of this process, as JSON."""
    return json.dumps(many_devices.run().statistics)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder of a run on four devices that was killed by SIGKILL, and the output of its process before."""
    folder = tmp_path_factory.mktemp("killed")
    victim = start(folder, "kill", devices=4)
    said, errors = victim.communicate(timeout=200)
    assert victim.returncode == -signal.SIGKILL, errors
    return folder, said


def test_four_devices_killed_and_resumed_on_one(alone, killed):
    """A killed run on four devices is resumed on one device; its bytes are those of an uninterrupted run."""
    written = []
    resumed = many_devices.run(killed[0], resume=True, progress=written.append)
    assert json.dumps(resumed.statistics) == alone
    assert written[1].rate == 0 < written[-1].rate  # two blocks had been written


def test_two_processes(alone, tmp_path):
    """Two processes with two devices each compute half of the run; both return all results, and one writes the folder.
    If one process fails, the other one stops, too."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    processes = [start(tmp_path / str(i), port, i, 2, devices=2) for i in range(2)]
    here, there = answers(processes)
    assert here["trouble"] == "process 1 could not go on; its own message says why."
    assert there["trouble"] == "process 1 has enough"
    for found in (here, there):
        assert found["devices"] == 4
        assert found["large"] == [2.0**24, 2.0**24 + 1]
        assert json.dumps(found["statistics"]) == alone
    assert (tmp_path / "0" / "values.zarr").is_dir()
    assert not (tmp_path / "1").exists()


def test_another_block_rounds_the_same(alone):
    """Blocks of 64 and of 104 give the same last digits, since each lane is computed independently."""
    assert json.dumps(many_devices.run(block=104).statistics) == alone


def test_results_come_in_order_and_errors_arrive():
    assert list(in_order(lambda x: x * x, range(50), 3)) == [x * x for x in range(50)]
    started = []
    few = in_order(lambda x: started.append(x) or x, range(1000), 2)
    assert next(few) == 0
    few.close()
    assert len(started) < 20  # the reader stopped, and so do the workers
    with pytest.raises(ZeroDivisionError):
        list(in_order(lambda x: 1 / (x - 3), range(5), 2))


def test_a_sharded_ensemble_axis(killed):
    """`rollout` keeps the sharding of its arguments and needs no exchange between devices.

    One device would pad the 512 trajectories to 520 lanes.
    """
    found = json.loads(killed[1].splitlines()[0])
    np.testing.assert_allclose(found[:300], many_devices.run().values["x"], rtol=1e-12)
