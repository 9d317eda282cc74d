// Buffers over the steps of the program, and who owns the peak.

function lives(program) {
  if (!program.lives)
    program.lives = program.memory.lives.map((row) => ({
                                               name: program.word(row[0]),
                                               shape: program.word(row[1]),
                                               bytes: row[2],
                                               first: row[3],
                                               last: row[4],
                                               source: program.word(row[5]),
                                               maker: program.word(row[6])
                                             }));
  return program.lives;
}
const livesAt = (program, at) => lives(program).filter((life) => life.first <= at && life.last >= at);

// At a step: what temporaries hold, by source line, the largest first.
function ownersAt(program, at) {
  const owners = [];
  for (const [source, held] of groupBy(livesAt(program, at), (life) => life.source || life.maker || "no source line")) {
    owners.push({
      source: held[0].source,
      name: held[0].source ? fileOf(source) : source,
      bytes: held.reduce((sum, life) => sum + life.bytes, 0),
      held
    });
  }
  return owners.sort((a, b) => b.bytes - a.bytes);
}
const peakOwners = (program) => ownersAt(program, program.memory.peak_at);

function heldBytes(program) {
  const changes = new Float64Array(program.memory.steps + 1);
  for (const life of lives(program)) {
    changes[life.first] += life.bytes;
    changes[life.last + 1] -= life.bytes;
  }
  for (let i = 1; i < changes.length; ++i) changes[i] += changes[i - 1];
  return changes.subarray(0, program.memory.steps);
}

function memorySection(program, wanted) {
  const out = [h("h2", null, "Memory")];
  if (!program.memory) return [...out, notNative()];
  const m = program.memory;
  out.push(
      h("div", {class: "tiles"}, tile(showBytes(m.arguments), "arguments"),
        tile(showBytes(m.results), m.alias ? `results (${showBytes(m.alias)} in arguments)` : "results"),
        tile(showBytes(m.constants), "constants"), tile(showBytes(m.temps), "room for temporaries"),
        tile(showBytes(m.peak), `of it held at once, at step ${m.peak_at}`)));
  out.push(h("h3", null, "Temporaries over the steps of the program"));
  const chosen = wanted === undefined ? m.peak_at : Number(wanted);
  if (!m.lives.length)
    out.push(empty("No temporary buffers: every step reads arguments and writes results."));
  else
    out.push(memoryChart(program, chosen), ...ownersOf(program, chosen));
  const held = m.held.map((row) => ({
                            name: program.word(row[0]),
                            shape: program.word(row[1]),
                            kind: program.word(row[2]),
                            bytes: row[3],
                            first: 0,
                            last: m.steps - 1,
                            source: "",
                            maker: ""
                          }));
  const rows = lives(program).map((life) => ({...life, kind: "temporary"})).concat(held);
  out.push(
      h("h3", null, "All buffers"),
      table(
          [
            {title: "bytes", width: "90px", number: true, value: (b) => b.bytes, show: (b) => showBytes(b.bytes)},
            {title: "what for", width: "84px", value: (b) => b.kind},
            {title: "buffer", width: "minmax(90px,.6fr)", value: (b) => b.name},
            {title: "shape", width: "minmax(120px,1fr)", value: (b) => b.shape},
            {
              title: "steps",
              width: "110px",
              number: true,
              value: (b) => b.first,
              show: (b) => b.kind === "temporary" ? `${b.first}–${b.last}` : "all"
            },
            {title: "made by", width: "minmax(140px,1fr)", value: (b) => b.maker},
            {
              title: "line",
              width: "minmax(110px,.8fr)",
              value: (b) => b.source,
              show: (b) => sourceLink(program, b.source)
            },
          ],
          rows, {sort: 0, height: 420}));
  return out;
}

function ownersOf(program, at) {
  const owners = ownersAt(program, at), step = program.steps[at];
  const peak = at === program.memory.peak_at;
  return [
    h("h3", null, peak ? "Who holds memory at the peak" : "Who holds memory",
      ` (step ${at}${step ? ": " + step.name : ""})`),
    owners.length ? bars(owners.slice(0, 16).map(
                        (owner, i) => ({
                          name: owner.source ? sourceLink(program, owner.source) : owner.name,
                          value: owner.bytes,
                          color: `var(--c${Math.min(i, 7)})`,
                          hint: [quoted(program, owner.source)]
                                    .filter(Boolean)
                                    .concat(owner.held.map((life) => `${life.shape} of ${life.maker}`).slice(0, 8))
                                    .join("\n"),
                          show: `${showBytes(owner.bytes)} in ${count(owner.held.length, "buffer")}`
                        }))) :
                    h("p", {class: "dim"}, "nothing is held at this step"),
    peak ? null : h("p", null, link(goTo(program.number, "memory"), "back to the peak"))
  ];
}

// Stacked: the owners of the peak in their colours, the others together.
function memoryChart(program, chosen) {
  const total = heldBytes(program), n = total.length, owners = peakOwners(program).slice(0, 7);
  const layers = owners.map((owner) => {
    const changes = new Float64Array(n + 1);
    for (const life of lives(program))
      if ((life.source || life.maker) === (owner.source || owner.name)) {
        changes[life.first] += life.bytes;
        changes[life.last + 1] -= life.bytes;
      }
    for (let i = 1; i <= n; ++i) changes[i] += changes[i - 1];
    return changes;
  });
  // Five lines at whole numbers of a power of two.
  const unit = 2 ** Math.max(0, Math.floor(Math.log2(Math.max(1, program.memory.peak) / 4)));
  const tick = unit * Math.ceil(Math.max(1, program.memory.peak) * 1.02 / 4 / unit), most = 4 * tick;
  const left = 66,
        step = (event, canvas) =>
            Math.max(0, Math.min(n - 1, Math.floor((event.offsetX - left) / (canvas.clientWidth - left - 8) * n)));
  const canvas = drawing(220, (pen, width, height) => {
    const wide = width - left - 8, tall = height - 30, x = (i) => left + i / n * wide,
          y = (v) => 8 + (1 - v / most) * tall;
    const shades = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => color("c" + i));
    pen.font = "11px system-ui";
    for (let k = 0; k <= 4; ++k) {
      pen.strokeStyle = color("line");
      rule(pen, [left, y(most * k / 4)], [width - 8, y(most * k / 4)]);
      pen.fillStyle = color("dim");
      pen.fillText(showBytes(most * k / 4), 0, y(most * k / 4) + 4);
    }
    pen.fillText("step 0", left, height - 6);
    pen.fillText(String(n - 1), width - 40, height - 6);
    // As many columns as there are pixels, each with the most of its steps.
    const columns = Math.min(n, Math.floor(wide));
    for (let c = 0; c < columns; ++c) {
      const from = Math.floor(c * n / columns), to = Math.max(from + 1, Math.floor((c + 1) * n / columns));
      let at = from;
      for (let i = from; i < to; ++i)
        if (total[i] > total[at]) at = i;
      let below = 0;
      const put = (value, name) => {
        pen.fillStyle = name;
        pen.fillRect(x(from), y(below + value), Math.max(1, x(to) - x(from)), y(below) - y(below + value));
        below += value;
      };
      layers.forEach((layer, i) => put(layer[at], shades[i]));
      put(Math.max(0, total[at] - below), shades[7]);
    }
    for (const [i, name] of [[program.memory.peak_at, "warm"], [chosen, "text"]]) {
      pen.strokeStyle = color(name);
      rule(pen, [x(i + 0.5), 4], [x(i + 0.5), height - 20]);
    }
  });
  canvas.addEventListener("mousemove", (event) => {
    const at = step(event, canvas), s = program.steps[at];
    showTip(event, `step ${at}: ${s ? s.name : ""}`, `${showBytes(total[at])} in temporaries`, s && s.source);
  });
  canvas.addEventListener("mouseleave", hideTip);
  canvas.addEventListener("click", (event) => {
    hideTip();
    location.hash = goTo(program.number, "memory", step(event, canvas));
  });
  return h(
      "div", {class: "panel"}, canvas,
      h("div", {class: "legend"},
        owners.map((owner, i) => h("span", null, h("i", {style: `background:var(--c${i})`}), owner.name)),
        h("span", null, h("i", {style: "background:var(--c7)"}), "others"),
        h("span", null, "click: who holds memory at a step")));
}

// A canvas as wide as its place, drawn again when that or the theme changes. `draw(pen, width, height)`.
function drawing(height, draw) {
  const canvas = h("canvas", {height});
  canvas.style.height = height + "px";
  canvas.redraw = () => {
    const width = canvas.clientWidth, scale = devicePixelRatio || 1;
    if (!width) return;
    canvas.width = width * scale;
    canvas.height = canvas.clientHeight * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    draw(pen, width, canvas.clientHeight);
  };
  new ResizeObserver(canvas.redraw).observe(canvas);
  return canvas;
}
function rule(pen, from, to) {
  pen.beginPath();
  pen.moveTo(...from);
  pen.lineTo(...to);
  pen.stroke();
}
