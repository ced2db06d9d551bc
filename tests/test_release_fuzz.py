# SPDX-License-Identifier: Apache-2.0
"""Whatever a file holds, reading it gives the release that it states or a ``ReleaseFormatError``.

``python tests/test_release_fuzz.py NUMBER SEED`` reads that many damaged files.
"""

import copy
import functools
import json
import random
import sys
import tracemalloc
import warnings

import pytest

from onedraw import Guarantee, Release, ReleaseFormatError
from onedraw.families import Bernoulli
from onedraw.model import NetworkModel, SitesModel
from onedraw.release import Grid, Made, Statistic
from onedraw.release.file import digest
from onedraw.samplers.base import Evidence

EVIDENCE = Evidence(level="proved", statement="By hand.")
REGRESSION = {"features": ["a", "b"], "fit_intercept": True, "feature_bounds": [[0.0, 4.0], [-1.0, 1.0]]}


def release_of(model, draws, **options):
    return Release(
        model=model,
        draws=draws,
        grid=Grid(coefficient=0.125, scale=0.125 if model.scale_floor else None),
        mechanism=Made(name="by_hand", options={"beta": "auto", "prior": [1.0, 1.0]}, numbers={"beta": 1.5}),
        statistics={"curvature": Statistic.rounded([0.5, 2.0], unit=1.0)},
        guarantee=Guarantee(epsilon=1.0, draws=len(draws), bounded_range=0.5),
        assumptions=("Each person holds one row.",),
        evidence=EVIDENCE,
        seeded=False,
        num_records=50,
        **options,
    )


@functools.lru_cache
def originals():
    """One release of each kind, as plain values."""
    from onedraw.model import read_model

    facts = {"form": "regression", "classes": None, "target_bounds": None, "has_scale": False, **REGRESSION}
    normal = {"name": "gaussian", "scale_floor": 0.25}
    regressions = [
        ({**facts, "family": normal, "target_bounds": [0.0, 8.0], "has_scale": True}, 4),
        ({**facts, "family": {"name": "bernoulli"}, "classes": ["no", "yes"]}, 3),
        ({**facts, "family": {"name": "categorical", "num_classes": 3}, "classes": [0, 1, 2]}, 6),
        ({**facts, "family": {"name": "poisson"}}, 3),
        ({**facts, "family": {"name": "negative_binomial", "dispersion": 2.0}}, 3),
    ]
    found = [release_of(read_model(values), ((0.5,) * size, (1.25,) * size)) for values, size in regressions]
    network = NetworkModel(
        family=Bernoulli(), features=("age",), hidden_layer_sizes=(2, 2), classes=("no", "yes")
    )
    sites = SitesModel(sites=(("slope", (2, 2)), ("sigma", ())))
    receipt = {"ledger": "7f", "dataset": "patients", "hash": "9c"}
    found.append(release_of(network, ((0.5,) * network.dim,), receipt=receipt))
    found.append(release_of(sites, ((0.5,) * 5,) * 3))
    return [release.to_dict() for release in found]


HOSTILE = [
    *(None, True, False, 0, 1, -1, 2, 3, 0.0, -0.0, 0.3, 1.5, 1e308, -1e308, 5e-324, 2.0**-1022, 2**31 - 1),
    *(2**31, 10**9, 10**18, 10**30, -(10**9), 10**400, float("nan"), float("inf")),
    *("", "a", "x" * 5000, "\x1b[2J", "\u202e", "\ud800", "=1+1", "1", "linear", "network", "sites"),
    *("multinomial", "replace_one", "proved", "(scale)", "__class__"),
    *([], {}, [[]], [None], [0.5], [10**9, 0], [10**9, 10**9], [[10**9, 10**9]], [["s", [10**9, 0]]]),
    *([["s", [10**6, 10**6]]], [["s", [2] * 40]], [["s", [0] * 200]], list(range(6000)), ["x"] * 300),
    *([float(i) for i in range(6000)], [[0.5] * 4] * 4, {"a": {"a": {"a": 1}}}, {"kind": "sites"}),
    functools.reduce(lambda inner, _: [inner], range(400), 0),
]


FILLERS = ["", "{", "]", '"', "1" * 5000, "NaN", "-", "e999", "\\u0000", "\x00", "[" * 3000]


def places(value, path=()):
    """Paths of everything inside."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        if len(path) < 5:
            yield from places(inner, (*path, key))


def at(content, path):
    return functools.reduce(lambda value, key: value[key], path, content)


def mutate(content, rng):
    """One change somewhere: a value replaced, removed, repeated, moved, nudged, or a key renamed."""
    path = rng.choice(list(places(content)))
    place, key = at(content, path[:-1]), path[-1]
    value, what = place[key], rng.randrange(8)
    if what <= 2:
        place[key] = copy.deepcopy(rng.choice(HOSTILE))
    elif what == 3:
        del place[key]
    elif what == 4 and isinstance(place, list):
        place.insert(key, copy.deepcopy(value))
    elif what == 4:
        place[rng.choice(["", "extra", "kind", "x" * 50])] = place.pop(key)
    elif what == 5:
        place[key] = copy.deepcopy(at(content, rng.choice(list(places(content)))))
    elif what == 6 and isinstance(value, int | float):
        place[key] = rng.choice([value + 1, -value, value * 2, value * 10**200, str(value)])
    elif isinstance(value, list):
        place[key] = value * rng.randrange(4)
    elif isinstance(value, str):
        place[key] = value[::-1] + rng.choice(["", "\0", "\n", "é"])


def damaged(rng):
    """A file that somebody edited, with a digest that fits nine times out of ten, or damaged text."""
    content = copy.deepcopy(rng.choice(originals()))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        mutate(content, rng)
        if not content:
            break
    if rng.random() < 0.9:
        content.pop("digest", None)
        try:
            content["digest"] = digest(content)
        except (TypeError, ValueError, RecursionError):
            content["digest"] = ""
    if rng.random() < 0.5:
        return content
    text = json.dumps(content)
    if rng.random() < 0.5:
        position = rng.randrange(len(text))
        text = text[:position] + rng.choice(FILLERS) + text[position + rng.randrange(20) :]
    return "{" + text[1:]  # otherwise it would be the path of a file


def outcome(content):
    """Whether it was read or refused; anything else is an error of the reader."""
    try:
        release = Release.from_json(content) if isinstance(content, str) else Release.from_dict(content)
    except ReleaseFormatError as error:
        if len(str(error)) > 1000 or not str(error).isprintable():
            raise AssertionError("an error that cannot be printed") from error
        return "refused"
    again = Release.from_json(release.to_json())
    assert again == release
    assert str(release)
    return "read"


def fuzz(number, seed):
    rng, found = random.Random(seed), {"read": 0, "refused": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(number):
            state = rng.getstate()
            content = damaged(rng)
            try:
                found[outcome(content)] += 1
            except Exception as error:
                rng.setstate(state)
                error.add_note(f"for {str(damaged(rng))[:3000]}") if hasattr(error, "add_note") else None
                raise
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_refused_and_nothing_else_escapes(seed):
    """1,000 damaged files each; some are releases again, for a version or an assumption may be any text."""
    found = fuzz(1000, seed)
    assert found["refused"] > 800
    assert found["read"] > 0


def signed(content):
    body = {key: value for key, value in content.items() if key != "digest"}
    return json.dumps({**body, "digest": digest(body)})


def with_model(kind, **changes):
    content = copy.deepcopy(next(c for c in originals() if c["model"]["kind"] == kind))
    content["model"].update(changes)
    return content


BOMBS = {
    "an empty site with a long axis": lambda: with_model("sites", sites=[["s", [10**9, 0]]]),
    "a site of 10^18 numbers": lambda: with_model("sites", sites=[["s", [10**9, 10**9]]]),
    "6,000 features of 6,000 classes": lambda: with_model(
        "multinomial",
        features=[f"x{i}" for i in range(6000)],
        classes=list(range(6000)),
        feature_bounds=None,
    ),
    "1,500 features of 1,500 classes, and a draw of as many numbers": lambda: {
        **with_model(
            "multinomial",
            features=[f"x{i}" for i in range(1500)],
            classes=list(range(1500)),
            feature_bounds=None,
        ),
        "draws": [[0.5] * 3000] * 2,
        "parameters": {f"x{i}": 0.5 for i in range(3000)},
    },
    "4,000 classes, and neither features nor names": lambda: {
        **with_model(
            "multinomial", features=[], classes=list(range(4000)), feature_bounds=None, fit_intercept=False
        ),
        "draws": [[], []],
        "parameters": {},
    },
    "a wide layer": lambda: with_model("network", hidden_layer_sizes=[2**31 - 1]),
    "two wide layers": lambda: with_model("network", hidden_layer_sizes=[10**6, 10**6]),
    "a name of a megabyte for each of 500 numbers": lambda: {
        **with_model("sites", sites=[["s" * 10**6, [500]]]),
        "draws": [[0.5] * 500] * 3,
        "parameters": {str(i): 0.5 for i in range(500)},
    },
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_takes_little_memory_whatever_it_claims(name):
    text = signed(BOMBS[name]())
    tracemalloc.start()
    try:
        with pytest.raises(ReleaseFormatError):
            Release.from_json(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(text) + 2**20


def test_an_empty_array_with_a_long_axis_takes_no_memory():
    content = with_model("sites", sites=[["none", [10**8, 0]], ["s", [5]]])
    content["parameters"] = {f"s[{i}]": value for i, value in enumerate(content["parameters"].values())}
    tracemalloc.start()
    try:
        release = Release.from_json(signed(content))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert release.parameters.sites["none"].shape == (3, 10**8, 0)
    assert peak < 2**20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda: with_model("sites", sites=[["s", [3, 2]]]), "has 6 parameters or more, a draw 5"),
        (
            lambda: {
                **with_model("multinomial", features=[], classes=list(range(5000)), feature_bounds=None),
                "draws": [[0.5] * 4999] * 2,
                "parameters": {f"(intercept) [{i}]": 0.5 for i in range(5000)},
            },
            "at most 4096 classes, got 5000",
        ),
    ],
)
def test_sizes_are_compared_before_a_model_is_built(content, message):
    """5,000 classes would have a matrix of contrasts of 200 MB, from a file of 200 kB."""
    with pytest.raises(ReleaseFormatError, match=message):
        Release.from_json(signed(content()))


def test_a_number_of_many_digits_is_refused():
    content = copy.deepcopy(originals()[0])
    for digits in ("1" * 41, "1" * 5000, "-" + "9" * 10**6):
        text = json.dumps(content).replace('"num_records": 50', f'"num_records": {digits}')
        with pytest.raises(ReleaseFormatError, match=f"a whole number of {len(digits)} digits"):
            Release.from_json(text)
    content["num_records"] = 10**5000
    with pytest.raises(ReleaseFormatError, match="what no release can"):
        Release.from_dict(content)


@pytest.mark.parametrize("depth", [100, 900, 1100, 3000, 100_000])
def test_nesting_is_refused_at_any_depth(depth):
    nested = "[" * depth + "]" * depth
    text = json.dumps(originals()[0]).replace('"num_records": 50', f'"num_records": {nested}')
    with pytest.raises(ReleaseFormatError):
        Release.from_json(text)
    inner = []
    for _ in range(depth):
        inner = [inner]
    with pytest.raises(ReleaseFormatError):
        Release.from_dict({**originals()[0], "num_records": inner})
    while inner:  # so that it is not taken apart by recursion
        inner = inner.pop()


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "release.json"
    text = json.dumps(originals()[0])
    path.write_text(text)
    assert Release.from_json(path, largest=len(text)) == Release.from_dict(originals()[0])
    with pytest.raises(ReleaseFormatError, match=rf"has more than {len(text) - 1} bytes.*largest="):
        Release.from_json(path, largest=len(text) - 1)


if __name__ == "__main__":
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
    found = fuzz(int(sys.argv[1]), int(sys.argv[2]))
    print(found, f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss} kB")
