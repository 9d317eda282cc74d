// Steps against the roofline; copies; compile time.

function stepTable(program, steps, options = {}) {
  const shown = program.total > 0;
  return table(
      [
        {title: "#", width: "40px", number: true, value: (s) => s.number},
        {
          title: "step",
          width: "minmax(150px,1.4fr)",
          value: (s) => s.name,
          show: (s) =>
              h("span", {style: `padding-left:${s.depth * 14}px`, title: s.scope || s.name},
                link(goTo(program.number, "code", s.kernel >= 0 ? s.kernel : "steps", s.number), s.name))
        },
        shown && {
          title: "time",
          width: "68px",
          number: true,
          value: (s) => s.seconds,
          show: (s) => showTime(s.seconds),
          hint: "in a whole run of the program"
        },
        shown && {
          title: "share",
          width: "64px",
          number: true,
          value: (s) => s.seconds,
          show: (s) => s.seconds ? showPercent(s.seconds / program.total) : "",
          share: (s) => s.seconds / program.total
        },
        shown && {
          title: "roofline",
          width: "58px",
          number: true,
          value: rooflineShare,
          show: (s) => showPercent(rooflineShare(s)),
          hint:
              "of the time that the slower of arithmetic and memory takes at best; more than 100 %: the data was in caches"
        },
        {title: "line", width: "minmax(90px,.7fr)", value: (s) => s.source, show: (s) => sourceLink(program, s.source)},
        {title: "kind", width: "56px", value: (s) => s.op},
        shown && {
          title: "times",
          width: "42px",
          number: true,
          value: (s) => s.count,
          show: (s) => s.count ? String(+s.count.toFixed(1)) : ""
        },
        {title: "arithmetic", width: "88px", number: true, value: (s) => s.flops, show: (s) => showFlops(s.flops)},
        {title: "traffic", width: "72px", number: true, value: (s) => s.bytes, show: (s) => showBytes(s.bytes)},
        shown && {
          title: "GFLOP/s",
          width: "58px",
          number: true,
          value: (s) => s.flops * s.count / s.seconds,
          show: (s) => s.seconds && s.flops !== null ? digits(s.flops * s.count / s.seconds / 1e9) : "–"
        },
        shown && {
          title: "GB/s",
          width: "48px",
          number: true,
          value: (s) => s.bytes * s.count / s.seconds,
          show: (s) => s.seconds && s.bytes !== null ? digits(s.bytes * s.count / s.seconds / 1e9) : "–"
        },
        {title: "shapes", width: "minmax(90px,1.2fr)", value: (s) => s.shapes},
      ].filter(Boolean),
      steps, options);
}

function stepsSection(program, wanted) {
  const out = [h("h2", null, "Steps and the roofline")];
  if (!program.memory) return [...out, notNative()];
  out.push(h(
      "p", {class: "lead"},
      "What runs, in order: kernels, library routines, copies, loops. Arithmetic and traffic are the least that a step has to do, times are of a whole run",
      program.measured      ? " with the steps one by one." :
          program.total > 0 ? " as recorded." :
                              "."));
  if (!program.steps.length) return [...out, empty("No steps: results are arguments or constants.")];
  if (program.total > 0)
    out.push(rooflineChart(program));
  else
    out.push(notTimed(program));
  out.push(stepTable(program, program.steps, {
    height: 640,
    sort: wanted === undefined && program.total > 0 ? 2 : undefined,
    hit: wanted !== undefined ? (s) => s.number === Number(wanted) : null
  }));
  return out;
}

// Operations a byte across, operations a second up, both as logarithms; a point for each step.
function rooflineChart(program) {
  const best = peaks();
  const points = program.steps.filter((s) => s.seconds && s.flops > 0 && s.bytes > 0)
                     .map((s) => ({
                            step: s,
                            x: Math.log10(s.flops / s.bytes),
                            y: Math.log10(s.flops * s.count / s.seconds),
                            size: 3 + 9 * Math.sqrt(s.seconds / program.total)
                          }));
  if (!best || !points.length)
    return empty(
        "No roofline: ",
        best ? "no step that was timed says how much it computes." :
               "the machine is not known; reports of dumps have no measurements.");
  const ridge = Math.log10(best.flops / best.bytes), roof = Math.log10(best.flops);
  const x0 = Math.floor(Math.min(ridge - 1, ...points.map((p) => p.x))),
        x1 = Math.ceil(Math.max(ridge + 1, ...points.map((p) => p.x)));
  const y1 = Math.ceil(Math.max(roof, ...points.map((p) => p.y))),
        y0 = Math.max(y1 - 7, Math.floor(Math.min(roof - 3, ...points.map((p) => p.y))));
  let places = [];
  const canvas = drawing(260, (pen, width, height) => {
    const at = (x, y) => [78 + (x - x0) / (x1 - x0) * (width - 100), 10 + (y1 - y) / (y1 - y0) * (height - 40)];
    pen.font = "11px system-ui";
    pen.lineWidth = 1;
    for (let y = y0; y <= y1; ++y) {
      pen.strokeStyle = color("line");
      rule(pen, at(x0, y), at(x1, y));
      pen.fillStyle = color("dim");
      pen.fillText(showScaled(10 ** y, ["", "k", "M", "G", "T"], 1000) + "FLOP/s", 0, at(x0, y)[1] + 4);
    }
    for (let x = x0; x <= x1; ++x) {
      pen.strokeStyle = color("line");
      rule(pen, at(x, y0), at(x, y1));
      pen.fillStyle = color("dim");
      pen.fillText(String(10 ** x), at(x, y0)[0] - 6, height - 14);
    }
    pen.fillText("FLOP a byte of traffic", width - 130, height - 2);
    pen.strokeStyle = color("warm");
    pen.lineWidth = 2;
    rule(pen, at(x0, x0 + Math.log10(best.bytes)), at(ridge, roof));
    rule(pen, at(ridge, roof), at(x1, roof));
    places = points.map((p) => [...at(p.x, Math.max(p.y, y0)), p]);
    pen.fillStyle = color("c0");
    pen.globalAlpha = 0.6;
    for (const [x, y, p] of places) {
      pen.beginPath();
      pen.arc(x, y, p.size, 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
  });
  const nearest = (event) => places.map(([x, y, p]) => [Math.hypot(x - event.offsetX, y - event.offsetY) - p.size, p])
                                 .sort((a, b) => a[0] - b[0])[0];
  canvas.addEventListener("mousemove", (event) => {
    const [distance, p] = nearest(event);
    if (distance > 8) return hideTip();
    showTip(
        event, p.step.name,
        `${showTime(p.step.seconds)}, ${digits(p.step.flops * p.step.count / p.step.seconds / 1e9)} GFLOP/s, ${
            showPercent(rooflineShare(p.step))} of the roofline`,
        p.step.source);
  });
  canvas.addEventListener("mouseleave", hideTip);
  canvas.addEventListener("click", (event) => {
    const [distance, p] = nearest(event);
    if (distance <= 8)
      location.hash = goTo(program.number, "code", p.step.kernel >= 0 ? p.step.kernel : "steps", p.step.number);
  });
  return h(
      "div",
      {class: "panel", role: "img", "aria-label": "roofline: each step by operations a byte and operations a second"},
      canvas);
}

function copiesSection(program) {
  const out = [
    h("h2", null, "Copies"),
    h("p", {class: "lead"},
      "Memory that the program moves because two values could not share a buffer, and what forbade it.")
  ];
  if (!program.memory) return [...out, notNative()];
  if (!program.copies.length) return [...out, empty("The program makes no copies.")];
  out.push(table(
      [
        {title: "bytes", width: "96px", number: true, value: (c) => c.bytes, show: (c) => showBytes(c.bytes)},
        {
          title: "",
          width: "70px",
          value: (c) => c.loop,
          show: (c) => c.loop ? h("span", {class: "warn"}, "in a loop") : ""
        },
        {title: "at", width: "minmax(150px,.7fr)", value: (c) => c.name},
        {
          title: "line",
          width: "minmax(110px,.5fr)",
          value: (c) => c.source,
          show: (c) => sourceLink(program, c.source)
        },
        {title: "why", width: "minmax(300px,3fr)", value: (c) => c.reason},
      ],
      program.copies, {sort: 0}));
  return out;
}

function compileSection(program) {
  const out = [h("h2", null, "Compile time")];
  const phases = new Map(program.phases || []);
  if (phases.size) {
    // Code is linked inside of its generation.
    if (phases.has("link") && phases.has("codegen")) phases.set("codegen", phases.get("codegen") - phases.get("link"));
    const known = ["import", "passes", "lower", "codegen", "link"];
    const whole = program.whole_ms || program.compile_ms;
    const rest = whole - [...phases.values()].reduce((a, b) => a + b, 0);
    const items = [...phases]
                      .sort((a, b) => known.indexOf(a[0]) - known.indexOf(b[0]))
                      .concat(rest > 0.01 * whole ? [["other", rest]] : []);
    out.push(
        h("p", {class: "lead"},
          `${
              showTime(
                  whole /
                  1e3)} in all. Recording the module after each pass and printing code for this page is part of it.`),
        bars(
            items.map(([name, ms]) => ({name, value: ms, show: `${showTime(ms / 1e3)}  ${showPercent(ms / whole)}`}))));
  } else {
    out.push(empty(
        "Phases were not recorded: a report of a dump has the passes alone. ", code("weft report FILE"), " and ",
        code("WEFT_REPORT"), " record import, passes, lowering, code generation and linking."));
  }
  const ran = program.passes.slice(1);
  if (ran.length)
    out.push(
        h("h3", null, "Passes"),
        table(
            [
              {title: "#", width: "46px", number: true, value: (p) => ran.indexOf(p) + 1},
              {
                title: "pass",
                width: "minmax(220px,1fr)",
                value: (p) => p.name,
                show: (p) => link(goTo(program.number, "passes", program.passes.indexOf(p)), p.name)
              },
              {title: "time", width: "90px", number: true, value: (p) => p.ms, show: (p) => showTime(p.ms / 1e3)},
              {
                title: "instructions",
                width: "140px",
                number: true,
                value: (p) => p.after - p.before,
                show: (p) => p.changes ? `${p.before} → ${p.after}` : "–"
              },
            ],
            ran, {sort: 2}));
  return out;
}
