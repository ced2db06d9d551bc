# SPDX-License-Identifier: Apache-2.0
import copy
import dataclasses
import json
import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest

import onedraw
from onedraw import Release, ReleaseFormatError
from onedraw.families import Bernoulli, Gaussian, Poisson
from onedraw.mechanisms import OnePosterior
from onedraw.model import NetworkModel, Offset, RegressionModel, SitesModel
from onedraw.release import Grid, Statistic, coefficient_step, scale_step
from onedraw.release.file import digest
from onedraw.release.text import cell, visible

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "release_format.md"


def fit(kind="linear", seed=0, n=80, **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    options = {"epsilon": 1.0, "random_state": 1, "mechanism": OnePosterior(), **options}
    if kind == "linear":
        return onedraw.LinearRegression(**options).fit(X, X[:, 0] + rng.normal(size=n)).release_
    if kind == "poisson":
        return onedraw.PoissonRegressor(**options).fit(X, rng.poisson(1.5, size=n)).release_
    classes = 3 if kind == "multinomial" else 2
    y = np.r_[np.arange(classes), rng.integers(0, classes, size=n - classes)]
    return onedraw.LogisticRegression(**options).fit(X, y).release_


KINDS = ["linear", "poisson", "logistic", "multinomial"]


@pytest.fixture(scope="module", params=KINDS)
def release(request):
    return fit(request.param, draws=2, feature_bounds=(-4, 4))


@pytest.fixture(scope="module")
def content():
    return fit("linear", target_bounds=(-3, 3)).to_dict()


def signed(content):
    """The content with a digest that fits, as a careful forger would write it."""
    body = {key: value for key, value in content.items() if key != "digest"}
    return {**body, "digest": digest(body)}


def changed(content, path, value):
    result = copy.deepcopy(content)
    *parents, last = path
    place = result
    for name in parents:
        place = place[name]
    place[last] = value
    return result


# -- files


def test_json_round_trip_is_exact(release, tmp_path):
    path = tmp_path / "release.json"
    text = release.to_json(path)
    assert path.read_text(encoding="utf-8") == text
    assert [p.name for p in tmp_path.iterdir()] == ["release.json"]
    for source in (path, str(path), text):
        loaded = Release.from_json(source)
        assert loaded == release
        assert loaded.to_json() == text
    np.testing.assert_array_equal(loaded.parameters.flat(), release.parameters.flat())


def test_a_planted_link_is_not_followed_when_writing(tmp_path):
    """Neither one at the name that used to be written first, nor one at the target."""
    victim, path = tmp_path / "victim", tmp_path / "release.json"
    victim.write_text("precious")
    for planted in (tmp_path / "release.json.part", path):
        planted.symlink_to(victim)
    text = fit("poisson").to_json(path)
    assert victim.read_text() == "precious"
    assert not path.is_symlink()
    assert path.read_text(encoding="utf-8") == text


def test_the_file_that_is_written_first_has_a_new_name_each_time(tmp_path, monkeypatch):
    names, opened = [], []
    replace, open_file = os.replace, os.open

    def noted(path, flags, *rest):
        opened.append(flags)
        return open_file(path, flags, *rest)

    monkeypatch.setattr(os, "replace", lambda a, b: (names.append(Path(a)), replace(a, b)))
    monkeypatch.setattr(os, "open", noted)
    release = fit("poisson")
    for _ in range(2):
        release.to_json(tmp_path / "release.json")
    assert len(set(names)) == 2
    assert all(name.parent == tmp_path for name in names)
    assert all(flags & os.O_EXCL and flags & os.O_CREAT for flags in opened)
    assert [path.name for path in tmp_path.iterdir()] == ["release.json"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "release.json"
    path.write_text("old")

    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        fit("poisson").to_json(path)
    assert [p.name for p in tmp_path.iterdir()] == ["release.json"]
    assert path.read_text() == "old"


@pytest.mark.skipif(os.name == "nt", reason="no permission bits")
def test_a_release_has_the_permissions_that_the_user_asks_for(tmp_path):
    before = os.umask(0o027)
    try:
        fit("poisson").to_json(tmp_path / "release.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "release.json").stat().st_mode) == 0o640


def test_receipts_survive(content):
    with_receipt = signed(changed(content, ["receipt"], {"dataset": "patients", "id": "7"}))
    assert Release.from_dict(with_receipt).receipt == {"dataset": "patients", "id": "7"}


USERS = ("parameters", "receipt", "family", "options", "numbers", "statistics")
"""What has names of its own inside: the user's, the family's, the mechanism's."""


def all_keys(value, own=()):
    """Every key of the schema, apart from names that belong to a user, a family or a mechanism."""
    for key, inner in value.items():
        yield (*own, key)
        if isinstance(inner, dict) and key not in USERS:
            yield from all_keys(inner, (*own, key))


def documented_keys():
    section, found = (), set()
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"## `(\w+)`", line):
            section = (heading[1],)
        elif row := re.match(r"\| (`\w+`(?:, `\w+`)*) \|", line):
            found |= {(*section, name) for name in re.findall(r"`(\w+)`", row[1])}
    return found


def keys_of_other_forms():
    """What exposures, shares, networks and NumPyro models add to the keys of a regression."""
    network = NetworkModel(family=Bernoulli(), features=("x",), hidden_layer_sizes=(2,), classes=(0, 1))
    sites = SitesModel(sites=(("slope", ()),))
    offset = Offset(name="years", bounds=(0.5, 2.0))
    exposed = RegressionModel(family=Poisson(), features=("x",), offset=offset)
    means = RegressionModel(family=Bernoulli(), features=(), classes=(0.0, 9.0), shares=True)
    return {("model", key) for model in (network, sites, exposed, means) for key in model.to_dict()}


def test_every_field_is_documented_and_no_other(release):
    fields, others = set(all_keys(release.to_dict())), keys_of_other_forms()
    assert fields | others == documented_keys()
    assert others - fields == {
        ("model", "offset"),
        ("model", "shares"),
        ("model", "hidden_layer_sizes"),
        ("model", "activation"),
        ("model", "sites"),
    }


def test_statistics_are_on_a_grid_of_their_own_and_survive(release, tmp_path):
    found = Statistic.rounded([1 / 3, -1e5], unit=8.0)
    assert found.step == 2.0**-37
    np.testing.assert_allclose(found.array(), [1 / 3, -1e5], atol=2.0**-37)
    more = dataclasses.replace(release, statistics={"curvature": found})
    assert Release.from_json(more.to_json()).statistics == {"curvature": found}
    with pytest.raises(onedraw.InvalidInput, match="off its public grid"):
        Statistic(values=(1 / 3,), step=found.step)
    forged = changed(more.to_dict(), ["statistics", "curvature", "values", 0], 1 / 3)
    with pytest.raises(ReleaseFormatError, match="off its public grid"):
        Release.from_dict(signed(forged))


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(
        ReleaseFormatError, match=r"Cannot read a release from '.*nothing.json' \(No such file"
    ):
        Release.from_json(tmp_path / "nothing.json")
    for source in ("", "a\0b", "x" * 10_000, tmp_path):
        with pytest.raises(ReleaseFormatError, match="Cannot read a release from") as info:
            Release.from_json(source)
        assert len(str(info.value)) < 500


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe\x00", b"[1, 2]", b"cos\nsystem\n(S'ls'\ntR.", b'"text"', b"null"]
)
def test_a_file_of_something_else_is_refused(data, tmp_path):
    path = tmp_path / "release.json"
    path.write_bytes(data)
    with pytest.raises(
        ReleaseFormatError, match=r"Cannot read|not a whole release file|Expected a release with schema"
    ):
        Release.from_json(path)


def test_a_truncated_file_is_refused(content):
    text = json.dumps(content, indent=2)
    for length in range(1, len(text), 97):
        with pytest.raises(ReleaseFormatError, match=r"not a whole release file .* Copy the original again"):
            Release.from_json(text[:length])
    with pytest.raises(ReleaseFormatError, match="not a whole release file"):
        Release.from_json(text + "}")


def test_another_schema_is_refused(content):
    with pytest.raises(ReleaseFormatError, match=r"schema 'onedraw.release/2', got 'onedraw.release/1'"):
        Release.from_dict(signed({**content, "schema": "onedraw.release/1"}))
    with pytest.raises(ReleaseFormatError, match="got 'list'"):
        Release.from_dict([])


def test_an_edited_file_is_refused(content):
    for path in (["guarantee", "epsilon"], ["draws", 0, 0], ["parameters", "x0"], ["grid", "coefficient"]):
        with pytest.raises(ReleaseFormatError, match="does not match its digest: it was edited or damaged"):
            Release.from_dict(changed(content, path, 0.25))
    with pytest.raises(ReleaseFormatError, match="does not match its digest"):
        Release.from_dict({key: value for key, value in content.items() if key != "digest"})


def test_numbers_that_are_none_are_refused(content):
    text = json.dumps(content)
    number = str(content["guarantee"]["epsilon"])
    for word in ("NaN", "Infinity", "-Infinity", "1e999"):
        edited = text.replace(f'"epsilon": {number}', f'"epsilon": {word}')
        assert edited != text
        with pytest.raises(ReleaseFormatError, match=r"not a released number|what no release can"):
            Release.from_json(edited)


def test_absurd_nesting_is_refused():
    with pytest.raises(ReleaseFormatError, match="nested too deeply"):
        Release.from_json('{"a":' + "[" * 200_000)


@pytest.mark.parametrize(
    "key", ["model", "draws", "grid", "mechanism", "guarantee", "statement", "assumptions", "version"]
)
def test_a_missing_field_is_refused(content, key):
    del (body := dict(content))[key]
    with pytest.raises(ReleaseFormatError, match=rf"lacks or misstates .*'{key}'|contradicts .*\['{key}'\]"):
        Release.from_dict(signed(body))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["seeded"], "no"),
        (["seeded"], 1),
        (["assumptions"], "Trust me."),
        (["assumptions"], [1]),
        (["draws"], []),
        (["draws"], [[0.5]]),
        (["draws"], [[0.5, 0.5, 0.5, 0.5], [0.5]]),
        (["draws"], 3),
        (["draws", 0, 0], "0.5"),
        (["draws", 0, 0], 2.0**-60),
        (["draws", 0, 3], 2.0**-10),
        (["guarantee", "epsilon"], -1.0),
        (["guarantee", "epsilon"], "1"),
        (["guarantee", "epsilon"], 0.5),
        (["guarantee", "draws"], 5),
        (["guarantee", "neighbours"], "none"),
        (["guarantee", "extra"], 1),
        (["statement"], "Nobody can learn anything."),
        (["parameters", "x0"], 0.0),
        (["parameters"], {}),
        (["model", "kind"], "neural"),
        (["model", "form"], "neural"),
        (["model", "family", "name"], "neural"),
        (["model", "family", "scale_floor"], 0.0),
        (["model", "has_scale"], False),
        (["mechanism", "name"], 7),
        (["mechanism", "options"], {"beta": {"a": 1}}),
        (["mechanism"], {"name": "one_posterior"}),
        (["statistics"], {"curvature": [0.5]}),
        (["model", "features"], ["x0"]),
        (["model", "features"], ["x0", "x0"]),
        (["model", "extra"], 1),
        (["model"], None),
        (["grid", "coefficient"], 1.0),
        (["grid"], {"coefficient": "1"}),
        (["evidence", "level"], "certain"),
        (["evidence", "statement"], 3.5),
        (["num_records"], "80"),
        (["num_records"], 80.0),
        (["receipt"], {"id": 7}),
        (["receipt"], "paid"),
        (["version"], 1),
        (["unknown"], 1),
    ],
)
def test_a_forged_field_is_refused_even_with_a_fitting_digest(content, path, value):
    with pytest.raises(
        ReleaseFormatError, match=r"lacks or misstates a field|contradicts itself or its format"
    ):
        Release.from_dict(signed(changed(content, path, value)))


def test_honest_content_passes_the_same_checks(content):
    assert Release.from_dict(signed(content)).to_dict() == content


# -- numbers


def test_released_numbers_lie_on_the_public_grid(release):
    draws = np.array(release.draws)
    has_scale = release.grid.scale is not None
    coefficients = draws[:, :-1] if has_scale else draws
    whole = coefficients / release.grid.coefficient
    assert np.array_equal(whole, np.rint(whole))
    assert release.grid.coefficient == coefficient_step(3.0) == 2.0**-38
    if has_scale:
        whole = draws[:, -1] / release.grid.scale
        assert np.array_equal(whole, np.rint(whole))
        assert (draws[:, -1] >= release.model.scale_floor).all()
    assert release.grid.holds(draws)


def test_rounding_never_goes_below_the_floor():
    grid = Grid(coefficient=coefficient_step(3.0), scale=scale_step(0.1))
    draws = np.array([[1.0, np.nextafter(0.1, 1.0)], [1 / 3, 0.1], [-1e-20, 7.7]])
    rounded = grid.round(draws)
    assert (rounded[:, 1] >= 0.1).all()
    np.testing.assert_allclose(rounded, draws, atol=2.0**-38)
    assert grid.holds(rounded)
    assert not grid.holds(draws)
    assert not np.signbit(rounded[2, 0])
    assert np.array_equal(grid.round(rounded), rounded)


def test_a_value_off_the_grid_cannot_become_part_of_a_release(release):
    """One number nudged by its last bit, or by a quarter of a step, is refused and not quoted."""
    draws = np.array(release.draws)
    quarter = min(release.grid.coefficient, release.grid.scale or np.inf) / 4
    for column in range(draws.shape[1]):
        for nudged in (np.nextafter(draws[1, column], np.inf), draws[1, column] + quarter):
            off = draws.copy()
            off[1, column] = nudged
            with pytest.raises(onedraw.InvalidInput, match=r"off the public grid.*grid\.round") as caught:
                dataclasses.replace(release, draws=tuple(map(tuple, off.tolist())))
            assert repr(nudged) not in str(caught.value)
    for value in (np.nan, np.inf):
        with pytest.raises(onedraw.InvalidInput, match="off the public grid"):
            dataclasses.replace(release, draws=tuple(map(tuple, np.full_like(draws, value).tolist())))


def test_draws_of_another_number_or_length_cannot_become_part_of_a_release(release):
    short = [draw[1:] for draw in release.draws]
    for draws in (release.draws[:1], (*release.draws, release.draws[0]), short, ()):
        with pytest.raises(onedraw.InvalidInput, match=r"Expected draws of shape \(2, \d\), .* got \("):
            dataclasses.replace(release, draws=tuple(draws))


def test_a_scale_below_its_floor_cannot_become_part_of_a_release():
    release = fit("linear")
    draw = (*release.draws[0][:-1], release.model.scale_floor / 2)
    grid = Grid(coefficient=release.grid.coefficient, scale=2.0**-60)
    with pytest.raises(onedraw.InvalidInput, match="below its floor"):
        dataclasses.replace(release, draws=(tuple(grid.round(np.array([draw]))[0].tolist()),), grid=grid)


@pytest.mark.parametrize("step", [0.0, -1.0, 0.3, float("nan"), float("inf"), 1, "1", None])
def test_the_step_of_a_grid_is_a_power_of_two(step):
    with pytest.raises(onedraw.InvalidInput, match="coefficient"):
        Grid(coefficient=step)


@pytest.mark.parametrize("unit", [1e-320, 1e-300, 1e-3, 1.0, 1e300])
def test_the_step_is_a_power_of_two_for_every_unit(unit):
    step = coefficient_step(unit)
    assert step > 0
    assert np.frexp(step)[0] == 0.5


# -- what it may contain


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_nothing_but_the_draws_depends_on_the_data(kind, neighbours):
    classes = {"logistic": [0, 1], "multinomial": [0, 1, 2]}.get(kind)
    options = {"classes": classes} if classes else {}
    first, second = (fit(kind, seed=seed, neighbours=neighbours, **options).to_dict() for seed in (0, 1))
    differing = {key for key in first if first[key] != second[key]}
    assert differing == {"draws", "parameters", "digest"}


def test_the_number_of_records_is_absent_where_it_is_private():
    assert fit("poisson", n=37).num_records == 37
    small, large = (fit("poisson", n=n, neighbours="add_remove").to_dict() for n in (37, 3000))
    assert small["num_records"] is None
    assert {key for key in small if small[key] != large[key]} == {"draws", "parameters", "digest"}


def test_a_seed_is_marked(release):
    assert release.seeded
    assert "SEEDED" in str(release)
    fresh = fit("poisson", random_state=None)
    assert not fresh.seeded
    assert "SEEDED" not in str(fresh)


def test_the_text_says_what_a_reader_needs(release):
    text = str(release)
    assert text.startswith(release.statement)
    assert str(release.evidence) in text
    for line in [*release.assumptions, *release.named_parameters()]:
        assert line in text
    assert max(map(len, text.splitlines())) < 400


def test_named_parameters_are_in_original_units():
    release = fit("multinomial", feature_bounds=(-4, 4))
    named = release.named_parameters()
    tags = ["[0]", "[1]", "[2]"]
    names = [f"{x} {tag}" for tag in tags for x in ("x0", "x1")] + [f"(intercept) {tag}" for tag in tags]
    assert list(named) == names
    np.testing.assert_array_equal(list(named.values()), release.estimate.flat()[0])


# -- the public model


def test_the_model_refuses_what_it_cannot_publish():
    with pytest.raises(
        onedraw.InvalidInput, match=r"text, booleans or finite numbers, got one of type bytes. Recode"
    ):
        RegressionModel(family=Bernoulli(), features=("a",), classes=(b"a", b"b"))
    with pytest.raises(onedraw.InvalidInput, match="got one of type float"):
        RegressionModel(family=Bernoulli(), features=("a",), classes=(0.0, float("nan")))
    with pytest.raises(onedraw.InvalidInput, match=r"a name of its own, got 'a' more than once. Rename"):
        RegressionModel(family=Poisson(), features=("a", "a"))
    with pytest.raises(onedraw.InvalidInput, match=r"feature_bounds per feature \(1\), got 2"):
        RegressionModel(family=Poisson(), features=("a",), feature_bounds=((0, 1), (0, 1)))


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_units_go_there_and_back(fit_intercept):
    """A noiseless response written in working units is predicted exactly by the parameters in original "
    "units."""
    rng = np.random.default_rng(0)
    model = RegressionModel(
        family=Gaussian(),
        features=("a", "b"),
        fit_intercept=fit_intercept,
        feature_bounds=((10.0, 30.0), (-1.0, 2.0)),
        target_bounds=(100.0, 500.0),
        has_scale=True,
    )
    X = rng.uniform(-5, 50, size=(20, 2))
    theta = np.array([0.7, -0.3] + [0.2] * fit_intercept)
    working = model.scale_features(X) @ theta[:2] + (theta[2] if fit_intercept else 0.0)
    found = model.original_units(np.array([[*theta, 0.5]]))
    predicted = X @ found.coef[0, 0] + found.intercept[0, 0]
    np.testing.assert_allclose(model.scale_response(predicted), working, rtol=1e-12)
    assert found.scale is not None
    assert found.scale[0] == pytest.approx(0.5 * (200.0 if fit_intercept else 500.0))
    assert model.dim == 3 + fit_intercept
    assert len(model.parameter_names()) == found.flat().shape[1]


# -- text of others


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("age", "age"),
        ("Größe, 年齢, \u0645\u06cc\u200c\u062e\u0648", "Größe, 年齢, \u0645\u06cc\u200c\u062e\u0648"),
        ("a\x1b[2J", "a\\x1b[2J"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800\x9b\u2028", "\\ud800\\x9b\\u2028"),
    ],
)
def test_text_of_others_is_shown_without_what_steers_a_terminal(text, shown):
    assert visible(text) == shown


@pytest.mark.parametrize(
    ("label", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("  =1", "  '=1"),
        ("\t=1", "\\t=1"),
        ("a;=1", "a;'=1"),
        ("a=1", "a=1"),
        ("-1", "-1"),
        ("+1e3", "+1e3"),
        ("age", "age"),
        (-1, -1),
        (0.5, 0.5),
        (True, True),
    ],
)
def test_a_label_never_becomes_a_formula(label, written):
    assert cell(label) == written
