"""A plot of lines over one another, as SVG."""

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 380
LEFT, TOP, RIGHT, BOTTOM = 50, 40, 240, 40
COLOURS = ("#7f7f7f", "#d62728", "#ff7f0e", "#9467bd", "#1f77b4", "#2ca02c")
MOST_POINTS = 100
LABEL_PX = 15


def plot(lines: Mapping[str, Sequence[float]], title: str, across: str) -> str:
    """Return a picture in which each line goes over as many steps as it has values, and is named at its end."""
    most = max(max(values) for values in lines.values())
    steps = max(len(values) for values in lines.values())
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def point(step: int, value: float) -> tuple[float, float]:
        return LEFT + wide * step / max(1, steps - 1), TOP + high * (1 - value / most)

    parts = [f'<text x="{LEFT}" y="20" font-weight="bold">{escape(title)}</text>']
    for value in _ticks(most):
        y = point(0, value)[1]
        parts.append(f'<path d="M{LEFT} {y:.1f}H{LEFT + wide}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for step in (0, steps // 3, 2 * steps // 3, steps):
        x = LEFT + wide * step / steps
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{LEFT + wide}" y="{HEIGHT - 6}" text-anchor="end">{escape(across)}</text>')
    named = float(TOP + high + LABEL_PX)
    ordered = sorted(zip(COLOURS, lines.items(), strict=False), key=lambda one: one[1][1][-1])
    for colour, (name, values) in ordered:
        every = max(1, len(values) // MOST_POINTS)
        shown = [*range(0, len(values) - 1, every), len(values) - 1]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (point(step, values[step]) for step in shown))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        named = min(named - LABEL_PX, point(0, values[-1])[1] + 4)
        label = f"{escape(name)}: {values[-1]:.2f}"
        parts.append(f'<text x="{LEFT + wide + 8}" y="{named:.1f}" fill="{colour}">{label}</text>')
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    style = 'font-family="sans-serif" font-size="12"'
    inner = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n<rect width="100%" height="100%" fill="#fff"/>\n{inner}\n</svg>\n'


def _ticks(most: float) -> list[float]:
    """Return round values from 0 to at most the largest."""
    step = next(size for size in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if most / size <= 8 or size == 100)
    return [n * step for n in range(int(most / step) + 1)]
