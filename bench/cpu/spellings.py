"""Algorithms in several spellings each on Weft and on XLA:CPU in one process, interleaved; medians, in milliseconds.

A kind is an algorithm, its programs do the same work: their times beside each other say what a way of writing costs.
"""

import sys

import harness
import spelling_agents  # this and the next add to the list
import spelling_almanac
import spelling_arrays
import spelling_chances
import spelling_choices
import spelling_ciphers
import spelling_codes
import spelling_courses
import spelling_curves
import spelling_digits
import spelling_exercises
import spelling_factors
import spelling_fields
import spelling_graphs
import spelling_grids
import spelling_handbook
import spelling_images
import spelling_kinds
import spelling_laboratory
import spelling_layers
import spelling_ledger
import spelling_lists
import spelling_matrices
import spelling_numbers
import spelling_pictures
import spelling_places
import spelling_planes
import spelling_puzzles
import spelling_recurrences
import spelling_sequences
import spelling_signals
import spelling_solvers
import spelling_sound
import spelling_steps
import spelling_sums
import spelling_textbook
import spelling_types
import spelling_workshop
from spelling_programs import PROGRAMS

# Spellings that do other work than the others of their kind, which their distance from the best says nothing about.
OTHER_WORK = {
    "sieve__where_multiples": "looks at all numbers for every prime; the others go in steps of it",
    "matrix_chain__masked_rows_of_cuts": "all cuts of a row for every cell, and cells below the diagonal: six times as many",
    "bubble_sort__slice_sorted": "jnp.sort puts NaNs last and leaves zeros of both signs in order; minimum and maximum do not",
    "all_paths__three_fori": "each cell may be read by the next one (d[i, k] where j is k): sequential by its words",
    "equalize__compared_with_all": "every pixel with every level: 256 comparisons for one addition",
    "neighbours__sorted_rows": "puts all of a row in order, of which the others take eight",
    "neighbours__inserted": "moves eight numbers for every point, as many steps one after the other",
    "huffman__two_by_top_k": "a selection with places for two minima",
    "huffman__sorted_each_round": "puts all weights in order in every round",
    "option__scanned_slices": "two powers for every node; the others multiply",
    "conjugate__matrices": "products with matrices of all points of a side; the others add up four neighbours",
    "queens__board_of_columns": "looks at all columns of the board for every queen; the others have masks of bits",
    "kuramoto__order_parameter": "one sum of sines for all oscillators; the others take every pair",
    "lasso__residual_each_time": "the residual from all coordinates for each of them; the others carry it, or a matrix of products",
    "z_function__every_place_mapped": "compares from the beginning at every place; the others go on from what is known",
    "fenwick__list_itself": "sums the list for every question; the others keep sums",
    "twister__scan_of_queue": "moves all 624 words for each; the others move none",
    "josephus__mask_walked": "walks over those who have gone",
    "worth__gathered_moves": "looks places up that the others have side by side",
    "mixture__point_by_point": "sums one point after the other, as written",
    "totients__where_divides": "looks at all numbers for every prime; the others go in steps of it",
    "big_product__carry_on_the_way": "carries in every row; the others once",
    "delta_rule__matrix_forgets_first": "a product of matrices for every token; the others of vectors",
    "hamming__matrices_of_bits": "products of matrices of bits; the others shift and mask words",
    "resize__matrices_of_weights": "products with all columns for two weights a row",
    "hough__two_loops": "a sine and a cosine for every vote; the others one for each angle",
    "cells_worth__moves_of_a_table": "looks places up that the others have side by side",
}


def spread(table, platforms):
  """By algorithm: the best and the worst spelling, how far they are apart, and the best of the other platform."""
  kinds = {}
  for name, row in table.items():
    if isinstance(row.get(platforms[0]), list) and name not in OTHER_WORK:
      kinds.setdefault(row["kind"], []).append((row[platforms[0]][0], row.get(platforms[-1]), name.split("__")[1]))
  print(f"{'ms (lower quartiles)':24}{'best':>10}{'worst':>10}{'ratio':>8}{platforms[-1]:>10}  best and worst spelling")
  for kind, rows in sorted(kinds.items()):
    best, worst = min(rows), max(rows)
    others = [other[0] for _, other, _ in rows if isinstance(other, list)]
    other = f"{1e3 * min(others):10.3f}" if others else f"{'-':>10}"
    print(f"{kind:24}{1e3 * best[0]:10.3f}{1e3 * worst[0]:10.3f}{worst[0] / best[0]:8.1f}{other}  {best[2]}, {worst[2]}")
  for name, why in OTHER_WORK.items():
    if isinstance(table.get(name, {}).get(platforms[0]), list):
      print(f"{name} is left out: {why}")


if __name__ == "__main__":
  sys.exit(harness.run("spellings", PROGRAMS, __doc__, summarize=spread))
