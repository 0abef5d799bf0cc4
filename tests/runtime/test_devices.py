"""Where a process runs: devices, and the variables of torchrun."""

import pytest
import torch

from albert_rc.errors import UsageError
from albert_rc.runtime.devices import _cgroups, processes


def test_the_limits_of_all_control_groups_around_count(tmp_path):
    """Slurm limits a job's own group, not the one at the mount."""
    listed = tmp_path / "cgroup"
    listed.write_text("0::/system.slice/job_7/step_0\n4:cpu:/a\n5:memory:/b/c\n")
    found = [str(path).removeprefix("/sys/fs/cgroup") for path in _cgroups(listed)]
    assert found == [
        "", "/memory", "/system.slice", "/system.slice/job_7", "/system.slice/job_7/step_0",
        "/memory/b", "/memory/b/c",
    ]  # fmt: skip
    assert len(_cgroups(tmp_path / "none")) == 2


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"WORLD_SIZE": ""}, "WORLD_SIZE is "),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE is "),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE is "),
        ({"WORLD_SIZE": "2"}, "not set: RANK, MASTER_ADDR, MASTER_PORT"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost"}, "not set: MASTER_PORT"),
    ],
)
def test_a_process_group_that_cannot_be_joined_is_refused(monkeypatch, variables, said):
    for name in ("WORLD_SIZE", "RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=said) as caught, processes("cpu"):
        pass
    assert "torchrun" in str(caught.value)


@pytest.mark.parametrize("device", ["tpu", "cuda:", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(device):
    with pytest.raises(UsageError, match=f"--device {device}: ") as caught, processes(device):
        pass
    if device == "cuda:99" and torch.cuda.is_available():
        assert "count from 0" in str(caught.value)
