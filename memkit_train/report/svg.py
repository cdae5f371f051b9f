"""Three small charts as inline SVG: lines, stacked bars, points. They scale to the width of a phone."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4b5563", "#65a30d", "#000000")
_W, _H, _LEFT, _BOTTOM, _TOP = 640, 300, 46, 34, 12
_LONGEST = 40
"""Letters of a name beside its bar."""


def lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    x_label: str,
    y_label: str,
    log_x: bool = False,
    bounds: tuple[float, float] = (0.0, 1.0),
    everybody: Sequence[str] = (),
) -> str:
    """One line per name. `bounds`: what y is at the bottom and at the top. `everybody`: all the names of a page; each
    has one colour in every chart of it."""
    xs = sorted({x for points in series.values() for x, _ in points})
    if not xs:
        return ""
    slots = {x: index / max(len(xs) - 1, 1) for index, x in enumerate(xs)}
    low, high = xs[0], xs[-1]
    bottom, span = bounds[0], bounds[1] - bounds[0] or 1.0

    def up(y: float) -> float:
        return _y((y - bottom) / span)

    def at(x: float) -> float:
        share = slots[x] if log_x or high == low else (x - low) / (high - low)
        return _LEFT + share * (_W - _LEFT - 12)

    body = [_frame(x_label, y_label, bottom, span)]
    body += [
        _text(at(x), _H - _BOTTOM + 14, f"{x:g}", "middle") for x in (xs if len(xs) <= 12 else xs[:: len(xs) // 8])
    ]
    colours = _colours(series, everybody)
    for colour, points in zip(colours, series.values(), strict=True):
        path = " ".join(f"{at(x):.1f},{up(y):.1f}" for x, y in sorted(points))
        body.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        body += [f'<circle cx="{at(x):.1f}" cy="{up(y):.1f}" r="3" fill="{colour}"/>' for x, y in points]
    return _svg(body) + legend(list(series), colours)


def points(found: Mapping[str, tuple[float, float]], x_label: str, y_label: str, everybody: Sequence[str] = ()) -> str:
    """One named point per system; x from 0 to the largest (at least 1), y from 0 to 1. `everybody`: as in `lines`."""
    if not found:
        return ""
    most = max(1.0, *(x for x, _ in found.values()))
    body = [_frame(x_label, y_label)]
    for tick in range(5):
        x = _LEFT + tick / 4 * (_W - _LEFT - 12)
        body.append(_text(x, _H - _BOTTOM + 14, f"{most * tick / 4:.2g}", "middle"))
    colours = _colours(found, everybody)
    for colour, (x, y) in zip(colours, found.values(), strict=True):
        left = _LEFT + x / most * (_W - _LEFT - 12)
        body.append(f'<circle cx="{left:.1f}" cy="{_y(y):.1f}" r="7" fill="{colour}"/>')
    return _svg(body) + legend(list(found), colours)


def bars(rows: Mapping[str, Sequence[float]], parts: Sequence[str], colours: Sequence[str]) -> str:
    """One horizontal bar per name, stacked from shares that sum to one. Names get the room that they need, and the end
    of one is what tells it from another: a long one loses its beginning."""
    names = {name: name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}" for name in rows}
    room = max(150.0, 12 + 7 * max(map(len, names.values()), default=0))
    height = 26 * len(rows) + 8
    body: list[str] = []
    for index, (name, shares) in enumerate(rows.items()):
        top, left = 4 + 26 * index, room
        body.append(_text(room - 6, top + 14, names[name], "end"))
        for share, colour in zip(shares, colours, strict=True):
            width = share * (_W - 12 - room)
            body.append(f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="19" fill="{colour}"/>')
            if share >= 0.06:
                body.append(
                    f'<text x="{left + width / 2:.1f}" y="{top + 14}" text-anchor="middle" fill="#fff">'
                    f"{share:.2f}</text>"
                )
            left += width
    return _svg(body, height) + legend(parts, colours)


def legend(names: Sequence[str], colours: Sequence[str] = COLOURS) -> str:
    items = (
        f'<span><i style="background:{colours[index % len(colours)]}"></i>{html.escape(name)}</span>'
        for index, name in enumerate(names)
    )
    return f'<p class="legend">{"".join(items)}</p>'


def _colours(names: Iterable[str], everybody: Sequence[str]) -> list[str]:
    """Of each name, by its place among all of them."""
    places = {name: place for place, name in enumerate(dict.fromkeys((*everybody, *names)))}
    return [COLOURS[places[name] % len(COLOURS)] for name in names]


def _y(share: float) -> float:
    return _TOP + (1 - min(max(share, 0.0), 1.0)) * (_H - _BOTTOM - _TOP)


def _frame(x_label: str, y_label: str, bottom: float = 0.0, span: float = 1.0) -> str:
    grid = "".join(
        f'<line x1="{_LEFT}" x2="{_W - 12}" y1="{_y(share):.1f}" y2="{_y(share):.1f}" stroke="#8884" />'
        + _text(_LEFT - 6, _y(share) + 4, f"{bottom + share * span:.3g}", "end")
        for share in (0, 0.25, 0.5, 0.75, 1)
    )
    return grid + _text(_W / 2, _H - 4, x_label, "middle") + _text(4, _TOP, y_label, "start")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _svg(body: Sequence[str], height: int = _H) -> str:
    return f'<svg viewBox="0 0 {_W} {height}" role="img">{"".join(body)}</svg>'
