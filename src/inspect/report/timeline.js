// What ran when, on which thread. Drag to move, wheel or + and - to zoom, click for the step.

const KINDS =
    ["compile", "phase", "pass", "codegen", "enqueue", "execute", "step", "copy", "transfer", "callback", "wait"];
const KIND_COLORS = {
  compile: "c3",
  phase: "c6",
  pass: "c7",
  codegen: "c5",
  enqueue: "c7",
  execute: "c0",
  step: "c2",
  copy: "c1",
  transfer: "c4",
  callback: "c3",
  wait: "c7"
};
const LANE = 17;

// Threads with events {begin, end, what, depth}; outer events come first.
function timelineThreads(data) {
  if (data.ready) return data.ready;
  const word = (id) => data.words[id];
  const whats = data.whats.map((w) => ({
                                 name: word(w[0]),
                                 kind: word(w[1]),
                                 program: word(w[2]),
                                 op: word(w[3]),
                                 source: word(w[4]),
                                 scope: word(w[5]),
                                 shapes: word(w[6])
                               }));
  data.ready = data.threads.map((thread) => {
    const events = [], open = [];
    let begin = 0, depth = 0;
    for (let i = 0; i < thread.events.length; i += 3) {
      begin += thread.events[i];
      while (open.length && open[open.length - 1] <= begin) open.pop();
      const end = begin + thread.events[i + 1];
      events.push({begin, end, what: whats[thread.events[i + 2]], depth: open.length});
      depth = Math.max(depth, open.length + 1);
      open.push(end);
    }
    return {name: thread.name, id: thread.id, events, depth};
  });
  return data.ready;
}

function timelineSection(program) {
  const out = [h("h2", null, "Timeline")], data = timelineData();
  if (!data)
    return [
      ...out,
      empty(
          "Nothing was recorded: a dump has no times. ", code("weft report FILE"), ", ",
          code("weft run --bench 20 --html page.html FILE"), " and ", code("WEFT_REPORT=page.html"),
          " record what runs.")
    ];
  const threads = timelineThreads(data);
  if (!threads.length) return [...out, empty("Nothing ran while the report was recorded.")];
  out.push(h(
      "p", {class: "lead"},
      "All that was compiled, run, copied and waited for. Drag to move, wheel or + and − to zoom, 0 for all of it, f for the runs of this program; click an event for its step.",
      data.left_out + data.dropped > 0 ?
          h("span", {class: "warn"},
            ` The ${data.left_out + data.dropped} shortest or last events are left out; WEFT_TRACE has more.`) :
          ""));
  out.push(timelineView(program, threads));
  out.push(
      h("div", {class: "legend"},
        KINDS.filter((kind) => threads.some((t) => t.events.some((e) => e.what.kind === kind)))
            .map((kind) => h("span", null, h("i", {style: `background:var(--${KIND_COLORS[kind]})`}), kind))));
  return out;
}

function timelineView(program, threads) {
  // From the first event to the last.
  const begin = Math.min(...threads.map((thread) => thread.events[0].begin));
  const end = Math.max(
      begin + 1000,
      threads.reduce((last, thread) => thread.events.reduce((most, event) => Math.max(most, event.end), last), 0));
  let from = begin, to = end, top = [], shades = {};
  const lanes = threads.reduce((sum, thread) => sum + thread.depth + 1.4, 0);
  const canvas = drawing(Math.max(120, lanes * LANE + 26), paint);
  canvas.tabIndex = 0;
  const at = (x) => from + x / canvas.clientWidth * (to - from);

  function paint(pen, width) {
    for (const kind of KINDS) shades[kind] = color(KIND_COLORS[kind]);
    const scale = width / (to - from), back = color("panel");
    pen.font = "11px system-ui";
    const dim = color("dim"), thin = color("line");
    const unit = 10 ** Math.floor(Math.log10((to - from) / 3));
    for (let t = begin + Math.ceil((from - begin) / unit) * unit; t < to; t += unit) {
      pen.fillStyle = dim;
      pen.fillText(showTime((t - begin) / 1e9), (t - from) * scale + 3, 10);
      pen.fillStyle = thin;
      pen.fillRect((t - from) * scale, 0, 1, canvas.clientHeight);
    }
    let y = 18;
    top = threads.map((thread) => {
      pen.fillStyle = back;
      pen.fillRect(0, y, width, 14);
      pen.fillStyle = dim;
      pen.fillText(`${thread.name} ${thread.id}`, 3, y + 11);
      const first = y + 15;
      let last = [];
      for (const event of thread.events) {
        if (event.end < from || event.begin > to) continue;
        const x = Math.max(-2, (event.begin - from) * scale),
              wide = Math.min(width + 4, (event.end - from) * scale) - x;
        // One pixel is painted once.
        if (x + wide < (last[event.depth] || -1)) continue;
        last[event.depth] = Math.ceil(x + wide);
        pen.fillStyle = shades[event.what.kind];
        pen.fillRect(x, first + event.depth * LANE, Math.max(1, wide - (wide > 3 ? 1 : 0)), LANE - 2);
        if (wide > 34) {
          pen.fillStyle = back;
          pen.save();
          pen.beginPath();
          pen.rect(x, first + event.depth * LANE, wide - 3, LANE);
          pen.clip();
          pen.fillText(event.what.name, Math.max(x, 0) + 4, first + event.depth * LANE + 11.5);
          pen.restore();
        }
      }
      y = first + thread.depth * LANE + 0.4 * LANE;
      return first;
    });
  }
  function eventAt(event) {
    const time = at(event.offsetX), slack = (to - from) / canvas.clientWidth * 2;
    for (let i = threads.length - 1; i >= 0; --i) {
      const depth = Math.floor((event.offsetY - top[i]) / LANE);
      if (depth < 0) continue;
      if (depth >= threads[i].depth) return null;
      return threads[i].events.find((e) => e.depth === depth && e.begin - slack <= time && e.end + slack >= time) ||
          null;
    }
    return null;
  }
  function zoom(factor, center) {
    const middle = center === undefined ? (from + to) / 2 : center;
    const length = Math.min(end - begin, Math.max(200, (to - from) * factor));
    from = middle - (middle - from) * length / (to - from);
    from = Math.max(begin, Math.min(from, end - length));
    to = from + length;
    canvas.redraw();
  }
  function move(by) {
    const length = to - from;
    from = Math.max(begin, Math.min(end - length, from + by));
    to = from + length;
    canvas.redraw();
  }
  function focusRuns() {
    const runs = threads.flatMap(
        (thread) => thread.events.filter((e) => e.what.kind === "execute" && e.what.program === program.name));
    if (!runs.length) return;
    const middle = runs[Math.floor(runs.length / 2)];
    from = Math.max(begin, middle.begin - (middle.end - middle.begin) * 0.1);
    to = Math.min(end, middle.end + (middle.end - middle.begin) * 0.1);
    canvas.redraw();
  }
  const keys = {
    "+": () => zoom(0.6),
    "=": () => zoom(0.6),
    "-": () => zoom(1.6),
    ArrowLeft: () => move((from - to) / 5),
    ArrowRight: () => move((to - from) / 5),
    "0": () => {
      from = begin;
      to = end;
      canvas.redraw();
    },
    f: focusRuns
  };
  canvas.addEventListener("keydown", (event) => {
    if (keys[event.key]) {
      keys[event.key]();
      event.preventDefault();
      event.stopPropagation();
    }
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY) ?
        move((event.deltaX || event.deltaY) * (to - from) / 1000) :
        zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event.offsetX));
  }, {passive: false});
  let dragged = null;
  canvas.addEventListener("mousedown", (event) => {
    dragged = {x: event.clientX, from, moved: false};
  });
  canvas.addEventListener("mousemove", (event) => {
    if (dragged && event.buttons) {
      if (Math.abs(event.clientX - dragged.x) > 3) dragged.moved = true;
      move(dragged.from - from - (event.clientX - dragged.x) / canvas.clientWidth * (to - from));
      return;
    }
    const found = eventAt(event);
    if (!found) return hideTip();
    const w = found.what;
    showTip(
        event, w.name, `${showTime((found.end - found.begin) / 1e9)}, ${w.kind}${w.program ? " of " + w.program : ""}`,
        w.shapes, [w.source, w.scope].filter(Boolean).join("  "));
  });
  canvas.addEventListener("mouseleave", hideTip);
  canvas.addEventListener("click", (event) => {
    const found = dragged && dragged.moved ? null : eventAt(event);
    dragged = null;
    if (!found || !found.what.program) return;
    const number = theIndex().programs.findIndex((each) => each.name === found.what.program);
    const step = number >= 0 ? programOf(number).steps.find((each) => each.name === found.what.name) : null;
    if (step) location.hash = goTo(number, "steps", step.number);
  });
  const button = (text, act) =>
      h("button", {
        onclick: () => {
          act();
          canvas.focus();
        }
      },
        text);
  return [
    h("div", {class: "tools"}, button("all", keys["0"]), button("a run of this program", focusRuns),
      button("+", keys["+"]), button("−", keys["-"])),
    h("div", {class: "panel"}, canvas)
  ];
}
