// Passes with what each changed; fusions, and why not.

// The module after a pass: lines of each computation, by the number of its name.
function versionAfter(program, number) {
  const version = new Map();
  for (let i = 0; i <= number && i < program.passes.length; ++i) {
    const pass = program.passes[i];
    for (const [name, runs] of pass.changes || []) version.set(name, expandRuns(runs));
    for (const name of pass.gone || []) version.delete(name);
  }
  return version;
}
// A computation before a pass; none: it was not there.
function computationBefore(program, name, number) {
  for (let i = number - 1; i >= 0; --i) {
    const pass = program.passes[i];
    if ((pass.gone || []).includes(name)) return [];
    const found = (pass.changes || []).find(([other]) => other === name);
    if (found) return expandRuns(found[1]);
  }
  return [];
}

const SOURCE = /^(.*?)(\s+\/\/ )([^()]+?)( \(.*\))?$/;
const HLO = /^(\s*(?:ROOT )?)([^ ]+)( = )((?:\([^=]*?\)|\S+) )([a-z][a-z0-9-]*)(\(.*)$/;

// A line of a module: shape and op in colours, the source line as a link.
function hloLine(program, text) {
  const [, body, slashes, source, scope] = SOURCE.exec(text) || [null, text];
  const parts = HLO.exec(body);
  const out = parts ?
      [
        parts[1], parts[2], parts[3], h("span", {class: "shape"}, parts[4]), h("span", {class: "op"}, parts[5]),
        parts[6]
      ] :
      [body];
  if (source)
    out.push(h("span", {class: "src"}, slashes, link(goTo(program.number, "lines", source), source), scope || ""));
  return out;
}

function textBox(program, ids, hit) {
  const most = 4000;
  const rows =
      ids.slice(0, most).map((id) => h("div", {class: id === hit ? "hit" : ""}, hloLine(program, program.lines[id])));
  const box = h("div", {class: "text"}, rows);
  if (ids.length > most) {
    const more =
        h("button", {
          onclick: () => more.replaceWith(
              ...ids.slice(most).map((id) => h("div", {class: id === hit ? "hit" : ""}, program.lines[id])))
        },
          `${ids.length - most} more lines`);
    box.append(more);
  }
  return box;
}

// A fold whose content is made when it is first opened.
function fold(summary, make, open) {
  const details = h("details", {open}, h("summary", null, summary));
  let made = false;
  const fill = () => {
    if (!made && details.open) {
      made = true;
      details.append(...[make()].flat());
    }
  };
  details.addEventListener("toggle", fill);
  fill();
  return details;
}

function computationFold(program, pass, number, name, runs, hit, open) {
  const title = program.lines[name];
  const after = runs ? expandRuns(runs) : [], before = computationBefore(program, name, number);
  const counts = before.length === 0 ? h("span", {class: "plus"}, `new, ${after.length} lines`) :
      after.length === 0 ? h("span", {class: "minus"}, "gone") :
                           changeCounts(before, after);
  const content = () => number === 0 || before.length === 0 ? textBox(program, after, hit) :
      after.length === 0                                    ? textBox(program, before, hit) :
                                                              showDiff(before, after, (id) => program.lines[id]);
  return fold([h("b", null, title), counts], content, open);
}
function changeCounts(before, after) {
  const kept = matchLines(before, after).length;
  return h(
      "span", null, h("span", {class: "minus"}, `−${before.length - kept}`), " ",
      h("span", {class: "plus"}, `+${after.length - kept}`));
}

function passFold(program, pass, number, wanted) {
  const time = number === 0 ? "" : showTime(pass.ms / 1e3);
  if (!pass.changes)
    return h(
        "div", {class: "same"}, h("span", null, pass.name), h("span", null, "changes nothing"),
        h("span", {class: "right"}, time));
  const open = wanted !== undefined && Number(wanted.pass) === number;
  const delta = pass.after - pass.before;
  const what = number === 0 ? `${pass.after} instructions in ${pass.changes.length} computations` : [
    `${pass.before} → ${pass.after} instructions `,
    delta ? h("span", {class: delta > 0 ? "plus" : "minus"}, (delta > 0 ? "+" : "−") + Math.abs(delta)) : ""
  ];
  const computations = () => {
    const all = pass.changes.map(([name, runs]) => [name, runs]).concat((pass.gone || []).map((name) => [name, null]));
    const chosen = open && wanted.line !== undefined ? Number(wanted.line) : -1;
    return all.map(([name, runs]) => {
      const has = chosen >= 0 && runs && expandRuns(runs).includes(chosen);
      return computationFold(program, pass, number, name, runs, chosen, all.length === 1 || has);
    });
  };
  const details = fold(
      [
        h("b", null, number === 0 ? "the module as it came" : pass.name), h("span", null, what),
        number === 0 ? null : h("span", {class: "dim"}, count(pass.changes.length + pass.gone.length, "computation")),
        h("span", {class: "right"}, time)
      ],
      computations, open);
  details.id = "pass-" + number;
  return details;
}

function passesSection(program, pass, line) {
  const out = [
    h("h2", null, "Passes"),
    h("p", {class: "lead"},
      "The pipeline in order. Unfold a pass for the computations that it changed, before on the left and after on the right; behind an instruction stands the line that it comes from.")
  ];
  if (!program.passes.length) return [...out, empty("No modules: the dump has none.")];
  const wanted = pass === undefined ? undefined : {pass, line};
  const list = h("div", null);
  let quiet = pass === undefined || Boolean(program.passes[pass]?.changes);
  const fill = () => list.replaceChildren(
      ...program.passes.map((each, i) => quiet && !each.changes ? null : passFold(program, each, i, wanted))
          .filter(Boolean),
      fold(
          [h("b", null, "the module as the passes left it")],
          () => [...versionAfter(program, program.passes.length - 1)].map(
              ([name, ids]) =>
                  fold([h("b", null, program.lines[name]), `${ids.length} lines`], () => textBox(program, ids)))));
  fill();
  const toggle =
      h("button", {
        class: quiet ? "on" : "",
        onclick: () => {
          quiet = !quiet;
          toggle.classList.toggle("on", quiet);
          fill();
        }
      },
        "only what changed");
  out.push(h("div", {class: "tools"}, toggle), list);
  if (wanted)
    requestAnimationFrame(
        () =>
            (list.querySelector(".hit") || document.getElementById("pass-" + pass))?.scrollIntoView({block: "center"}));
  return out;
}

function fusionsSection(program) {
  const out = [
    h("h2", null, "Fusions"),
    h("p", {class: "lead"},
      "What is computed together in one kernel, and arrays that go through memory although what reads them is a kernel, with the reason.")
  ];
  const step = new Map(program.steps.map((each) => [each.name, each]));
  out.push(h("h3", null, `Fused (${program.fusions.length})`));
  if (!program.fusions.length)
    out.push(empty("No fusions: every operation is a step of its own."));
  else
    out.push(table(
        [
          {
            title: "kernel",
            width: "minmax(220px,1.2fr)",
            value: (f) => f.name,
            show: (f) => step.has(f.name) ?
                link(goTo(program.number, "code", step.get(f.name).kernel, step.get(f.name).number), f.name) :
                f.name
          },
          {title: "kind", width: "80px", value: (f) => f.kind},
          {title: "inside", width: "60px", number: true, value: (f) => f.members},
          {title: "operations", width: "minmax(200px,2fr)", value: (f) => f.ops},
          {title: "result", width: "minmax(120px,1fr)", value: (f) => f.shape},
          {
            title: "line",
            width: "minmax(110px,.7fr)",
            value: (f) => f.source,
            show: (f) => sourceLink(program, f.source)
          },
        ],
        program.fusions, {height: 380}));
  out.push(h("h3", null, `Not fused (${program.apart.length})`));
  if (!program.apart.length)
    out.push(empty("Nothing was refused, or the dump is of a build that did not write notes.tsv."));
  else
    out.push(table(
        [
          {title: "array", width: "minmax(160px,1fr)", value: (a) => a.name},
          {title: "operation", width: "110px", value: (a) => a.op},
          {title: "read by", width: "minmax(160px,1.2fr)", value: (a) => a.readers},
          {title: "why not", width: "minmax(220px,1.5fr)", value: (a) => a.reason},
          {
            title: "line",
            width: "minmax(110px,.7fr)",
            value: (a) => a.source,
            show: (a) => sourceLink(program, a.source)
          },
        ],
        program.apart, {height: 380}));
  return out;
}
