"""A roofline as SVG: what each case reached, attune and its fastest peer, under what the machine can do."""
import math

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 1060, 640, 80, 60, 70, 300


def roofline(machine, results):
    """The text of the picture."""
    peak, rate = machine["gigaflops"], machine["gigabytes"]
    others = {name: value for name, value in machine["peaks"].items() if name != "multiply-add"}
    points = []
    for number, r in enumerate(results, 1):
        best = min(r["peers"].values(), default=None)
        points.append((number, r["case"], r["flops"] / r["bytes"], r["flops"] / r["attune_s"] * 1e-9, best and r["flops"] / best * 1e-9))
    ridge = peak / rate
    ridges = [ridge, *(value / rate for value in others.values())]
    low_x, high_x = min([p[2] for p in points] + ridges) / 2, max([p[2] for p in points] + ridges) * 2
    reached = [y for p in points for y in p[3:] if y]
    low_y, high_y = min(reached) / 1.6, max([peak, *others.values()]) * 1.5
    x = lambda value: LEFT + (WIDTH - LEFT - RIGHT) * math.log(value / low_x) / math.log(high_x / low_x)
    y = lambda value: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(value / low_y) / math.log(high_y / low_y)
    said = "".join(f", {name} peak {value:.0f} (dashed)" for name, value in others.items())
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{LEFT}" y="28" font-size="16">{machine["cpu"]}, {machine["threads"]} threads, {machine["target"]}</text>',
             f'<text x="{LEFT}" y="46" fill="#555">multiply-add peak {peak:.0f} GFLOP/s{said}, memory read at {rate:.1f} GB/s, all measured; visible pairs only</text>']
    for axis in ticks(low_x, high_x):
        parts.append(f'<line x1="{x(axis):.1f}" y1="{TOP}" x2="{x(axis):.1f}" y2="{HEIGHT - BOTTOM}" stroke="#e4e4e4"/>'
                     f'<text x="{x(axis):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{axis:g}</text>')
    for axis in ticks(low_y, high_y):
        parts.append(f'<line x1="{LEFT}" y1="{y(axis):.1f}" x2="{WIDTH - RIGHT}" y2="{y(axis):.1f}" stroke="#e4e4e4"/>'
                     f'<text x="{LEFT - 8}" y="{y(axis) + 4:.1f}" text-anchor="end">{axis:g}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 22}" text-anchor="middle">FLOP a byte of q, k, v and out, each counted once</text>')
    parts.append(f'<text transform="translate(22 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">GFLOP/s</text>')
    first = max(low_x, low_y / rate)
    parts.append(f'<polyline fill="none" stroke="#222" stroke-width="2" points="{x(first):.1f},{y(first * rate):.1f} {x(ridge):.1f},{y(peak):.1f} {x(high_x):.1f},{y(peak):.1f}"/>')
    for name, value in others.items():
        slope = f"{x(ridge):.1f},{y(peak):.1f} " if value > peak else ""
        parts.append(f'<polyline fill="none" stroke="#222" stroke-dasharray="6 4" '
                     f'points="{slope}{x(value / rate):.1f},{y(value):.1f} {x(high_x):.1f},{y(value):.1f}"><title>{name}</title></polyline>')
    for number, name, intensity, ours, theirs in points:
        if theirs:
            parts.append(f'<line x1="{x(intensity):.1f}" y1="{y(ours):.1f}" x2="{x(intensity):.1f}" y2="{y(theirs):.1f}" stroke="#bbb"/>'
                         f'<circle cx="{x(intensity):.1f}" cy="{y(theirs):.1f}" r="4" fill="white" stroke="#b4530a"><title>{name}: fastest peer, {theirs:.1f} GFLOP/s</title></circle>')
        parts.append(f'<circle cx="{x(intensity):.1f}" cy="{y(ours):.1f}" r="4.5" fill="#1457a8"><title>{name}: {ours:.1f} GFLOP/s</title></circle>')
    # Numbers stand beside the points in two columns where several share an intensity, so that they can be told apart.
    for at in sorted({round(p[2], 3) for p in points}):
        column = sorted((p for p in points if round(p[2], 3) == at), key=lambda p: -p[3])
        last = -math.inf
        for number, _, intensity, ours, _ in column:
            last = max(last + 11, y(ours) + 4)
            parts.append(f'<text x="{x(intensity) + 8:.1f}" y="{last:.1f}" font-size="10" fill="#1457a8">{number}</text>')
    step = min(15, (HEIGHT - TOP - 40) / max(len(points), 1))
    parts.append(f'<circle cx="{WIDTH - RIGHT + 24}" cy="{TOP - 22}" r="4.5" fill="#1457a8"/><text x="{WIDTH - RIGHT + 34}" y="{TOP - 18}">attune</text>'
                 f'<circle cx="{WIDTH - RIGHT + 94}" cy="{TOP - 22}" r="4" fill="white" stroke="#b4530a"/><text x="{WIDTH - RIGHT + 104}" y="{TOP - 18}">fastest peer</text>')
    for at, (number, name, _, ours, theirs) in enumerate(points):
        said = f"{number}  {name}: {ours:.0f}" + (f", {ours / theirs:.2f}x" if theirs else "")
        parts.append(f'<text x="{WIDTH - RIGHT + 20}" y="{TOP + 6 + at * step:.1f}" font-size="11">{said}</text>')
    return "\n".join(parts) + "\n</svg>\n"


def ticks(low, high):
    """1, 2 and 5 times powers of ten; powers of ten alone where there would be many."""
    marks = [m * 10.0 ** e for e in range(-3, 8) for m in (1, 2, 5) if low <= m * 10.0 ** e <= high]
    return marks if len(marks) <= 12 else [m for m in marks if math.log10(m).is_integer()]
