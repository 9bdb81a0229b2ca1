"""Digests of syntax trees that comments, formatting and docstrings leave unchanged."""

from __future__ import annotations

import ast
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_DIGEST_BYTES = 16
# Whether a name is read or written follows from where it stands, and u"" is the same text as "".
_LEFT_OUT = frozenset({"ctx", "kind", "type_comment", "type_ignores"})


def digest(parts: Iterable[str]) -> str:
    """One digest of several texts, as hex; the same texts divided otherwise give another one."""
    hashed = blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        hashed.update(b"%d:" % len(encoded))
        hashed.update(encoded)
    return hashed.hexdigest()


def write(node: object, parts: list[str], names: set[str], leave_out: Collection[str] = ()) -> None:
    """Append what a tree says to parts, in an order that determines the tree, and the names it mentions to names.

    leave_out: fields of the node itself, not of what it holds, that are skipped.
    """
    stack: list[object] = []
    if isinstance(node, ast.AST):
        parts.append(type(node).__name__)
        stack += [getattr(node, field, None) for field in reversed(node._fields) if field not in leave_out]
    else:
        stack.append(node)
    # Without recursion: an expression of thousands of terms is as deep as it is long.
    while stack:
        item = stack.pop()
        if isinstance(item, ast.AST):
            parts.append(type(item).__name__)
            for field in reversed(item._fields):
                if field not in _LEFT_OUT:
                    stack.append(getattr(item, field, None))
            match item:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    names.add(name)
        elif isinstance(item, list):
            kept = [value for value in item if not is_idle(value)]
            parts.append(f"[{len(kept)}")
            stack += reversed(kept)
        elif type(item) is int:
            # Decimal text of a long number is refused by newer versions of Python.
            parts.append(hex(item))
        else:
            parts.append(repr(item))


def is_idle(node: object) -> bool:
    """Whether a statement is a bare text, which does nothing; a docstring is one."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False
