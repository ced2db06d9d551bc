# SPDX-License-Identifier: Apache-2.0
"""Random numbers that an attacker cannot predict, served through ``numpy.random.Generator``.

NumPy's own generators are fast and statistically sound, but their state can be computed from their output,
and a guarantee of differential privacy is void once the random numbers behind it are known. This module
serves the ChaCha20 keystream (RFC 8439, 20 rounds), keyed with 256 bits from the operating system.

Guarantee: a party that cannot tell ChaCha20 from random bits cannot tell this generator from random bits. At
each refill the first 32 bytes of keystream become the next key and the old key is dropped ("fast key
erasure"), so the state found in memory reveals the current batches of 64 KiB and what follows, but no earlier
output. Dropped, not wiped: Python gives no control over copies in memory. How bits become floats is NumPy's
affair; a uniform is a multiple of 2**-53 in [0, 1).

>>> rng = secure_generator()
>>> rng.standard_normal(3).shape
(3,)
>>> rng, seeded = generator(None)        # what an estimator does with random_state=None
>>> seeded
False
>>> rng, seeded = generator(7)           # reproducible, and marked as such in the release
>>> seeded
True

Edge cases:
    - Copying or pickling raises ``TypeError``: two copies would repeat each other's numbers.
    - A forked child takes a fresh key before its first number.
    - An exception that strikes inside NumPy's loop (Ctrl-C, a timeout's signal, no memory) is raised when the
      NumPy call ends; the numbers of that call are discarded with it.
    - ``spawn`` gives generators with fresh keys of their own.
"""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Generator
from itertools import chain
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onedraw.errors import InvalidInput, SamplingError

_BLOCKS = 1024  # 64 KiB a refill: about a millisecond, repaid over eight thousand draws.
_FILLER = 64
_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4").astype(np.uint32)


_Batches: TypeAlias = Generator[list[Any], None, None]


def chacha20_blocks(key: bytes, nonce: bytes, counter: int, count: int) -> NDArray[np.uint32]:
    """Return ``count`` ChaCha20 blocks of 16 words each, shape (count, 16), from block number ``counter`` on.

    >>> hex(chacha20_blocks(bytes(32), bytes(12), counter=0, count=1)[0, 0])
    '0xade0b876'
    """
    if len(key) != 32 or len(nonce) != 12 or counter < 0 or count < 1 or counter + count > 2**32:
        raise InvalidInput("ChaCha20 needs a key of 32 bytes, a nonce of 12 and block numbers below 2**32.")
    start = np.empty((16, count), dtype=np.uint32)
    start[:4] = _CONSTANTS[:, None]
    start[4:12] = np.frombuffer(key, dtype="<u4")[:, None]
    start[12] = np.arange(counter, counter + count, dtype=np.uint64)
    start[13:] = np.frombuffer(nonce, dtype="<u4")[:, None]
    # The four rows of the 4 x 4 state, for all blocks at once.
    a, b, c, d = (start[i : i + 4].copy() for i in (0, 4, 8, 12))
    for _ in range(10):
        _quarter_rounds(a, b, c, d)
        # Shift rows so that the diagonals become columns, and back afterwards.
        b, c, d = b[[1, 2, 3, 0]], c[[2, 3, 0, 1]], d[[3, 0, 1, 2]]
        _quarter_rounds(a, b, c, d)
        b, c, d = b[[3, 0, 1, 2]], c[[2, 3, 0, 1]], d[[1, 2, 3, 0]]
    return np.ascontiguousarray((np.concatenate([a, b, c, d]) + start).T)


def _quarter_rounds(
    a: NDArray[np.uint32], b: NDArray[np.uint32], c: NDArray[np.uint32], d: NDArray[np.uint32]
) -> None:
    """Mix the four columns in place; array arithmetic on uint32 wraps modulo 2**32, as the cipher wants."""
    for x, y, z, shift in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        x += y
        z ^= x
        high = z << np.uint32(shift)
        z >>= np.uint32(32 - shift)
        z |= high


class _KeyChain:
    """The key, the batches drawn from it, and an exception waiting to be raised."""

    def __init__(self, key: bytes | None) -> None:
        self.pid = os.getpid()
        self.failure: BaseException | None = None
        self.batches: dict[str, list[Any]] = {}
        self._filler = secrets.token_bytes(8 * _FILLER)
        if key is None:
            self.rekey()
        else:
            self._key, self._nonce = key, bytes(12)

    def rekey(self) -> None:
        """Take a fresh key from the operating system and drop all that the old one produced."""
        self._key, self._nonce = secrets.token_bytes(32), secrets.token_bytes(12)
        self.pid = os.getpid()
        self.discard()

    def discard(self) -> None:
        """Empty the batches in use; their iterators then end and ask for new ones."""
        for batch in self.batches.values():
            batch.clear()

    def words(self) -> NDArray[np.uint64]:
        """Return a refill of 64-bit words, its first 32 bytes kept back as the next key."""
        stream = chacha20_blocks(self._key, self._nonce, 0, _BLOCKS).astype("<u4", copy=False).tobytes()
        # Replace the key before anything is served: interrupted earlier, nothing was; later, nothing repeats.
        self._key = stream[:32]
        return np.frombuffer(stream, dtype="<u8", offset=32).astype(np.uint64, copy=False)

    def batch(self, kind: str) -> list[Any]:
        return _CONVERT[kind](self.words())

    def filler(self, kind: str) -> list[Any]:
        """Numbers that let NumPy's loop end after a failure; the lock discards them with the result."""
        return _CONVERT[kind](np.frombuffer(self._filler, dtype=np.uint64))


def _as_words(words: NDArray[np.uint64]) -> list[Any]:
    result: list[Any] = words.tolist()
    return result


def _as_units(words: NDArray[np.uint64]) -> list[Any]:
    result: list[Any] = ((words >> np.uint64(11)) * 2.0**-53).tolist()
    return result


_CONVERT: dict[str, Callable[[NDArray[np.uint64]], list[Any]]] = {"word": _as_words, "unit": _as_units}


def _serve(keys: _KeyChain, kind: str) -> _Batches:
    """Yield batches for ever; an exception is put down for the lock to raise, never lost."""
    batch: list[Any] = []
    while True:
        try:
            # The inner loop keeps its own jump back inside the try block: signal handlers run at jumps.
            while True:
                keys.batches[kind] = batch
                yield batch
                batch = keys.batch(kind)
        except GeneratorExit:
            return
        except BaseException as error:
            keys.failure = error
            batch = keys.filler(kind)


class _Feed:
    """What the C callbacks call: two iterators, all of whose steps but the refill run without Python code."""

    def __init__(self, words: _Batches, units: _Batches) -> None:
        self.next_word = chain.from_iterable(words).__next__
        self.next_unit = chain.from_iterable(units).__next__


class _GuardLock:
    """The lock NumPy holds around each call; leaving it raises what went wrong inside.

    A C callback cannot raise: ctypes would print the exception and hand NumPy an arbitrary value, which would
    then be released as if it were noise. So the refill notes the exception, and NumPy meets it here, before
    it can return the numbers.
    """

    def __init__(self, keys: _KeyChain, words: Any, units: Any) -> None:
        self._keys = keys
        self._words, self._units = words, units
        self.renew()

    def renew(self) -> None:
        self._lock = threading.RLock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Enter; in a fork of the process that made the generator, take a fresh key first."""
        self._refuse_if_dead()
        acquired = self._lock.acquire(blocking, timeout)
        if acquired and self._keys.pid != os.getpid():
            self._keys.rekey()
        return acquired

    def release(self) -> None:
        """Leave, and raise what went wrong since the lock was entered."""
        keys = self._keys
        failure = keys.failure
        try:
            if failure is not None:
                # Discard before forgetting the failure: interrupted in between, the next call raises again.
                keys.discard()
                keys.failure = None
        finally:
            self._lock.release()
        if failure is not None:
            # Without the frames below, which hold keystream that a debugger would print.
            raise failure.with_traceback(None)
        self._refuse_if_dead()

    def _refuse_if_dead(self) -> None:
        # A second interrupt within the handling of the first can end a server; NumPy would then read garbage.
        if self._words.gi_frame is None or self._units.gi_frame is None:
            raise SamplingError("The secure generator was interrupted and cannot go on: make a new one.")

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self.release()


class _BitGen(ctypes.Structure):
    """NumPy's ``bitgen_t`` (numpy/random/bitgen.h)."""

    _fields_ = (
        ("state", ctypes.c_void_p),
        ("next_uint64", ctypes.c_void_p),
        ("next_uint32", ctypes.c_void_p),
        ("next_double", ctypes.c_void_p),
        ("next_raw", ctypes.c_void_p),
    )


@functools.cache
def _callbacks() -> dict[str, Any]:
    """The C functions, made once and kept for the life of the process.

    The state pointer is the feed itself. ``methodcaller`` and the iterators are C code, so no signal handler
    can run, and raise, between NumPy's request and the number; only the refill runs Python code. ctypes takes
    the interpreter lock, which NumPy releases around its loops, for each call.
    """
    feed = ctypes.py_object
    word, unit = operator.methodcaller("next_word"), operator.methodcaller("next_unit")
    uint64 = ctypes.CFUNCTYPE(ctypes.c_uint64, feed)(word)
    uint32 = ctypes.CFUNCTYPE(ctypes.c_uint32, feed)(word)  # ctypes keeps the low 32 bits
    double = ctypes.CFUNCTYPE(ctypes.c_double, feed)(unit)
    return {"next_uint64": uint64, "next_uint32": uint32, "next_double": double, "next_raw": uint64}


@functools.cache
def _capsule_pointer() -> Callable[[object, bytes], int]:
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return prototype(("PyCapsule_GetPointer", ctypes.pythonapi))


class SecureBitGenerator(np.random.BitGenerator):
    """ChaCha20 as a NumPy bit generator, keyed by the operating system.

    Args:
        key: 32 bytes that fix the stream. Only for tests of this class; a known key protects nothing.

    >>> rng = np.random.Generator(SecureBitGenerator())
    >>> 0 <= rng.random() < 1
    True
    """

    def __init__(self, *, key: bytes | None = None) -> None:
        super().__init__(None)
        self._keys = _KeyChain(key)
        self.fixed = key is not None
        servers = (_serve(self._keys, "word"), _serve(self._keys, "unit"))
        for server in servers:
            next(server)  # From here on each server waits inside its try block.
        self._feed = _Feed(*servers)
        self._guard = _GuardLock(self._keys, *servers)
        # NumPy's documented way in is the capsule. The base class has made one around a bitgen_t of its own;
        # filling that in, rather than making another, keeps random_raw and the ctypes interface working too.
        bitgen = _BitGen.from_address(_capsule_pointer()(self.capsule, b"BitGenerator"))
        bitgen.state = id(self._feed)
        for name, callback in _callbacks().items():
            setattr(bitgen, name, ctypes.cast(callback, ctypes.c_void_p).value)
        _ALIVE.add(self)

    @property
    def lock(self) -> Any:  # type: ignore[override]  # NumPy reads it and uses it in ``with``, no more.
        """The lock that NumPy holds around each call."""
        return self._guard

    @property
    def state(self) -> NoReturn:
        """Always refused: the state is secret."""
        raise TypeError("The state of a secure generator is secret and cannot be read.")

    @state.setter
    def state(self, value: object) -> NoReturn:
        raise TypeError("The state of a secure generator cannot be set: pass a seed as random_state instead.")

    def random_raw(self, size: Any = None, output: bool = True) -> Any:
        """Return raw 64-bit words, as the method of the base class does."""
        draw: Any = super().random_raw
        with self._guard:
            return draw(size, output)

    def spawn(self, n_children: int) -> list[SecureBitGenerator]:
        """Return ``n_children`` secure generators, each with a fresh key."""
        return [SecureBitGenerator() for _ in range(n_children)]

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A secure generator cannot be copied or pickled, because the copy would repeat its numbers: "
            "call secure_generator() where it is needed, or pass random_state=None."
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__reduce__()

    def __getstate__(self) -> NoReturn:
        self.__reduce__()


_ALIVE: weakref.WeakSet[SecureBitGenerator] = weakref.WeakSet()


def _after_fork() -> None:
    """Renew lock and key in a forked child, whose copy of the lock another thread may have held for ever."""
    for bit_generator in list(_ALIVE):
        bit_generator._guard.renew()
        bit_generator._keys.rekey()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    # The process number checked by the lock is the second line of defence: for forks made by C code.
    os.register_at_fork(after_in_child=_after_fork)


def secure_generator() -> np.random.Generator:
    """Return a generator nobody can predict: ChaCha20 with a fresh key from the operating system.

    >>> int(secure_generator().integers(10)) in range(10)
    True
    """
    return np.random.Generator(SecureBitGenerator())


def generator(random_state: object) -> tuple[np.random.Generator, bool]:
    """Return a generator and whether it is seeded, that is, whether somebody may know its numbers.

    Args:
        random_state: None for the secure generator; a whole number >= 0, a ``SeedSequence``, a ``Generator``
            or a ``RandomState`` for a reproducible one. A ``Generator`` is used as it is and moves on; a
            ``RandomState`` gives the seed, and moves on as well.

    >>> a, _ = generator(3)
    >>> b, _ = generator(3)
    >>> bool(a.random() == b.random())
    True
    >>> generator("now")
    Traceback (most recent call last):
    onedraw.errors.InvalidInput: Expected random_state to be None, a whole number >= 0, or a numpy.random ...
    """
    if random_state is None:
        return secure_generator(), False
    if isinstance(random_state, np.random.Generator):
        source = random_state.bit_generator
        return random_state, not (isinstance(source, SecureBitGenerator) and not source.fixed)
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=8, dtype=np.uint32)), True
    if isinstance(random_state, np.random.SeedSequence):
        return np.random.default_rng(random_state), True
    is_int = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if is_int and int(random_state) >= 0:  # type: ignore[call-overload]
        return np.random.default_rng(int(random_state)), True  # type: ignore[call-overload]
    raise InvalidInput(
        "Expected random_state to be None, a whole number >= 0, or a numpy.random Generator, RandomState or "
        f"SeedSequence, got random_state={random_state!r}. Leave it None for a release."
    )
