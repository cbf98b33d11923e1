"""What people and programs see: answers on stdout, as tables or JSON; notices and progress on stderr."""

import json
import sys
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 160
BIDI_CONTROLS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


class Output(StrEnum):
    """How answers are printed."""

    TABLE = "table"
    JSON = "json"


def printable(value: object) -> str:
    """*value* as text that can't move the cursor, colour the screen or reverse what is read."""
    text = "" if value is None else str(value)
    return "".join("\N{REPLACEMENT CHARACTER}" if _takes_over(c) else c for c in text)


def _takes_over(character: str) -> bool:
    if character in "\n\t":
        return False
    return unicodedata.category(character) in ("Cc", "Cs") or unicodedata.bidirectional(character) in BIDI_CONTROLS


def when(epoch_seconds: object) -> str:
    """An epoch time as people read it, UTC; `never` when there is none."""
    if not isinstance(epoch_seconds, int):
        return "never"
    return datetime.fromtimestamp(epoch_seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def readable_times(record: Mapping[str, object]) -> dict[str, str]:
    """The times of a record, as people read them."""
    return {name: when(value) for name, value in record.items() if name.endswith("_at") and value is not None}


class Screen:
    """One place for everything that is printed."""

    def __init__(self, output: Output) -> None:
        self.output = output
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        self._out = _console(stderr=False)
        self._err = _console(stderr=True)

    @property
    def is_json(self) -> bool:
        """Whether stdout belongs to a program."""
        return self.output is Output.JSON

    def answer(self, data: object) -> None:
        """Print the JSON answer, if JSON is what was asked for."""
        if self.is_json:
            sys.stdout.write(json.dumps(data, indent=2, default=str) + "\n")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], title: str | None = None) -> None:
        """Print a table for people."""
        if self.is_json:
            return
        # As text: what a run called its procedure would else be read as markup.
        heading = None if title is None else Text(printable(title), style="table.title")
        table = Table(title=heading, title_justify="left", header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        self._out.print(table)

    def fields(self, record: Mapping[str, object]) -> None:
        """Print one record, a field a line, for people."""
        if self.is_json:
            return
        indent = max((len(name) for name in record), default=0) + 2
        for name, value in record.items():
            lines = [part for line in _shown(value).split("\n") for part in self._wrapped(line, indent) or [""]]
            self._out.print(
                Text(name.ljust(indent), style="bold").append("\n".ljust(indent + 1).join(lines), "not bold")
            )

    def _wrapped(self, line: str, indent: int) -> list[str]:
        return textwrap.wrap(line, max(self._out.width - indent, 20), replace_whitespace=False)

    def text(self, text: str) -> None:
        """Print plain text for people."""
        if not self.is_json:
            self._out.print(Text(printable(text)), soft_wrap=True)

    def headline(self, text: str) -> None:
        """Print a line that starts a step, for people."""
        if not self.is_json:
            self._out.print()
            self._out.print(Text(printable(text), style="bold"))

    def notice(self, text: str) -> None:
        """Say something that is not part of the answer; a command in it stays on one line, to be copied."""
        self._err.print(Text(printable(text)), soft_wrap=True)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Show that something is going on; a spinner on a terminal, one line elsewhere."""
        if self._err.is_terminal:
            with self._err.status(Text(printable(text))):
                yield
        else:
            self.notice(text)
            yield


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return "\n".join(f"- {printable(v)}" for v in value) or "-"
    return printable(value) if value not in (None, "") else "-"
