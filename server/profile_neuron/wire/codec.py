"""Messages to frames and back: four bytes of length, then one msgpack map; incremental, no I/O."""

from __future__ import annotations

import typing

import msgpack

from profile_neuron.core.plain import from_plain, to_plain
from profile_neuron.errors import WireError
from profile_neuron.wire import messages
from profile_neuron.wire.stdio import MAGIC

# A result with a thousand functions is under a megabyte; what is larger than this is a mistake.
FRAME_LIMIT_BYTES = 64 * 1024 * 1024
# How much may precede the magic line: a login banner, not a file.
BANNER_LIMIT_BYTES = 64 * 1024

_LENGTH_BYTES = 4
_KINDS: dict[str, type] = {kind.__name__: kind for kind in typing.get_args(messages.Message)}


def encode(message: messages.Message) -> bytes:
    """One frame. Raises WireError where it is over the size limit."""
    plain = {"kind": type(message).__name__, **to_plain(message)}
    # Paths and output may hold bytes that are no text, which Python shows as lone surrogates.
    body: bytes = msgpack.packb(plain, unicode_errors="surrogatepass")
    if len(body) > FRAME_LIMIT_BYTES:
        raise WireError(f"a {type(message).__name__} message of {len(body)} bytes is over the limit")
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


class Decoder:
    """Turns bytes, in pieces of any size, into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._started = False

    def feed(self, piece: bytes) -> list[messages.Message]:
        """Messages that are complete now. Raises WireError for what is no frame of ours."""
        self._buffer += piece
        if not self._started and not self._skip_banner():
            return []
        found = []
        while len(self._buffer) >= _LENGTH_BYTES:
            size = int.from_bytes(self._buffer[:_LENGTH_BYTES], "big")
            if size > FRAME_LIMIT_BYTES:
                raise WireError(f"a frame of {size} bytes is over the limit")
            if len(self._buffer) < _LENGTH_BYTES + size:
                break
            found.append(_message(bytes(self._buffer[_LENGTH_BYTES : _LENGTH_BYTES + size])))
            del self._buffer[: _LENGTH_BYTES + size]
        return found

    def _skip_banner(self) -> bool:
        start = self._buffer.find(MAGIC)
        if start < 0:
            if len(self._buffer) > BANNER_LIMIT_BYTES:
                raise WireError("the other side does not speak this protocol")
            return False
        del self._buffer[: start + len(MAGIC)]
        self._started = True
        return True


def _message(body: bytes) -> messages.Message:
    try:
        plain = msgpack.unpackb(body, strict_map_key=True, unicode_errors="surrogatepass")
    except Exception as error:
        raise WireError(f"a frame is not msgpack: {error}") from error
    name = plain.get("kind") if isinstance(plain, dict) else None
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise WireError(f"a message is of the unknown kind {name!r:.40}")
    try:
        return typing.cast("messages.Message", from_plain(kind, plain))
    except (TypeError, ValueError, KeyError) as error:
        raise WireError(f"a {kind.__name__} message does not fit: {error}") from error
