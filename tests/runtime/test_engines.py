"""Tasks on the engines: in order, errors as they are, workers that are lost."""

import json
import os
import random
import signal
import threading
from functools import partial
from pathlib import Path

import pytest
import work
from conftest import SAMPLE
from work import deadly, slow_and_mortal, squares

from albert_rc.answering.cluster import WorkerModel
from albert_rc.errors import AlbertRcError, CheckpointError, DataError, UsageError
from albert_rc.runtime.engines import TaskEngine
from albert_rc.runtime.ray_pool import RayPool


def test_tasks_run_here_in_order():
    tasks = list(TaskEngine().map_in_order(partial(squares, 1), range(9), 2))
    assert tasks == [(n, n**2 + 1) for n in range(9)]


def test_an_address_is_for_ray():
    with pytest.raises(UsageError, match="--address needs --engine ray"):
        TaskEngine(address="10.0.0.1:6379")
    with pytest.raises(UsageError, match="--engine dask: choose from local, ray"):
        TaskEngine(name="dask")


def test_without_ray_the_way_out_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UsageError, match=r"albert-rc\[ray\]"):
        list(TaskEngine(name="ray").map_in_order(squares, range(3), 1))


@pytest.fixture(scope="module")
def cluster():
    """Two nodes of a core each on this machine; their workers can import this file."""
    ray = pytest.importorskip("ray", reason="no ray; pip install 'albert-rc[ray]'")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    here = {"env_vars": {"PYTHONPATH": str(Path(work.__file__).parent)}}
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR", runtime_env=here)
    yield made
    ray.shutdown()
    made.shutdown()


def where(engine, cluster):
    return ["--address", cluster.address] if engine == "ray" else []


def test_a_worker_takes_a_gpu_only_if_it_may():
    nodes = [{"CPU": 2.0}, {"CPU": 16.0, "GPU": 1.0}]
    assert TaskEngine(name="ray")._model_needs(nodes) == {"CPU": 1.0, "GPU": 1.0}
    assert TaskEngine(name="ray", gpus=False)._model_needs(nodes) == {"CPU": 2.0}


@pytest.mark.slow
def test_a_cluster_does_tasks_in_order_and_says_errors_as_they_are(cluster):
    engine = TaskEngine(name="ray")
    done = list(engine.map_in_order(partial(squares, 2), range(12), None))
    assert done == [(n, n**2 + 2) for n in range(12)]
    with pytest.raises(DataError, match="13 is unlucky"):
        list(engine.map_in_order(squares, range(20), 2))


@pytest.mark.slow
def test_workers_that_are_killed_cost_nothing_but_time(cluster, tmp_path):
    tasks, ended, kills = 120, threading.Event(), []

    def kill():
        generator = random.Random(3)
        while not ended.wait(0.8):
            alive = [int(path.name) for path in tmp_path.iterdir()]
            if alive and len(kills) < 10:
                victim = generator.choice(alive)
                (tmp_path / str(victim)).unlink()
                try:
                    os.kill(victim, signal.SIGKILL)
                    kills.append(victim)
                except ProcessLookupError:
                    pass

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        prepare = partial(slow_and_mortal, tmp_path)
        done = [
            result for _, result in TaskEngine(name="ray").map_in_order(prepare, range(tasks), 2)
        ]
    finally:
        ended.set()
        killer.join()
    assert done == list(range(tasks))
    assert kills


@pytest.mark.slow
def test_a_machine_that_goes_costs_nothing_but_time(cluster, tmp_path):
    third = cluster.add_node(num_cpus=1)
    done = []
    with RayPool(None, partial(slow_and_mortal, tmp_path), 3, lambda nodes: {"CPU": 1.0}) as pool:
        for _, result in pool.map_in_order(range(90)):
            done.append(result)
            if result == 20:  # all three are at work
                cluster.remove_node(third)
    assert done == list(range(90))


@pytest.mark.slow
def test_a_task_that_always_kills_its_worker_ends_it(cluster):
    with pytest.raises(AlbertRcError, match="keep failing"):
        list(TaskEngine(name="ray").map_in_order(deadly, range(3), 2))


@pytest.mark.slow
def test_stores_of_a_cluster_are_those_of_one_machine(cluster, tmp_path, works):
    papers = SAMPLE / "cloze"
    for engine in ("local", "ray"):
        works("preprocess", papers, "--model", "albert-rc-tiny", "--out", tmp_path / engine,
                 "--engine", engine, *where(engine, cluster))  # fmt: skip
    for name in ("train.pt", "dev.pt", "test.pt"):
        assert (tmp_path / "local" / name).read_bytes() == (tmp_path / "ray" / name).read_bytes()


@pytest.mark.slow
def test_shards_of_a_cluster_are_those_of_one_machine(cluster, tmp_path, works):
    text = tmp_path / "text"
    text.mkdir()
    for number in range(6):
        story = f"It was dark night number {number} in the old house by the sea. " * 400
        (text / f"{number}.txt").write_text(story)
    for engine in ("local", "ray"):
        options = ["--set", "shard_size=20kB", "--engine", engine, *where(engine, cluster)]
        out = tmp_path / engine
        works("pretrain", "data", text, "--model", "albert-rc-tiny", "--out", out, *options)
    shards = sorted(p.relative_to(tmp_path / "local") for p in (tmp_path / "local").rglob("*.pt"))
    assert len(shards) > 3
    for shard in shards:
        assert (tmp_path / "local" / shard).read_bytes() == (tmp_path / "ray" / shard).read_bytes()


SQUAD = {
    "title": "Bread",
    "paragraphs": [
        {
            "context": "Bread goes stale in a day. Keep it in the freezer. " * 60,
            "qas": [
                {"id": str(at), "question": "Where should bread be kept?", "answers": []}
                for at in range(9)
            ],
        }
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("task", ["cloze", "dream", "squad"])
def test_answers_of_a_cluster_are_those_of_one_machine(cluster, tmp_path, works, task):
    papers = tmp_path / "squad.json"
    papers.write_text(json.dumps({"version": "v2.0", "data": [SQUAD]}))
    papers = {"cloze": SAMPLE / "cloze" / "dev", "dream": SAMPLE / "dream" / "dev.json"}.get(
        task, papers
    )
    for engine in ("local", "ray"):
        out = tmp_path / f"{engine}.json"
        works("predict", "--data", papers, "--model", "albert-rc-tiny", "--out", out, "--scores",
              out.with_suffix(".jsonl"), "--engine", engine, *where(engine, cluster))  # fmt: skip
    for suffix in (".json", ".jsonl"):
        one, other = (tmp_path / f"{engine}{suffix}" for engine in ("local", "ray"))
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.slow
def test_options_of_several_pieces_too(cluster, tmp_path, works):
    for engine in ("local", "ray"):
        works("predict", "--data", SAMPLE / "cloze" / "dev", "--model", "albert-rc-tiny",
              "--option-score", "masks", "--out", tmp_path / f"{engine}.json",
              "--engine", engine, *where(engine, cluster))  # fmt: skip
    assert (tmp_path / "local.json").read_bytes() == (tmp_path / "ray.json").read_bytes()


def test_other_weights_on_a_worker_are_refused():
    with pytest.raises(CheckpointError, match="a machine of the cluster has different weights"):
        WorkerModel(
            source="albert-rc-tiny", task="cloze", how={}, ffn_chunk=None, weights="0" * 16
        )()
