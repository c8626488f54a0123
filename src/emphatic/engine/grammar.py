"""The grammar of expressions: from text to trees of numbers, lists, names and calls."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import isinf
from typing import NoReturn, TypeAlias, TypeVar

from .._schema import show

MAX_TEXT = 10_000  # characters
MAX_DEPTH = 30  # of what is inside of each other

OWN = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"
"""A function of a module, such as `mylearners:tdrc`."""
QUOTED = r"\"[^\"]*\"|'[^']*'"
NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_KINDS = (
    rf"(?P<number>{NUMBER})(?!\w)",
    rf"(?P<text>{QUOTED})",
    rf"(?P<name>{OWN}|[A-Za-z_]\w*)",
    r"(?P<symbol>\*\*|[-+*/^=,:()\[\]])",
    r"(?P<end>$)",
)
TOKEN = re.compile(rf"\s*(?:{'|'.join(_KINDS)})", re.ASCII)
CONSTANTS = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class Constant:
    """A number, True, False or None."""

    value: int | float | bool | None


@dataclass(frozen=True)
class Text:
    """A text in quotes."""

    text: str


@dataclass(frozen=True)
class Name:
    """What a name stands for."""

    name: str


@dataclass(frozen=True)
class Listing:
    """A list, whose entries may be spans `first:last` or `first:last:step`, or a tuple."""

    entries: tuple["Node | Span", ...]
    is_tuple: bool


@dataclass(frozen=True)
class Span:
    """The numbers from one to another."""

    ends: tuple["Node", ...]


@dataclass(frozen=True)
class Negative:
    """An expression with a minus before it."""

    of: "Node"


@dataclass(frozen=True)
class Chain:
    """Operations from left to right."""

    first: "Node"
    rest: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True)
class Argument:
    """An argument of a call, with its keyword if it has one, and where its value is in the text."""

    keyword: str | None
    value: "Node"
    start: int
    end: int


@dataclass(frozen=True)
class Call:
    """A call of a function."""

    function: str
    arguments: tuple[Argument, ...]


Node: TypeAlias = Constant | Text | Name | Listing | Negative | Chain | Call
"""A part of an expression."""
Part = TypeVar("Part")


@dataclass(frozen=True)
class Expression:
    """An expression, the functions that it calls, and its other names."""

    text: str
    node: Node
    calls: frozenset[str]
    names: frozenset[str]


def parse(text: str) -> Expression:
    """Parses an expression; a `ValueError` if it has no meaning, is too long or nested too deep.

    From the weakest, its operations are `+ -`, `* /`, the minus before a number, and `^`, which
    is also written `**` and groups from the right.
    """
    return _Parser(text).parse()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


class _Parser:
    """Reads the tokens of one text, from left to right."""

    def __init__(self, text: str):
        self.text = text
        if len(text) > MAX_TEXT:
            reason = f"it has {len(text)} characters; at most {MAX_TEXT} are read"
            raise ValueError(f"{show(text)} cannot be read: {reason}")
        self.calls, self.names = set[str](), set[str]()
        self.position = self.depth = 0
        self.tokens = self.tokenize()

    def parse(self) -> Expression:
        """Parses the whole text."""
        node = self.sum()
        if self.token.kind != "end":
            self.fail("its end")
        return Expression(self.text, node, frozenset(self.calls), frozenset(self.names))

    # Tokens

    def tokenize(self) -> list[_Token]:
        """Returns the tokens of the text; the last is its end."""
        tokens: list[_Token] = []
        while not tokens or tokens[-1].kind != "end":
            start = tokens[-1].end if tokens else 0
            match = TOKEN.match(self.text, start)
            if match is None:
                rest = self.text[start:].lstrip()
                place = f"at character {len(self.text) - len(rest) + 1}"
                raise ValueError(f"{show(self.text)} cannot be read: got {rest[:1]!r} {place}")
            kind = str(match.lastgroup)
            tokens.append(_Token(kind, match[kind], match.start(kind), match.end(kind)))
        return tokens

    @property
    def token(self) -> _Token:
        """The next token."""
        return self.tokens[self.position]

    def advance(self) -> _Token:
        """Reads the next token."""
        token = self.token
        self.position += token.kind != "end"
        return token

    def is_next(self, *symbols: str) -> bool:
        """Whether the next token is one of these symbols."""
        return self.token.kind == "symbol" and self.token.text in symbols

    def expect(self, *symbols: str) -> None:
        """Reads one of these symbols."""
        if not self.is_next(*symbols):
            self.fail(" or ".join(map(repr, symbols)))
        self.advance()

    def fail(self, required: str) -> NoReturn:
        """Raises a `ValueError` that says what the next token is and what is required."""
        seen = show(self.token.text) if self.token.kind != "end" else "its end"
        place = f"at character {self.token.start + 1}"
        reason = f"got {seen} {place}; {required} is required"
        raise ValueError(f"{show(self.text)} cannot be read: {reason}")

    # Rules, from the weakest operation to what is in brackets

    def sum(self) -> Node:
        return self.chain(self.product, "+", "-")

    def product(self) -> Node:
        return self.chain(self.factor, "*", "/")

    def chain(self, operand: Callable[[], Node], *operators: str) -> Node:
        first, rest = operand(), list[tuple[str, Node]]()
        while self.is_next(*operators):
            rest.append((self.advance().text, operand()))
        return Chain(first, tuple(rest)) if rest else first

    def factor(self) -> Node:
        self.depth += 1  # all that is inside of something else is inside of a factor
        if self.depth > MAX_DEPTH:
            reason = f"it is nested more than {MAX_DEPTH} deep"
            raise ValueError(f"{show(self.text)} cannot be read: {reason}")
        if self.is_next("-"):
            self.advance()
            node: Node = Negative(self.factor())
        else:
            node = self.atom()
            if self.is_next("^", "**"):
                self.advance()
                node = Chain(node, (("^", self.factor()),))
        self.depth -= 1
        return node

    def atom(self) -> Node:
        token = self.token
        if token.kind == "number":
            return Constant(self.number())
        if token.kind == "text":
            return Text(self.advance().text[1:-1])
        if token.kind == "name":
            return self.name()
        if self.is_next("["):
            self.advance()
            return Listing(self.series("]", self.entry), is_tuple=False)
        if self.is_next("("):
            self.advance()
            return self.group()
        return self.fail("a number, a name, a call or a list")

    def number(self) -> int | float:
        text = self.advance().text
        if isinf(float(text)):
            raise ValueError(f"{show(text)} is too large")
        return int(text) if text.isdigit() else float(text)

    def name(self) -> Node:
        name = self.advance().text
        if self.is_next("("):
            self.advance()
            self.calls.add(name)
            return Call(name, self.arguments(name))
        if name in CONSTANTS:
            return Constant(CONSTANTS[name])
        self.names.add(name)
        return Name(name)

    def group(self) -> Node:
        node = self.sum()
        if self.is_next(")"):
            self.advance()
            return node
        self.expect(",")
        return Listing((node, *self.series(")", self.sum)), is_tuple=True)

    def series(self, close: str, item: Callable[[], Part]) -> tuple[Part, ...]:
        items: list[Part] = []
        while not self.is_next(close):
            items.append(item())
            if not self.is_next(close):
                self.expect(",", close)
        self.advance()
        return tuple(items)

    def entry(self) -> "Node | Span":
        ends = [self.sum()]
        while self.is_next(":") and len(ends) < 3:
            self.advance()
            ends.append(self.sum())
        return Span(tuple(ends)) if len(ends) > 1 else ends[0]

    def arguments(self, function: str) -> tuple[Argument, ...]:
        arguments = self.series(")", self.argument)
        keywords = [argument.keyword for argument in arguments]
        for n, keyword in enumerate(keywords):
            if keyword is not None and keyword in keywords[:n]:
                raise ValueError(f"{function}: {keyword}: it is there twice")
            if keyword is None and any(keywords[:n]):
                raise ValueError(f"{function}: argument {n + 1} has no name, but one before it has")
        return arguments

    def argument(self) -> Argument:
        keyword = None
        if self.token.kind == "name" and self.tokens[self.position + 1].text == "=":
            keyword = self.advance().text
            self.advance()
        start = self.token.start
        value = self.sum()
        return Argument(keyword, value, start, self.tokens[self.position - 1].end)
