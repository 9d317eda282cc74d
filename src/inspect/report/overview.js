// The first look: what took how long, where, and what to look at.

function tile(value, label) {
  return h("div", {class: "tile"}, h("b", null, value), h("span", null, label));
}

function linesOf(program) {
  const lines = [];
  for (const [source, steps] of groupBy(program.steps.filter((step) => step.source), (step) => step.source)) {
    const sum = (key) =>
        steps.reduce((all, step) => all + (step[key] || 0) * (key === "seconds" ? 1 : step.count || 1), 0);
    lines.push({source, steps, seconds: sum("seconds"), flops: sum("flops"), bytes: sum("bytes")});
  }
  const held = new Map();
  if (program.memory) {
    for (const life of livesAt(program, program.memory.peak_at))
      held.set(life.source, (held.get(life.source) || 0) + life.bytes);
  }
  for (const line of lines) line.held = held.get(line.source) || 0;
  return lines.sort((a, b) => b.seconds - a.seconds || b.bytes - a.bytes);
}

function notTimed(program) {
  return empty(
      "No times: ", program.why_not_run || "the program was compiled but did not run while the report was recorded",
      ". ", code("weft report FILE"), " and ", code("weft run --bench 20 --html page.html FILE"),
      " run a module with random arguments; ", code("WEFT_REPORT=page.html python program.py"),
      " records a JAX program as it runs.");
}
function notNative() {
  return empty(
      "Not compiled to native code: the evaluator runs this program, so there are no steps, buffers or kernels. ",
      code("WEFT_DEBUG=1"), " says which operation native code does not take.");
}

function overviewSection(program) {
  const runs = theIndex().programs[program.number];
  const tiles = [];
  if (program.run_seconds)
    tiles.push(tile(showTime(program.run_seconds), "a run (median)"));
  else if (runs.runs)
    tiles.push(tile(showTime(runs.seconds / runs.runs), `a run (mean of ${runs.runs})`));
  if (program.compile_ms > 0) tiles.push(tile(showTime(program.compile_ms / 1e3), "to compile"));
  if (program.memory) {
    const m = program.memory;
    tiles.push(
        tile(program.steps.length, program.steps.length === 1 ? "step" : "steps"),
        tile(program.kernels.length, program.kernels.length === 1 ? "kernel" : "kernels"),
        tile(showBytes(m.arguments + m.results - m.alias + m.constants + m.temps), "memory in all"),
        tile(showBytes(m.peak), "temporaries at the peak"));
  }
  const timed = program.steps.filter((step) => step.seconds && step.bytes !== null);
  const best = peaks();
  if (timed.length && best) {
    const least = timed.reduce((sum, step) => sum + rooflineShare(step) * step.seconds, 0);
    tiles.push(tile(showPercent(least / timed.reduce((sum, step) => sum + step.seconds, 0)), "of the roofline"));
  }
  const out = [h("h2", null, program.name), h("p", {class: "lead"}, program.origin), h("div", {class: "tiles"}, tiles)];
  if (!program.memory) out.push(notNative());
  const lines = linesOf(program).filter((line) => line.seconds > 0).slice(0, 10);
  if (program.total > 0) {
    if (lines.length)
      out.push(
          h("h3", null, "Where the time goes, by source line"),
          bars(lines.map((line) => ({
                           name: sourceLink(program, line.source),
                           value: line.seconds,
                           hint: line.source,
                           show: [
                             `${showTime(line.seconds)}  ${showPercent(line.seconds / program.total)}  `,
                             h("code", {class: "dim"}, quoted(program, line.source))
                           ]
                         }))));
    const steps = program.steps.filter((step) => step.seconds).sort((a, b) => b.seconds - a.seconds).slice(0, 10);
    out.push(
        h("h3", null, "The longest steps"),
        bars(steps.map((step) => ({
                         name: link(goTo(program.number, "steps", step.number), step.name),
                         value: step.seconds,
                         hint: step.scope,
                         show: `${showTime(step.seconds)}  ${showPercent(step.seconds / program.total)}  ${
                             showPercent(rooflineShare(step))} of the roofline`
                       }))));
  } else if (program.memory) {
    out.push(notTimed(program));
  }
  out.push(h("h3", null, "Worth a look"), worthALook(program), machineLine());
  return out;
}

function worthALook(program) {
  const items = [];
  const changed = program.passes.filter((pass) => pass.changes).length - 1;
  if (program.passes.length)
    items.push([
      link(goTo(program.number, "passes"), `${changed} of ${program.passes.length - 1} passes`),
      " changed the module: ",
      `${program.passes[0].after} → ${program.passes[program.passes.length - 1].after} instructions`
    ]);
  const inLoops = program.copies.filter((copy) => copy.loop);
  if (program.copies.length)
    items.push([
      link(goTo(program.number, "copies"), count(program.copies.length, "copy")),
      ` of ${showBytes(program.copies.reduce((s, c) => s + c.bytes, 0))}`,
      inLoops.length ? h("span", {class: "warn"}, `, ${inLoops.length} in loops`) : ""
    ]);
  if (program.apart.length)
    items.push([
      link(goTo(program.number, "fusions"), count(program.apart.length, "array")),
      program.apart.length === 1 ? " goes" : " go", " through memory between kernels, each with the reason"
    ]);
  if (program.memory && program.memory.peak > 0) {
    const [owner] = peakOwners(program);
    if (owner)
      items.push([
        link(goTo(program.number, "memory"), "memory"),
        ` at the peak: the line that holds most is ${owner.name}, with ${showBytes(owner.bytes)} of ${
            showBytes(program.memory.peak)}`
      ]);
  }
  return items.length ? h("ul", null, items.map((item) => h("li", null, item))) :
                        h("p", {class: "dim"}, "nothing that was recorded");
}

function machineLine() {
  const machine = theIndex().machine;
  if (!machine) return null;
  const best = peaks();
  return h(
      "p", {class: "dim"},
      `${machine.name} (${machine.arch}), ${machine.cores} cores, ${
          machine.threads || machine.cores} threads, vectors of ${machine.vector_bits} bits; at best `,
      `${digits(best.flops / 1e9)} GFLOP/s (f32 multiply-adds) and ${digits(best.bytes / 1e9)} GB/s (a large copy), ${
          best.measured ? "measured" : "as the compiler assumes"}. Weft ${theIndex().version}.`);
}

function linesSection(program, wanted) {
  const out = [
    h("h2", null, "Source lines"),
    h("p", {class: "lead"},
      "Steps by the Python line that they come from. A fused kernel counts for the line of its last operation; a line’s memory is what it holds at the peak.")
  ];
  const lines = linesOf(program);
  if (!lines.length) {
    out.push(
        program.memory ?
            empty(
                "No source lines: the module’s operations carry no metadata. Modules from JAX do; a file needs ",
                code("metadata={source_file=… source_line=…}"), ".") :
            notNative());
    return out;
  }
  out.push(
      table(
          [
            {
              title: "line",
              width: "minmax(190px,1fr)",
              value: (l) => l.source,
              show: (l) => link(
                  goTo(program.number, "lines", l.source),
                  Object.keys(program.sources).length ? fileOf(l.source) : l.source, {title: l.source})
            },
            Object.keys(program.sources).length && {
              title: "code",
              width: "minmax(200px,1.4fr)",
              value: (l) => quoted(program, l.source),
              show: (l) => h("code", {title: quoted(program, l.source)}, quoted(program, l.source))
            },
            {
              title: "time",
              width: "76px",
              number: true,
              value: (l) => l.seconds || undefined,
              show: (l) => showTime(l.seconds || undefined)
            },
            {
              title: "share",
              width: "90px",
              number: true,
              value: (l) => l.seconds,
              show: (l) => showPercent(l.seconds / program.total),
              share: (l) => l.seconds / program.total
            },
            {title: "steps", width: "60px", number: true, value: (l) => l.steps.length},
            {title: "arithmetic", width: "110px", number: true, value: (l) => l.flops, show: (l) => showFlops(l.flops)},
            {title: "traffic", width: "90px", number: true, value: (l) => l.bytes, show: (l) => showBytes(l.bytes)},
            {
              title: "at the peak",
              width: "90px",
              number: true,
              value: (l) => l.held,
              show: (l) => l.held ? showBytes(l.held) : "–"
            },
          ].filter(Boolean),
          lines, {height: wanted ? 260 : 620, hit: wanted ? (l) => l.source === wanted : null}));
  if (!wanted) return out;
  const steps = program.steps.filter((step) => step.source === wanted);
  out.push(h("h3", null, wanted, " ", code(quoted(program, wanted))), stepTable(program, steps, {height: 300}));
  const made = instructionsOf(program, wanted);
  out.push(
      h("h3", null, "Instructions as they came and as the passes left them"),
      made.length ? h("div", {class: "text panel"}, made.map((text) => h("div", null, hloLine(program, text)))) :
                    empty("no instruction of this line is left"));
  return out;
}

// Lines of the first and the last version of the module that name the source line.
function instructionsOf(program, source) {
  const found = [];
  const first = versionAfter(program, 0), last = versionAfter(program, program.passes.length - 1);
  for (const [title, version] of [["input", first], ["after the passes", last]]) {
    const lines = [];
    for (const ids of version.values()) {
      for (const id of ids)
        if (program.lines[id].includes("// " + source)) lines.push(program.lines[id]);
    }
    if (lines.length) found.push("─ " + title, ...lines.slice(0, 200));
  }
  return found;
}
