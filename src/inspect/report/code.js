// Generated code of each kernel: Program text, LLVM IR, assembly.

// The function of a kernel in one of the files: [name of the file, text].
function functionOf(program, kernel, kind) {
  const files = readData("code-" + program.number) || {};
  const names = [`weft_task_${kernel}`, `weft_call_${kernel}`];
  for (const [file, text] of Object.entries(files)) {
    if (!file.endsWith(kind)) continue;
    for (const name of names) {
      const at = kind === ".ll" ? text.search(new RegExp(`^define [^\\n]*@${name}\\(`, "m")) :
                                  text.search(new RegExp(`^${name}:`, "m"));
      if (at < 0) continue;
      const end = kind === ".ll" ? text.indexOf("\n}", at) + 2 : text.indexOf(`.size\t${name}`, at);
      return [file, text.slice(at, end > at ? end : undefined)];
    }
  }
  return null;
}

// A kernel that comes out as the same code as an earlier one has no function of its own.
function sameKernel(program, number) {
  const body = (kernel) => kernel.runs.join() && expandRuns(kernel.runs).slice(1).join();
  const header = (kernel) => program.word(kernel.runs[0]).replace(/^kernel [^(]*/, "");
  const own = program.kernels[number];
  return program.kernels.findIndex((other) => body(other) === body(own) && header(other) === header(own));
}

function plainText(text) {
  return h("div", {class: "text panel"}, text.split("\n").map((line) => h("div", null, line)));
}

function nativeCode(program, number, kind, title) {
  if (!program.code_files.length) return empty(`No ${title}: the dump has none, or nothing had to be compiled.`);
  let found = functionOf(program, number, kind), note = "";
  if (!found) {
    const same = sameKernel(program, number);
    if (same >= 0 && same !== number) {
      found = functionOf(program, same, kind);
      note = `the same code as kernel ${program.kernels[same].name}; `;
    }
  }
  if (found) return [h("p", {class: "dim"}, note + found[0]), plainText(found[1])];
  const others = program.code_files.filter(([file]) => file.endsWith(kind)).map(([file]) => file);
  if (!others.length)
    return empty(`No ${title}: the object came from the cache. `, code("WEFT_CACHE=0"), " compiles everything anew.");
  return empty(
      `No function of its own: the kernel is part of a loop that is one native function (or its file was too large for the page). Files: `,
      others.map((file) => [link(goTo(program.number, "code", file), file), " "]));
}

function codeSection(program, wanted, stepNumber) {
  const out = [h("h2", null, "Generated code")];
  if (!program.memory) return [...out, notNative()];
  const step = stepNumber === undefined ? null : program.steps[Number(stepNumber)];
  const file = program.code_files.map(([name]) => name).find((name) => name === wanted);
  const number = wanted === undefined ? (program.kernels.length ? 0 : -1) :
      file || wanted === "steps"      ? -1 :
                                        Number(wanted);
  const entry = (hash, text, on, hint) => link(hash, text, {class: on ? "on" : "", title: hint});
  const list = h(
      "div", {class: "list", role: "list"},
      entry(goTo(program.number, "code", "steps"), "buffers and steps", number < 0 && !file),
      program.kernels.slice(0, 3000).map(
          (kernel) =>
              entry(goTo(program.number, "code", kernel.number), kernel.name, kernel.number === number, kernel.name)),
      program.code_files.map(
          ([name, size]) => entry(goTo(program.number, "code", name), `${name} (${showBytes(size)})`, name === file)));
  const right = h("div", {style: "min-width:0"});
  if (file)
    right.append(...wholeFile(program, file));
  else if (number < 0)
    right.append(...programText(program, step));
  else
    right.append(...kernelText(program, number, step));
  out.push(h("div", {class: "code"}, list, right));
  requestAnimationFrame(() => {
    list.querySelector(".on")?.scrollIntoView({block: "nearest"});
    right.querySelector(".hit")?.scrollIntoView({block: "center"});
  });
  return out;
}

function wholeFile(program, file) {
  const text = (readData("code-" + program.number) || {})[file];
  return [
    h("h3", {style: "margin-top:0"}, file),
    text === undefined ? empty(
                             "Left out: pages take 16 MiB of code of a program. ", code("WEFT_DUMP=dir"),
                             " writes all of it to files.") :
                         plainText(text)
  ];
}

function programText(program, step) {
  const lines = expandRuns(program.buffers_and_steps || []).map(program.word);
  const mark = step ? lines.findIndex((line) => line.trim().startsWith(step.name + ": ")) : -1;
  return [
    h("h3", {style: "margin-top:0"}, "Buffers and steps"),
    h("div", {class: "text panel"},
      lines.slice(0, 30000).map((line, i) => h("div", {class: i === mark ? "hit" : ""}, line)))
  ];
}

function kernelText(program, number, step) {
  const kernel = program.kernels[number];
  if (!kernel) return [empty("No such kernel.")];
  const users = program.steps.filter((each) => each.kernel === number);
  const facts =
      (step ? [step] : users)
          .slice(0, 4)
          .map(
              (each) =>
                  h("p", {class: "dim"}, "step ", link(goTo(program.number, "steps", each.number), each.name), ", ",
                    each.shapes, " ",
                    each.seconds ? `${showTime(each.seconds)}, ${showPercent(rooflineShare(each))} of the roofline, ` :
                                   "",
                    sourceLink(program, each.source), " ", each.scope));
  const views = [
    [
      "Program",
      () => [h("div", {class: "text panel"}, expandRuns(kernel.runs).map((id) => h("div", null, program.word(id))))]
    ],
    ["LLVM IR", () => [nativeCode(program, number, ".ll", "LLVM IR")].flat()],
    ["assembly", () => [nativeCode(program, number, ".s", "assembly")].flat()]
  ];
  const box = h("div", null), buttons = [];
  const show = (i) => {
    buttons.forEach((button, k) => button.classList.toggle("on", k === i));
    box.replaceChildren(...views[i][1]());
  };
  views.forEach(([title], i) => buttons.push(h("button", {onclick: () => show(i)}, title)));
  show(0);
  return [
    h("h3", {style: "margin-top:0"}, kernel.name), ...facts,
    users.length > 4 ? h("p", {class: "dim"}, `and ${users.length - 4} more steps`) : null,
    h("div", {class: "tools"}, buttons), box
  ].filter(Boolean);
}
