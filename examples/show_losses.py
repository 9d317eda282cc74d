#!/usr/bin/env python3
"""Draws the losses that `weft eval examples/train_mlp.hlo` prints (standard input)."""

import re
import sys


def main():
    results = dict(line.split(": ", 1) for line in sys.stdin if ": " in line)
    losses = [float(x) for x in re.search(r"\{(.*)\}", results["0"])[1].split(",")]
    for i, loss in enumerate(losses):
        print(f"step {40 * i:3}  loss {loss:.4f}  {'#' * round(60 * loss / losses[0])}")
    print(f"{float(results['1'].split()[-1]):.0%} of the points are classified correctly")


if __name__ == "__main__":
    main()
