# SPDX-License-Identifier: Apache-2.0
import copy
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from scipy import stats

from onedraw import _random
from onedraw._random import SecureBitGenerator, chacha20_blocks, generator, secure_generator
from onedraw.errors import InvalidInput, SamplingError

KEY = bytes(range(32))
can_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
# Python 3.12 and later warn about forks of a process with threads, which a test worker has.
fork_warning = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def keyed(key: bytes = KEY) -> np.random.Generator:
    return np.random.Generator(SecureBitGenerator(key=key))


# The keystreams below were computed with OpenSSL; the first two are also printed in RFC 8439.
@pytest.mark.parametrize(
    ("key", "nonce", "counter", "expected"),
    [
        pytest.param(
            KEY,
            "000000090000004a00000000",
            1,
            "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
            "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
            id="section-2.3.2",
        ),
        pytest.param(
            KEY,
            "000000000000004a00000000",
            1,
            "224f51f3401bd9e12fde276fb8631ded8c131f823d2c06e27e4fcaec9ef3cf78"
            "8a3b0aa372600a92b57974cded2b9334794cba40c63e34cdea212c4cf07d41b7"
            "69a6749f3f630f4122cafe28ec4dc47e26d4346d70b98c73f3e9c53ac40c5945"
            "398b6eda1a832c89c167eacd901d7e2bf363",
            id="section-2.4.2",
        ),
        pytest.param(
            KEY,
            "000000000000000000000000",
            1023,
            "786ca09bddbf8c62f795dbf69abdea77c5822a27ff3c1bdcf1870a846c4192a9"
            "1abf01365d32b0aed1f67dc6ff0d88ea1290301a4348bec6e90cb61969c20c0f",
            id="last-block-of-a-refill",
        ),
    ],
)
def test_keystream_is_chacha20(key, nonce, counter, expected):
    blocks = chacha20_blocks(key, bytes.fromhex(nonce), counter, count=2)
    assert blocks.astype("<u4").tobytes().hex().startswith(expected)


def test_blocks_made_together_equal_blocks_made_alone():
    together = chacha20_blocks(KEY, bytes(12), counter=2**32 - 5, count=5)
    alone = [chacha20_blocks(KEY, bytes(12), counter=2**32 - 5 + i, count=1)[0] for i in range(5)]
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("wrong", [{"key": b"short"}, {"nonce": b""}, {"counter": 2**32}, {"count": 0}])
def test_block_function_refuses_what_chacha20_does_not_define(wrong):
    arguments = {"key": KEY, "nonce": bytes(12), "counter": 0, "count": 1} | wrong
    with pytest.raises(InvalidInput, match="key of 32 bytes"):
        chacha20_blocks(**arguments)


def test_words_are_the_keystream_after_the_next_key():
    """Two refills by hand: the first 32 bytes of each are the key of the next and are never served."""
    first = chacha20_blocks(KEY, bytes(12), 0, 1024).astype("<u4").tobytes()
    second = chacha20_blocks(first[:32], bytes(12), 0, 1024).astype("<u4").tobytes()
    expected = np.frombuffer(first[32:] + second[32:], dtype="<u8")
    np.testing.assert_array_equal(SecureBitGenerator(key=KEY).random_raw(expected.size), expected)


def test_uniforms_are_the_top_53_bits_of_the_keystream():
    words = SecureBitGenerator(key=KEY).random_raw(1000)
    np.testing.assert_array_equal(keyed().random(1000), (words >> np.uint64(11)) * 2.0**-53)


# The key is fixed, so each statistical test below passes always or never; over the choice of the key, each
# would fail with the stated false-alarm rate if the numbers were truly random.
FALSE_ALARM = 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("draw", "reference"),
    [
        pytest.param(lambda rng, n: rng.random(n), stats.uniform(), id="uniform"),
        pytest.param(lambda rng, n: rng.standard_normal(n), stats.norm(), id="normal"),
        pytest.param(lambda rng, n: rng.standard_exponential(n), stats.expon(), id="exponential"),
        pytest.param(lambda rng, n: rng.standard_gamma(2.5, n), stats.gamma(2.5), id="gamma"),
        pytest.param(lambda rng, n: rng.random(n, dtype=np.float32), stats.uniform(), id="uniform-32-bit"),
    ],
)
def test_draws_follow_their_distribution(draw, reference):
    """Kolmogorov-Smirnov, false-alarm rate 1e-4."""
    assert stats.kstest(draw(keyed(), 100_000), reference.cdf).pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
def test_integers_are_uniform(dtype):
    """Chi-squared over seven values, false-alarm rate 1e-4."""
    counts = np.bincount(keyed().integers(7, size=70_000, dtype=dtype).astype(int), minlength=7)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.statistical
def test_each_bit_is_set_half_of_the_time():
    """Sixty-four exact binomial tests, false-alarm rate 1e-4 in all."""
    words = SecureBitGenerator(key=KEY).random_raw(50_000)
    ones = ((words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).sum(axis=0)
    assert min(stats.binomtest(int(k), 50_000).pvalue for k in ones) > FALSE_ALARM / 64


def test_two_generators_differ():
    assert not np.intersect1d(secure_generator().random(1000), secure_generator().random(1000)).size


def test_a_stream_does_not_repeat_across_refills():
    words = SecureBitGenerator().random_raw(40_000)  # five refills; a chance collision has probability 5e-11
    assert np.unique(words).size == words.size


def test_spawned_generators_have_keys_of_their_own():
    parent = keyed()
    children = parent.spawn(2)
    assert all(isinstance(child.bit_generator, SecureBitGenerator) for child in children)
    draws = {rng.random() for rng in (parent, *children)}
    assert len(draws) == 3


@pytest.mark.parametrize("wrap", [lambda b: b, np.random.Generator, lambda b: [b]])
@pytest.mark.parametrize("action", [pickle.dumps, copy.deepcopy])
def test_copying_and_pickling_are_refused(wrap, action):
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        action(wrap(SecureBitGenerator()))


def test_shallow_copy_of_the_bits_is_refused():
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copy.copy(SecureBitGenerator())


def test_state_is_neither_read_nor_set():
    bits = SecureBitGenerator()
    with pytest.raises(TypeError, match="is secret"):
        _ = bits.state
    with pytest.raises(TypeError, match="cannot be set"):
        bits.state = {}


def _child_words(bits, send):
    send.send(bits.random_raw(4).tolist())


@can_fork
@fork_warning
@pytest.mark.parametrize("hook", [True, False], ids=["fork-hook", "process-number"])
def test_forked_children_differ_from_the_parent_and_each_other(hook, monkeypatch):
    """Either defence alone is enough: the hook run by os.fork, and the process number checked by the lock."""
    bits = SecureBitGenerator(key=KEY)
    bits.random_raw(10)  # part of a batch is used, the rest would be shared
    if not hook:
        monkeypatch.setattr(_random, "_ALIVE", set())
    else:
        monkeypatch.setattr(_random._GuardLock, "acquire", lambda self, *args: self._lock.acquire())
    context = multiprocessing.get_context("fork")
    answers = []
    for _ in range(2):
        receive, send = context.Pipe(duplex=False)
        child = context.Process(target=_child_words, args=(bits, send))
        child.start()
        assert receive.poll(30), "the child gave no answer"
        answers.append(receive.recv())
        child.join()
    answers.append(bits.random_raw(4).tolist())
    assert len({word for answer in answers for word in answer}) == 12
    undisturbed = SecureBitGenerator(key=KEY).random_raw(14)[10:].tolist()
    assert answers[-1] == undisturbed


@can_fork
@fork_warning
def test_child_forked_while_another_thread_holds_the_lock_does_not_hang():
    bits = SecureBitGenerator()
    held, done = threading.Event(), threading.Event()

    def hold():
        with bits.lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_child_words, args=(bits, send))
    child.start()
    try:
        assert receive.poll(30), "the child waits for a lock that nobody will release"
    finally:
        done.set()
        thread.join()
        child.kill()
        child.join()


def test_threads_share_a_generator_without_repeats():
    bits = SecureBitGenerator()
    parts = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda out=out: [out.append(bits.random_raw(500)) for _ in range(20)])
        for out in parts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = np.concatenate([np.concatenate(part) for part in parts])
    assert np.unique(words).size == words.size == 40_000


def test_many_generators_come_and_go():
    for _ in range(300):
        rng = secure_generator()
        rng.standard_normal(2)
        del rng
    rng = np.random.Generator(SecureBitGenerator())  # the bit generator lives on only inside the generator
    gc.collect()
    assert np.isfinite(rng.standard_normal(20_000)).all()


def test_a_dropped_generator_is_freed_at_once_and_its_key_with_it():
    rng = secure_generator()
    rng.random(10)
    keys = weakref.ref(rng.bit_generator._keys)
    gc.disable()
    try:
        del rng
        assert keys() is None
    finally:
        gc.enable()


class Interrupt(BaseException):
    pass


@pytest.fixture
def failing(monkeypatch):
    """Make the next ``count`` refills raise."""
    real = _random.chacha20_blocks

    def fail(count):
        def blocks(*args):
            nonlocal count
            if count > 0:
                count -= 1
                raise Interrupt
            return real(*args)

        monkeypatch.setattr(_random, "chacha20_blocks", blocks)

    return fail


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.standard_normal(20_000),
        lambda rng: rng.random(20_000),
        lambda rng: rng.integers(7, size=20_000),
        lambda rng: rng.permutation(20_000),
        lambda rng: rng.choice(20_000, 15_000, replace=False),
        lambda rng: rng.multivariate_normal(np.zeros(2), np.eye(2), 10_000),
        lambda rng: rng.gamma(0.5, size=20_000),
        lambda rng: rng.poisson(np.full(20_000, 3.0)),
        lambda rng: [rng.standard_normal() for _ in range(20_000)],
        lambda rng: rng.bit_generator.random_raw(20_000),
    ],
)
@pytest.mark.parametrize("count", [1, 10**9], ids=["once", "always"])
def test_exception_inside_a_draw_is_raised_and_no_number_leaves(draw, count, failing):
    rng = keyed()
    rng.standard_normal(100)
    rng.random(100)
    failing(count)
    with pytest.raises(Interrupt):
        draw(rng)


def test_after_an_exception_the_generator_goes_on_with_fresh_numbers(failing):
    rng = keyed()
    before = rng.bit_generator.random_raw(8188)  # exactly one refill
    failing(1)
    with pytest.raises(Interrupt):
        rng.bit_generator.random_raw(10)
    after = rng.bit_generator.random_raw(8188)
    assert not np.intersect1d(before, after).size
    filler = np.frombuffer(rng.bit_generator._keys._filler, dtype=np.uint64)
    assert not np.intersect1d(filler, after).size, "numbers made to end the failed call are not served later"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timer")
def test_signal_that_raises_is_not_swallowed():
    def handler(number, frame):
        raise Interrupt

    def draw_for_ever():
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        while True:
            rng.standard_normal(30_000)

    rng = secure_generator()
    old = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(5):
            with pytest.raises(Interrupt):
                draw_for_ever()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_a_dead_stream_refuses_to_serve():
    bits = SecureBitGenerator()
    bits._guard._words.close()
    with pytest.raises(SamplingError, match="make a new one"):
        np.random.Generator(bits).standard_normal()


def test_interpreter_ends_quietly_with_a_live_generator():
    code = "from onedraw._random import secure_generator as s; rng = s(); rng.random(3); keep = [rng, s()]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_no_random_state_means_the_secure_generator():
    rng, seeded = generator(None)
    assert isinstance(rng.bit_generator, SecureBitGenerator)
    assert seeded is False


@pytest.mark.parametrize(
    "make",
    [
        lambda: 5,
        lambda: np.int64(5),
        lambda: np.random.default_rng(5),
        lambda: np.random.SeedSequence(5),
        lambda: np.random.RandomState(5),
        lambda: keyed(),
    ],
    ids=["int", "numpy-int", "Generator", "SeedSequence", "RandomState", "fixed-key"],
)
def test_seeds_reproduce_and_are_marked(make):
    (first, seeded), (second, _) = generator(make()), generator(make())
    assert seeded is True
    np.testing.assert_array_equal(first.random(5), second.random(5))


def test_generator_is_used_as_it_is_and_a_secure_one_stays_unseeded():
    rng = secure_generator()
    assert generator(rng) == (rng, False)


def test_random_state_moves_on_between_uses():
    state = np.random.RandomState(0)
    assert generator(state)[0].random() != generator(state)[0].random()


@pytest.mark.parametrize("wrong", ["now", 1.5, -1, True, [1, 2], np.random])
def test_other_random_states_are_refused(wrong):
    with pytest.raises(InvalidInput, match="Expected random_state to be None, a whole number >= 0, or"):
        generator(wrong)
