"""Charts without packages: bars and lines on logarithmic axes, as SVG and as text."""

import html
import itertools
import math

FONT = 'font-family="sans-serif" font-size="12"'
COLORS = ["#1f6fb2", "#d1662a", "#3a8f4a", "#8a4fa3"]


def decades(low, high):
  return [10.0 ** k for k in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def label(value):
  return f"{value:g}" if value >= 0.001 else f"{value:.0e}"


def text_bars(title, values, width=48):
  """Bars that grow from 1, to the right above it and to the left below it."""
  reach = max(abs(math.log10(v)) for v in values.values()) or 1.0
  lines = [title]
  for name, value in values.items():
    size = round(abs(math.log10(value)) / reach * width / 2)
    left = "█" * size if value < 1 else ""
    right = "█" * size if value >= 1 else ""
    lines.append(f"  {name:32}{left:>{width // 2}}|{right:<{width // 2}} {value:.3g}")
  return "\n".join(lines)


def write_bars(path, title, values):
  """One bar a program, logarithmic, from 1."""
  row, left, width = 18, 230, 560
  height = 60 + row * len(values)
  ticks = decades(min(0.5, *values.values()), max(2.0, *values.values()))
  low, high = math.log10(ticks[0]), math.log10(ticks[-1])
  place = lambda v: left + width * (math.log10(v) - low) / (high - low)
  out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 80}" height="{height}" {FONT}>',
         '<rect width="100%" height="100%" fill="white"/>',
         f'<text x="{left}" y="18" font-weight="bold">{html.escape(title)}</text>']
  for tick in ticks:
    x = place(tick)
    out.append(f'<line x1="{x:.1f}" y1="28" x2="{x:.1f}" y2="{height - 22}" stroke="{"#000" if tick == 1 else "#ddd"}"/>')
    out.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{label(tick)}</text>')
  for k, (name, value) in enumerate(values.items()):
    y = 34 + row * k
    a, b = sorted((place(1), place(value)))
    out.append(f'<rect x="{a:.1f}" y="{y}" width="{max(b - a, 1):.1f}" height="{row - 5}" fill="{COLORS[value < 1]}"/>')
    out.append(f'<text x="{left - 8}" y="{y + 11}" text-anchor="end">{html.escape(name)}</text>')
    out.append(f'<text x="{b + 4:.1f}" y="{y + 11}">{value:.3g}</text>')
  path.write_text("\n".join([*out, "</svg>"]) + "\n")


def write_lines(path, title, x_name, y_name, series):
  """Curves through points, both axes logarithmic; `series` maps a name to a list of (x, y)."""
  points = [point for curve in series.values() for point in curve]
  if not points:
    return
  left, top, width, height = 70, 40, 520, 340
  xs, ys = decades(min(p[0] for p in points), max(p[0] for p in points)), decades(min(p[1] for p in points), max(p[1] for p in points))
  across = lambda v: left + width * (math.log10(v / xs[0]) / max(math.log10(xs[-1] / xs[0]), 1e-9))
  up = lambda v: top + height - height * (math.log10(v / ys[0]) / max(math.log10(ys[-1] / ys[0]), 1e-9))
  out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 130}" height="{top + height + 50}" {FONT}>',
         '<rect width="100%" height="100%" fill="white"/>',
         f'<text x="{left}" y="20" font-weight="bold">{html.escape(title)}</text>',
         f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">{html.escape(x_name)}</text>',
         f'<text x="16" y="{top - 12}">{html.escape(y_name)}</text>']
  for tick in xs:
    out.append(f'<line x1="{across(tick):.1f}" y1="{top}" x2="{across(tick):.1f}" y2="{top + height}" stroke="#ddd"/>')
    out.append(f'<text x="{across(tick):.1f}" y="{top + height + 18}" text-anchor="middle">{label(tick)}</text>')
  for tick in ys:
    out.append(f'<line x1="{left}" y1="{up(tick):.1f}" x2="{left + width}" y2="{up(tick):.1f}" stroke="#ddd"/>')
    out.append(f'<text x="{left - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{label(tick)}</text>')
  for (name, curve), color in zip(series.items(), itertools.cycle(COLORS)):
    if not curve:
      continue
    line = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in curve)
    out.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
    out += [f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="3" fill="{color}"/>' for x, y in curve]
    out.append(f'<text x="{across(curve[-1][0]) + 8:.1f}" y="{up(curve[-1][1]) + 4:.1f}" fill="{color}">{html.escape(name)}</text>')
  path.write_text("\n".join([*out, "</svg>"]) + "\n")
