"""SVG of a text picture: styled lines become coloured boxes with text in them, every character at its column."""

import re
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from headway.report.diagram import Line, Piece

_WIDTH, _HEIGHT, _MARGIN = 8, 20, 12  # of a character, of a line, around the picture; in pixels
_INK, _FAINT, _PAPER = "#1c1917", "#78716c", "#ffffff"
_FONT = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def render(lines: Sequence[Line], title: str) -> str:
    """An SVG document that shows `lines`; `title` is what a screen reader says."""
    columns = max((sum(len(piece.text) for piece in line) for line in lines), default=0)
    width, height = columns * _WIDTH + 2 * _MARGIN, len(lines) * _HEIGHT + 2 * _MARGIN
    body = [element for number, line in enumerate(lines) for element in _line(line, _MARGIN + number * _HEIGHT)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" font-family="{_FONT}" font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="{_PAPER}"/>',
            *body,
            "</svg>\n",
        ]
    )


def _line(line: Line, top: int) -> Iterator[str]:
    left = _MARGIN
    for piece in line:
        yield from _piece(piece, left, top)
        left += len(piece.text) * _WIDTH


def _piece(piece: Piece, left: int, top: int) -> Iterator[str]:
    style, _, background = piece.style.partition("on ")
    if background:
        width = len(piece.text) * _WIDTH
        yield f'<rect x="{left}" y="{top + 1}" width="{width - 1}" height="{_HEIGHT - 2}" fill="{background}"/>'
    colour = re.search("#[0-9a-f]{6}", style)
    look = f'fill="{colour[0] if colour else _FAINT if "dim" in style else _INK}"'
    look += ' font-weight="bold"' if "bold" in style else ""
    look += ' text-decoration="underline"' if "underline" in style else ""
    for word in re.finditer(r"\S+(?: \S+)*", piece.text):  # a run without wide gaps; its length holds the columns
        where = f'x="{left + word.start() * _WIDTH}" y="{top + 14}" textLength="{len(word[0]) * _WIDTH}"'
        yield f"<text {where} {look}>{escape(word[0])}</text>"
