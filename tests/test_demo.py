# SPDX-License-Identifier: Apache-2.0
"""The demonstration prints its guarantee and writes a release and a picture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import onedraw

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "examples" / "demo.py"


def run_demo(folder, *options, **environment):
    command = [sys.executable, "-W", "error", str(DEMO), *options]
    path = os.pathsep.join([str(Path(onedraw.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    # The current folder receives the files, and matplotlib its cache, when nothing else is said.
    env = {**os.environ, "PYTHONPATH": path, **environment}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def seeded(tmp_path_factory):
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("demo")
    done = run_demo(folder, "--seed", "1", "--epsilon", "2", "--repeats", "2")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def words(text):
    return " ".join(text.split())


def test_the_guarantee_is_printed_as_one_sentence(seeded):
    folder, out = seeded
    release = onedraw.Release.from_json(folder / "release.json")
    assert release.statement in words(out)
    assert release.guarantee.epsilon == 2.0


def test_the_release_is_readable_and_marked_as_seeded(seeded):
    folder, out = seeded
    release = onedraw.Release.from_json(folder / "release.json")
    assert release.seeded
    assert "SEEDED" in out
    assert release.model.classes == ("benign", "malignant")
    assert not any("classes" in line for line in release.assumptions)
    for line in release.assumptions:
        assert line in words(out)


def test_private_and_plain_numbers_stand_beside_each_other(seeded):
    _, out = seeded
    names = ["mean radius", "mean texture", "mean concavity", "(intercept)", "accuracy", "area under ROC"]
    for name in names:
        row = next(line for line in out.splitlines() if line.strip().startswith(name))
        private, plain = (float(value) for value in row.split()[-2:])
        assert private != plain or name == "accuracy"
    accuracy = next(line for line in out.splitlines() if line.strip().startswith("accuracy")).split()
    assert float(accuracy[1]) > 0.75
    assert float(accuracy[2]) > 0.85


def test_the_picture_is_a_small_png(seeded):
    folder, _ = seeded
    picture = (folder / "demo.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert 10_000 < len(picture) < 150_000


def test_a_seed_repeats_the_release(seeded, tmp_path):
    folder, _ = seeded
    done = run_demo(tmp_path, "--seed", "1", "--epsilon", "2", "--no-plot", "--out", "there")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there" / "release.json").read_text() == (folder / "release.json").read_text()
    assert not (tmp_path / "there" / "demo.png").exists()


def test_without_a_seed_the_release_is_not_seeded(tmp_path):
    done = run_demo(tmp_path, "--no-plot")
    assert done.returncode == 0, done.stderr
    assert not onedraw.Release.from_json(tmp_path / "release.json").seeded
    assert "SEEDED" not in done.stdout


def test_a_missing_matplotlib_is_named_before_anything_is_released(tmp_path):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('not here')\n")
    path = os.pathsep.join([str(tmp_path), str(Path(onedraw.__file__).parents[1])])
    done = run_demo(tmp_path, PYTHONPATH=path)
    assert done.returncode == 1
    assert "[plots]'" in done.stderr
    assert not (tmp_path / "release.json").exists()


def test_a_bad_epsilon_is_refused_with_advice(tmp_path):
    done = run_demo(tmp_path, "--epsilon", "0", "--no-plot")
    assert done.returncode == 1
    assert "Expected epsilon > 0" in done.stderr
    assert "Traceback" not in done.stderr
