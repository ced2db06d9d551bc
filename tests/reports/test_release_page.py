# SPDX-License-Identifier: Apache-2.0
"""The page of a release: self-contained, complete, safe with a hostile file, and right in a real browser."""

import re

import numpy as np
import pytest
from click.testing import CliRunner

import onedraw
from onedraw.cli.app import main

HOSTILE = '</script></style><script>document.title="owned"</script><img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A release of counts with several draws, a receipt and hostile names, and its page."""
    folder = tmp_path_factory.mktemp("page")
    rng = np.random.default_rng(0)
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"age": rng.uniform(-1, 1, 2000), HOSTILE: rng.uniform(-1, 1, 2000)})
    y = rng.poisson(np.exp(0.3 + 0.5 * X["age"]))
    ledger = onedraw.Ledger(folder / "budget.db")
    ledger.create("patients", epsilon=20)
    model = onedraw.PoissonRegressor(
        epsilon=20.0, draws=8, ledger=ledger, dataset="patients", feature_bounds=(-1, 1), random_state=0
    ).fit(X, y)
    model.release_.to_json(folder / "release.json")
    run = CliRunner().invoke(
        main, ["show", str(folder / "release.json"), "--html", str(folder / "page.html"), "--exponentiate"]
    )
    assert run.exit_code == 0, run.output
    return model, folder / "page.html", run.output


def test_the_page_is_one_file_that_loads_and_runs_nothing(written, well_formed):
    text = written[1].read_text("utf-8")
    parsed = well_formed(text)
    assert not {"script", "img", "link", "iframe", "object"} & set(parsed.tags)
    assert not parsed.addresses
    assert "default-src &#x27;none&#x27;" in text
    assert "@import" not in text
    assert "url(" not in text
    assert "&lt;img src=x onerror=" in text


def test_the_page_says_all_that_the_release_says(written):
    model, path, printed = written
    text = path.read_text("utf-8")
    release, found = model.release_, model.summary(exponentiate=True)
    for sentence in (release.statement, *release.assumptions, release.evidence.statement, *found.notes):
        assert sentence.replace("'", "&#x27;") in text
    for value in release.receipt.values():
        assert str(value) in text
    for row in found.rows()[1]:
        for cell in row[1:]:
            assert cell.replace("-", "\u2212").replace("<", "&lt;") in text
    assert "SEEDED" in text
    assert text.count("<circle") == 2
    assert f"Page: {path}" in printed


def test_an_existing_page_is_kept_unless_forced(written):
    _, path, _ = written
    arguments = ["show", str(path.parent / "release.json"), "--html", str(path)]
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert CliRunner().invoke(main, [*arguments, "--force"]).exit_code == 0
    with pytest.raises(SystemExit) as stopped:
        main([*arguments[:-1], arguments[1], "--force"])  # the release itself is never replaced
    assert stopped.value.code == 2


@pytest.mark.parametrize("kind", ["no intervals", "network"])
def test_releases_without_intervals_show_their_parameters_and_why(tmp_path, monkeypatch, kind, well_formed):
    from onedraw.families import Bernoulli
    from onedraw.model import NetworkModel, RegressionModel
    from onedraw.release import Grid, Made, Release
    from onedraw.samplers.base import Evidence

    monkeypatch.chdir(tmp_path)
    network = kind == "network"
    model = (
        NetworkModel(family=Bernoulli(), features=("age",), hidden_layer_sizes=(1,), classes=("a", "b"))
        if network
        else RegressionModel(family=Bernoulli(), features=("age",), classes=("a", "b"))
    )
    numbers = {"loss": "BetaDivergence", "beta": 2.0, "weight": 0.5, "prior_scale": 1.0, "sampler_error": 0.0}
    Release(
        model=model,
        draws=((1.0, 0.0, 1.0, -1.0)[: model.dim],),
        grid=Grid(coefficient=0.125),
        mechanism=Made(name="network_draw" if network else "output_perturbation", numbers=numbers),
        guarantee=onedraw.Guarantee(epsilon=1.0, delta=1e-6, neighbours="add_remove", rows_per_person=5),
        assumptions=(),
        evidence=Evidence(level="diagnosed", statement="By hand."),
        seeded=False,
    ).to_json("release.json")
    run = CliRunner().invoke(main, ["show", "release.json", "--html", "page.html"])
    assert run.exit_code == 0, run.output
    text = (tmp_path / "page.html").read_text("utf-8")
    well_formed(text)
    assert "Parameters as released" in text
    assert ("No intervals:" in text) is not network
    assert "except with a probability of at most 2e-06" in text
    assert "up to 5" in text
    assert "SEEDED" not in text
    assert "No ledger was charged" in text


PROBE = (
    "<script>addEventListener('load', () => { document.body.dataset.wide = "
    "document.documentElement.scrollWidth; document.body.dataset.title = document.title; "
    "document.body.dataset.dots = [...document.querySelectorAll('circle')].every(c => { const r = "
    "c.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth; }); });</script>"
)


@pytest.mark.parametrize("width", [1100, 500])
def test_a_browser_lays_the_page_out_within_its_width_and_runs_nothing(written, browse, width):
    dom = browse(written[1].read_text("utf-8"), width, probe=PROBE)
    assert int(re.search(r'data-wide="(\d+)"', dom)[1]) <= width
    assert 'data-dots="true"' in dom
    assert 'data-title="Private release: Poisson regression"' in dom
