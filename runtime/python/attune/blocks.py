"""Blocks of a mask, as an array and as a picture."""
from __future__ import annotations

from typing import Any

_COLOURS = {1: "#f2b84b", 2: "#4a7fb5"}
_SAID = {0: "skipped", 1: "visited, masked", 2: "visited, wholly visible"}
_SIDE = 480


class Blocks:
    """Which blocks of (queries, keys) a call visits: 0 skipped, 1 visited, 2 visited and wholly visible, so that no mask is computed.

    `numpy.asarray(blocks)` is (batch, head, query block, key block) of uint8; a notebook draws the first head of the first batch element, `picture` any.
    """

    def __init__(self, variant: str, said: dict[str, Any]) -> None:
        self.variant = variant
        self.shape: tuple[int, int, int, int] = (said["batches"], said["heads"], said["query_blocks"], said["key_blocks"])
        self.query_block: int = said["query_block"]
        self.key_block: int = said["key_block"]
        self.states: bytes = said["blocks"].encode().translate(bytes(max(0, i - 48) for i in range(256)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy
        states = numpy.frombuffer(self.states, numpy.uint8).reshape(self.shape)
        return states.astype(dtype or numpy.uint8, copy=bool(copy) or dtype is not None)

    def picture(self, batch: int = 0, head: int = 0) -> str:
        """An SVG: queries go down, keys to the right."""
        batches, heads, rows, columns = self.shape
        if not (0 <= batch < batches and 0 <= head < heads):
            raise IndexError(f"attune: expected a batch below {batches} and a head below {heads}, got {batch} and {head}")
        wide, high = columns * self.key_block, rows * self.query_block
        scale = _SIDE / max(wide, high, 1)
        across, down = self.key_block * scale, self.query_block * scale
        begin = (batch * heads + head) * rows * columns
        states = self.states[begin:begin + rows * columns]
        parts = [f'<rect width="{columns * across:.2f}" height="{rows * down:.2f}" fill="#f4f4f4"/>']
        for row in range(rows):
            column = 0
            while column < columns:  # one rectangle a run of equal blocks
                state, first = states[row * columns + column], column
                while column < columns and states[row * columns + column] == state:
                    column += 1
                if state:
                    parts.append(f'<rect x="{first * across:.2f}" y="{row * down:.2f}" width="{(column - first) * across:.2f}" height="{down:.2f}" fill="{_COLOURS[state]}"/>')
        grid = "".join(f"M{i * across:.2f} 0V{rows * down:.2f}" for i in range(columns + 1)) + "".join(f"M0 {i * down:.2f}H{columns * across:.2f}" for i in range(rows + 1))
        parts.append(f'<path d="{grid}" stroke="#ffffff" stroke-width="0.5"/>')
        counts = {state: states.count(state) for state in _SAID}
        title = f"{self.variant}: {counts[1] + counts[2]} of {rows * columns} blocks visited, {counts[2]} of them wholly visible; {self.query_block} queries x {self.key_block} keys each"
        legend = "".join(f'<rect x="{i * 165}" y="{rows * down + 26:.0f}" width="10" height="10" fill="{_COLOURS.get(state, "#f4f4f4")}" stroke="#999" stroke-width="0.5"/>'
                         f'<text x="{i * 165 + 15}" y="{rows * down + 35:.0f}">{said}</text>' for i, (state, said) in enumerate(_SAID.items()))
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{max(columns * across, 500):.0f}" height="{rows * down + 44:.0f}" font-family="sans-serif" font-size="11">'
                + "".join(parts) + f'<text x="0" y="{rows * down + 16:.0f}">{title}</text>{legend}</svg>')

    def _repr_svg_(self) -> str:
        return self.picture()

    def __repr__(self) -> str:
        visited = len(self.states) - self.states.count(0)
        return f"<blocks of {self.variant}: {visited} of {len(self.states)} visited, {self.query_block} queries x {self.key_block} keys each>"
