// A table of any number of rows: only those in view are elements.
//   columns: {title, width, value(row), show(row), number, share}; `value` sorts, `show` gives a text or an element.

const ROW = 25;

function table(columns, rows, options = {}) {
  const most = options.height || 560;
  let order = rows.slice(), sorted = -1, down = false;
  // Rows are grids of their own: as wide as the least of all columns, so that they agree.
  const least = columns.reduce((sum, column) => sum + parseInt(column.width.replace("minmax(", ""), 10) + 12, 8);
  const template = `grid-template-columns:${columns.map((column) => column.width).join(" ")};min-width:${least}px`;
  const body = h("div", {class: "rows"});
  const head = h("div", {class: "row head", style: template, role: "row"});
  const box = h("div", {class: "table", tabindex: 0, role: "table", "aria-rowcount": rows.length}, head, body);
  box.style.maxHeight = most + "px";

  function heads() {
    head.replaceChildren(...columns.map(
        (column, i) =>
            h("button", {
              class: (column.number ? "num " : "") + (i === sorted ? "on" : ""),
              role: "columnheader",
              title: column.hint,
              "aria-sort": i === sorted ? (down ? "descending" : "ascending") : "none",
              onclick: () => sort(i),
            },
              column.title + (i === sorted ? (down ? " ▾" : " ▴") : ""))));
  }
  function sort(i) {
    down = i === sorted ? !down : Boolean(columns[i].number);
    sorted = i;
    const key = columns[i].value;
    const compare = (a, b) => a === b                    ? 0 :
        a === undefined || a === null || Number.isNaN(a) ? 1 :
        b === undefined || b === null || Number.isNaN(b) ? -1 :
                                                           (a < b ? -1 : 1) * (down ? -1 : 1);
    order = rows.slice().sort((a, b) => compare(key(a), key(b)));
    heads();
    draw(true);
  }
  function cell(column, row) {
    const shown = column.show ? column.show(row) : column.value(row);
    if (!column.share)
      return h(
          "div",
          {class: column.number ? "num" : "", title: typeof shown === "string" && shown.length > 12 ? shown : null},
          shown);
    const part = Math.min(1, column.share(row) || 0);
    return h("div", {class: "share"}, h("i", {style: `width:${(part * 100).toFixed(1)}%`}), h("span", null, shown));
  }
  let from = -1, to = -1;
  function draw(force) {
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 10);
    const last = Math.min(order.length, first + Math.ceil(most / ROW) + 20);
    if (!force && first === from && last === to) return;
    from = first;
    to = last;
    const lines = [];
    for (let i = first; i < last; ++i) {
      const row = order[i];
      const hit = options.hit && options.hit(row);
      lines.push(
          h("div", {class: "row" + (hit ? " hit" : ""), role: "row", style: `${template};top:${i * ROW}px`},
            columns.map((column) => cell(column, row))));
    }
    body.replaceChildren(...lines);
  }
  body.style.height = order.length * ROW + "px";
  body.style.minWidth = least + "px";
  box.addEventListener("scroll", () => draw(false));
  heads();
  if (options.sort !== undefined)
    sort(options.sort);
  else
    draw(true);
  if (options.hit) {
    const at = order.findIndex(options.hit);
    if (at >= 0)
      requestAnimationFrame(() => {
        box.scrollTop = Math.max(0, at * ROW - 120);
        draw(true);
      });
  }
  return box;
}

// Named amounts as bars: {name: text or element, value, show, hint}.
function bars(items) {
  const most = Math.max(...items.map((item) => item.value), 1e-30);
  return h(
      "div", {class: "bars"},
      items.map(
          (item) =>
              [h("div", {title: item.hint}, item.name), h("div", {
                 class: "bar",
                 style:
                     `width:${(100 * item.value / most).toFixed(1)}%` + (item.color ? `;background:${item.color}` : "")
               }),
               h("div", {class: "num"}, item.show)]));
}

function groupBy(rows, key) {
  const groups = new Map();
  for (const row of rows) {
    const name = key(row);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  return groups;
}
