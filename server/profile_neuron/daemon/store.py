"""Results of finished runs by file and key, on disk and shared between editors."""

from __future__ import annotations

import contextlib
import logging
import os
import time
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from profile_neuron.errors import StoreError

# sqlite3 is imported inside of functions only: it costs 10 ms, and a server starts before it needs results.
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

log = logging.getLogger(__name__)

T = TypeVar("T")

# A file of another version is moved aside, never converted: what it holds can be measured again.
VERSION = 3
ROWS_PER_KEY = 3
ROWS_PER_FUNCTION = 50
_BUSY_TIMEOUT_S = 5.0

# Paths and names are kept as bytes, since SQLite's text has no place for a path whose bytes are not text.
# The second index alone answers how much there is and what is oldest, without a look at the bodies.
_SCHEMA = (
    """CREATE TABLE results (
        id INTEGER PRIMARY KEY,
        path BLOB NOT NULL,
        qualname BLOB NOT NULL,
        occurrence INTEGER NOT NULL,
        key TEXT NOT NULL,
        finished_s REAL NOT NULL,
        size_bytes INTEGER NOT NULL,
        is_pinned INTEGER NOT NULL DEFAULT 0,
        body BLOB NOT NULL
    )""",
    "CREATE INDEX by_path ON results (path, finished_s)",
    "CREATE INDEX by_age ON results (finished_s, size_bytes, is_pinned)",
    f"PRAGMA user_version = {VERSION}",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One result of one function."""

    # Absolute path of the source file.
    path: str
    qualname: str
    # Which of several definitions of that qualified name.
    occurrence: int
    # What the result depends on, as a hex digest.
    key: str
    # Unix time.
    finished_s: float
    # Whatever the caller encoded.
    body: bytes
    # Kept until it is unpinned or its file is removed, whatever else there is.
    is_pinned: bool = False

    @property
    def identity(self) -> RowIdentity:
        return (self.qualname, self.occurrence, self.key, self.finished_s)


# What tells a row from the others of its file.
RowIdentity = tuple[str, int, str, float]


class Store:
    """The results of one workspace in one SQLite file, which several processes may use at once.

    Used by one thread, which may wait 5 s for another process. The file is opened at the first call.
    Every call raises StoreError where the file cannot be used.
    """

    def __init__(self, folder: Path, max_bytes: int, max_age_s: float, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._file = folder / "results.sqlite"
        # Of all bodies together, compressed.
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._now = now
        self._connection: sqlite3.Connection | None = None
        # Which file the connection has open, and which one turned out to be damaged.
        self._identity: tuple[int, int] | None = None
        self._damaged: tuple[int, int] | None = None
        self._may_replace_other_version = True

    def load(self, path: str) -> tuple[Row, ...]:
        """The results for a file, newest first. A row that is damaged is left out."""
        found = self._do(
            lambda connection: connection.execute(
                "SELECT qualname, occurrence, key, finished_s, is_pinned, body FROM results"
                " WHERE path = ? ORDER BY finished_s DESC, id DESC",
                (_encoded(path),),
            ).fetchall()
        )
        rows = []
        for qualname, occurrence, key, finished_s, is_pinned, body in found:
            with contextlib.suppress(zlib.error, UnicodeDecodeError):
                plain = zlib.decompress(body)
                rows.append(Row(path, _decoded(qualname), occurrence, key, finished_s, plain, bool(is_pinned)))
        if len(rows) < len(found):
            log.warning("%d results for %s in %s are damaged and left out", len(found) - len(rows), path, self._file)
        return tuple(rows)

    def add(self, row: Row) -> None:
        """Keep a result; older ones go where there are too many of its key, of its function, or in all."""
        path, qualname = _encoded(row.path), _encoded(row.qualname)
        body = zlib.compress(row.body, 1)

        def work(connection: sqlite3.Connection) -> None:
            with _writing(connection):
                connection.execute(
                    "INSERT INTO results (path, qualname, occurrence, key, finished_s, size_bytes, is_pinned, body)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (path, qualname, row.occurrence, row.key, row.finished_s, len(body), row.is_pinned, body),
                )
                _limit_function(connection, path, qualname, row.occurrence)
                _limit_size(connection, self._max_bytes)

        self._do(work)

    def pin(self, path: str, pinned: RowIdentity | None, unpinned: Iterable[RowIdentity]) -> bool:
        """Pin a row of a file and unpin others; gives whether the one to be pinned is there.

        What is unpinned counts among the others again, and goes with the next one that is added if they are too many.
        """

        def work(connection: sqlite3.Connection) -> bool:
            with _writing(connection):
                for row in unpinned:
                    _set_pin(connection, path, row, False)
                return pinned is None or _set_pin(connection, path, pinned, True)

        return self._do(work)

    def remove(self, path: str) -> int:
        """Forget a file, with what is pinned of it; gives how many results went."""
        return self._do(
            lambda connection: connection.execute("DELETE FROM results WHERE path = ?", (_encoded(path),)).rowcount
        )

    def rename(self, old: str, new: str) -> None:
        """Give a file the results of another. The old path keeps its own, which age out.

        Doing it twice adds nothing: two editors may both notice that a file was renamed.
        """
        source, target = _encoded(old), _encoded(new)

        def work(connection: sqlite3.Connection) -> None:
            with _writing(connection):
                connection.execute(
                    "INSERT INTO results (path, qualname, occurrence, key, finished_s, size_bytes, is_pinned, body)"
                    " SELECT ?, qualname, occurrence, key, finished_s, size_bytes, is_pinned, body FROM results AS here"
                    " WHERE path = ? AND NOT EXISTS ("
                    "  SELECT 1 FROM results AS there WHERE there.path = ? AND there.finished_s = here.finished_s"
                    "  AND there.qualname = here.qualname AND there.occurrence = here.occurrence"
                    "  AND there.key = here.key"
                    " ) ORDER BY id",
                    (target, source, target),
                )
                functions = "SELECT DISTINCT qualname, occurrence FROM results WHERE path = ?"
                for qualname, occurrence in connection.execute(functions, (target,)).fetchall():
                    _limit_function(connection, target, qualname, occurrence)
                _limit_size(connection, self._max_bytes)

        self._do(work)

    def close(self) -> None:
        """Let go of the file; a later call opens it again."""
        import sqlite3

        try:
            self._disconnect()
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do the work; in a new file if this one turns out to be damaged."""
        import sqlite3

        try:
            try:
                return work(self._connected())
            except sqlite3.DatabaseError as error:
                if not _tells_damage(error):
                    raise
                self._damaged = self._identity
                self._disconnect()
                return work(self._connected())
        except (sqlite3.Error, OSError) as error:
            # What the connection is left in is not known, a new one starts clean.
            with contextlib.suppress(sqlite3.Error):
                self._disconnect()
            raise self._error(error) from error

    def _error(self, error: Exception) -> StoreError:
        if "database is locked" in str(error):
            return StoreError(f"{self._file} is in use by another process ({error}); close other editors or try again")
        return StoreError(
            f"results cannot be read or kept in {self._file} ({error});"
            " make sure that there is space and that you may write there, or remove its folder"
        )

    def _connected(self) -> sqlite3.Connection:
        # Another process may have moved the file aside, or a user cleaned the cache: what is written to a file
        # that has lost its name is lost.
        if self._connection is None or self._identity != _identity(self._file):
            self._disconnect()
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _alone(self._folder / "results.lock"):
                self._connection = self._open()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> sqlite3.Connection:
        import sqlite3

        if self._damaged is not None and self._damaged == _identity(self._file):
            self._move_aside("it is damaged")
        self._damaged = None
        try:
            connection = self._open_as_it_is()
        except sqlite3.DatabaseError as error:
            if not _tells_damage(error):
                raise
            self._move_aside(str(error))
            connection = self._open_as_it_is()
        except _OtherVersionError as error:
            # Once only, or servers of two versions would take the file from each other for ever.
            if not self._may_replace_other_version:
                raise StoreError(
                    f"{self._file} was replaced by another version of profile-neuron; restart this editor"
                ) from error
            self._move_aside(str(error))
            connection = self._open_as_it_is()
        self._may_replace_other_version = False
        return connection

    def _open_as_it_is(self) -> sqlite3.Connection:
        import sqlite3

        # SQLite would let others read it. Its -wal and -shm get the mode of the file.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        # Before it is opened: if it is replaced in between, the next call notices.
        self._identity = _identity(self._file)
        connection = sqlite3.connect(self._file, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        try:
            _prepare(connection)
            oldest_s = self._now() - self._max_age_s
            connection.execute("DELETE FROM results WHERE finished_s < ? AND NOT is_pinned", (oldest_s,))
        except BaseException:
            connection.close()
            raise
        return connection

    def _move_aside(self, reason: str) -> None:
        aside = self._file.with_name(f"{self._file.name}.bad")
        # The file itself comes last: a new one must never meet the log of an old one.
        for suffix in ("-wal", "-shm", ""):
            target = aside.with_name(aside.name + suffix)
            target.unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                self._file.with_name(self._file.name + suffix).rename(target)
        log.warning("%s cannot be used (%s): moved to %s, and results begin anew", self._file, reason, aside.name)


class _OtherVersionError(Exception):
    """The file has the tables of another version of ours, or of somebody else."""


@contextlib.contextmanager
def _alone(lock_file: Path) -> Iterator[None]:
    """Hold a lock that no other process holds, and that ends with the process.

    Files are opened and moved aside under it, or one process would move what another has just begun.
    """
    import sqlite3

    # An empty database is a lock on every system that SQLite knows.
    lock = sqlite3.connect(lock_file, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
    try:
        lock.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        lock.close()


@contextlib.contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction that is kept as a whole or not at all."""
    with connection:
        # At once: one that reads first cannot wait for another process when it comes to write.
        connection.execute("BEGIN IMMEDIATE")
        yield


def _prepare(connection: sqlite3.Connection) -> None:
    """Set the connection up, and make the tables of a new file. Raises _OtherVersionError."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if version or tables:
            raise _OtherVersionError(f"it is of version {version}, not {VERSION}")
    connection.execute("PRAGMA journal_mode = WAL")
    # With a write-ahead log this costs no consistency, only the last rows when the power fails.
    connection.execute("PRAGMA synchronous = NORMAL")
    if version != VERSION:
        with _writing(connection):
            for statement in _SCHEMA:
                connection.execute(statement)


def _limit_function(connection: sqlite3.Connection, path: bytes, qualname: bytes, occurrence: int) -> None:
    """Keep the newest rows of each key, and of these the newest of the function; pinned ones stay and do not count."""
    newest_first = connection.execute(
        "SELECT id, key FROM results WHERE path = ? AND qualname = ? AND occurrence = ? AND NOT is_pinned"
        " ORDER BY finished_s DESC, id DESC",
        (path, qualname, occurrence),
    )
    by_key = Counter[str]()
    surplus = []
    for row_id, key in newest_first.fetchall():
        if by_key[key] < ROWS_PER_KEY and by_key.total() < ROWS_PER_FUNCTION:
            by_key[key] += 1
        else:
            surplus.append((row_id,))
    connection.executemany("DELETE FROM results WHERE id = ?", surplus)


def _limit_size(connection: sqlite3.Connection, max_bytes: int) -> None:
    # Summed every time, since other processes add and remove too.
    (excess,) = connection.execute("SELECT COALESCE(SUM(size_bytes), 0) - ? FROM results", (max_bytes,)).fetchone()
    if excess <= 0:
        return
    surplus = []
    oldest_first = "SELECT id, size_bytes FROM results WHERE NOT is_pinned ORDER BY finished_s, id"
    for row_id, size_bytes in connection.execute(oldest_first):
        surplus.append((row_id,))
        excess -= size_bytes
        if excess <= 0:
            break
    connection.executemany("DELETE FROM results WHERE id = ?", surplus)


def _set_pin(connection: sqlite3.Connection, path: str, row: RowIdentity, is_pinned: bool) -> bool:
    """Whether there was a row to do it to."""
    qualname, occurrence, key, finished_s = row
    done = connection.execute(
        "UPDATE results SET is_pinned = ?"
        " WHERE path = ? AND qualname = ? AND occurrence = ? AND key = ? AND finished_s = ?",
        (is_pinned, _encoded(path), _encoded(qualname), occurrence, key, finished_s),
    )
    return done.rowcount > 0


def _tells_damage(error: sqlite3.DatabaseError) -> bool:
    # Python 3.10 has no error codes.
    return any(words in str(error) for words in ("malformed", "not a database"))


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of the same name; None where there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return (status.st_dev, status.st_ino)


def _encoded(text: str) -> bytes:
    # Every str can be encoded this way, and no two of them alike.
    return text.encode("utf-8", "surrogatepass")


def _decoded(encoded: bytes) -> str:
    return encoded.decode("utf-8", "surrogatepass")
