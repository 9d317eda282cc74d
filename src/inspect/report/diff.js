// Two versions of a computation side by side. Lines are numbers, so that comparing is cheap.

// Pairs of equal positions, in order: ends first, then lines that occur once on both sides and stay
// in order (patience), then between those.
function matchLines(a, b) {
  const pairs = [];
  const work = [[0, a.length, 0, b.length]];
  while (work.length) {
    let [a0, a1, b0, b1] = work.pop();
    while (a0 < a1 && b0 < b1 && a[a0] === b[b0]) pairs.push([a0++, b0++]);
    while (a0 < a1 && b0 < b1 && a[a1 - 1] === b[b1 - 1]) pairs.push([--a1, --b1]);
    if (a0 >= a1 || b0 >= b1) continue;
    const anchors = uniqueInOrder(a, a0, a1, b, b0, b1);
    if (anchors.length === 0) continue;
    let x = a0, y = b0;
    for (const [i, k] of anchors) {
      pairs.push([i, k]);
      work.push([x, i, y, k]);
      x = i + 1;
      y = k + 1;
    }
    work.push([x, a1, y, b1]);
  }
  return pairs.sort((p, q) => p[0] - q[0]);
}

function uniqueInOrder(a, a0, a1, b, b0, b1) {
  const where = new Map();
  for (let k = b0; k < b1; ++k) where.set(b[k], where.has(b[k]) ? -1 : k);
  const count = new Map();
  for (let i = a0; i < a1; ++i) count.set(a[i], (count.get(a[i]) || 0) + 1);
  const common = [];
  for (let i = a0; i < a1; ++i) {
    const k = where.get(a[i]);
    if (k >= 0 && count.get(a[i]) === 1) common.push([i, k]);
  }
  // The longest rising sequence of positions on the right.
  const tails = [], before = [];
  common.forEach(([, k], n) => {
    let low = 0, high = tails.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (common[tails[middle]][1] < k)
        low = middle + 1;
      else
        high = middle;
    }
    before[n] = low > 0 ? tails[low - 1] : -1;
    tails[low] = n;
  });
  const anchors = [];
  for (let n = tails.length ? tails[tails.length - 1] : -1; n >= 0; n = before[n]) anchors.push(common[n]);
  return anchors.reverse();
}

// Rows [left, right]: numbers of lines, or -1. In what was replaced, instructions of one name stand side by side.
function diffRows(a, b, nameOf) {
  const rows = [];
  let i = 0, k = 0;
  const replaced = (toI, toK) => {
    const right = new Map();
    for (let n = k; n < toK; ++n) right.set(nameOf(b[n]), n);
    for (; i < toI; ++i) {
      const at = right.get(nameOf(a[i]));
      if (at === undefined || at < k) {
        rows.push([i, -1]);
        continue;
      }
      for (; k < at; ++k) rows.push([-1, k]);
      rows.push([i, k++]);
    }
    for (; k < toK; ++k) rows.push([-1, k]);
  };
  for (const [x, y] of matchLines(a, b)) {
    replaced(x, y);
    rows.push([i++, k++]);
  }
  replaced(a.length, b.length);
  return rows;
}

const nameOfLine = (text) => text.trim().replace(/^ROOT /, "").split(" = ")[0];

// The part that differs, marked; what is the same at both ends is not.
function markChange(text, other) {
  let begin = 0, end = 0;
  const least = Math.min(text.length, other.length);
  while (begin < least && text[begin] === other[begin]) ++begin;
  while (end < least - begin && text[text.length - 1 - end] === other[other.length - 1 - end]) ++end;
  return [text.slice(0, begin), h("em", null, text.slice(begin, text.length - end)), text.slice(text.length - end)];
}

const CONTEXT = 3, MOST_ROWS = 3000;

function showDiff(left, right, textOf) {
  const rows = diffRows(left, right, (id) => nameOfLine(textOf(id)));
  const same = (row) => row[0] >= 0 && row[1] >= 0 && left[row[0]] === right[row[1]];
  const near = new Uint8Array(rows.length);
  rows.forEach((row, n) => {
    if (!same(row)) near.fill(1, Math.max(0, n - CONTEXT), Math.min(rows.length, n + CONTEXT + 1));
  });
  const box = h("div", {class: "diff"});
  const put = (row) => {
    const [l, r] = row;
    const text = [l >= 0 ? textOf(left[l]) : "", r >= 0 ? textOf(right[r]) : ""];
    if (same(row)) return text.map((t) => h("div", null, t));
    const both = l >= 0 && r >= 0;
    return [
      h("div", {class: l < 0 ? "none" : "del"}, both ? markChange(text[0], text[1]) : text[0]),
      h("div", {class: r < 0 ? "none" : "add"}, both ? markChange(text[1], text[0]) : text[1])
    ];
  };
  let shown = 0;
  for (let n = 0; n < rows.length;) {
    if (near[n] && shown < MOST_ROWS) {
      box.append(...put(rows[n++]));
      ++shown;
      continue;
    }
    const begin = n;
    while (n < rows.length && (!near[n] || shown >= MOST_ROWS)) ++n;
    const hidden = rows.slice(begin, n);
    const words = hidden.every(same) ? " lines that stay" : " more lines";
    const button =
        h("button", {class: "skip", onclick: () => button.replaceWith(...hidden.slice(0, MOST_ROWS).flatMap(put))},
          "⋯ " + hidden.length + words);
    box.append(button);
  }
  return box;
}
