// The frame: which program and section are shown (#PROGRAM/SECTION/...), the side bar, keys.

const SECTIONS = [
  ["overview", "Overview", overviewSection, () => ""],
  ["lines", "Source lines", linesSection, (p) => new Set(p.steps.map((s) => s.source).filter(Boolean)).size],
  ["steps", "Steps and roofline", stepsSection, (p) => p.steps.length],
  ["memory", "Memory", memorySection, (p) => p.memory ? showBytes(p.memory.peak) : ""],
  ["timeline", "Timeline", timelineSection, () => ""],
  ["passes", "Passes", passesSection, (p) => p.passes.filter((pass) => pass.changes).length - 1],
  ["fusions", "Fusions", fusionsSection, (p) => p.fusions.length],
  ["copies", "Copies", copiesSection, (p) => p.copies.length],
  ["compile", "Compile time", compileSection, (p) => p.compile_ms > 0 ? showTime(p.compile_ms / 1e3) : ""],
  ["code", "Generated code", codeSection, (p) => p.kernels.length],
];
const KEYS = [
  ["/", "search"], ["1 … 9, 0", "a section"], ["j, k", "the next program, the one before"], ["t", "light or dark"],
  ["Esc", "leave the search"], ["?", "these keys"],
  ["in the timeline", "+ and − zoom, ← → move, 0 all of it, f a run of the program"]
];

// The programs, those that took longest first.
function programOrder() {
  return theIndex()
      .programs.map((each, number) => ({...each, number}))
      .sort((a, b) => b.seconds - a.seconds || b.compile_ms - a.compile_ms || a.number - b.number);
}

function readHash() {
  const [program, section, ...rest] = location.hash.slice(1).split("/");
  const first = programOrder()[0];
  const number = /^\d+$/.test(program) && Number(program) < theIndex().programs.length ? Number(program) :
      first                                                                            ? first.number :
                                                                                         -1;
  return {
    number,
    section: SECTIONS.some(([name]) => name === section) ? section : "overview",
    rest: rest.map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    })
  };
}

function showSide(place, program) {
  const order = programOrder();
  const entry = (each) => link(
      goTo(each.number, place.section),
      [h("span", null, each.name), h("span", null, each.seconds ? showTime(each.seconds) : "")], {
        class: each.number === place.number ? "on" : "",
        title:
            `${each.name}: ${each.runs} runs, ${showTime(each.seconds)}; compiled in ${showTime(each.compile_ms / 1e3)}`
      });
  const side = document.getElementById("side"), scrolled = side.querySelector(".programs")?.scrollTop || 0;
  side.replaceChildren(
      ...(order.length > 1 ?
              [
                h("h2", null, `${order.length} programs`),
                h("div", {class: "programs"}, order.slice(0, 500).map(entry)),
                order.length > 500 || theIndex().left_out ?
                    h("h2", null, `${Math.max(0, order.length - 500) + theIndex().left_out} more: search`) :
                    null,
                h("h2", null, program ? program.name : "")
              ].filter(Boolean) :
              [h("h2", null, program ? program.name : "")]),
      ...SECTIONS.map(
          ([name, title, , count]) => link(
              goTo(place.number, name),
              [h("span", null, title), h("span", null, String(program ? count(program) : ""))],
              {class: name === place.section ? "on" : ""})));
  const list = side.querySelector(".programs");
  if (list) list.scrollTop = scrolled;
}

function show() {
  hideTip();
  const place = readHash(), main = document.getElementById("main");
  if (place.number < 0) {
    showSide(place, null);
    main.replaceChildren(
        h("h2", null, "No programs"),
        empty(
            "Nothing was compiled while the report was recorded. With ", code("WEFT_REPORT=page.html"),
            " the variable has to be set before JAX first uses the device, and ", code("JAX_PLATFORMS=weft"),
            " has to choose it."));
    return;
  }
  const program = programOf(place.number);
  showSide(place, program);
  const [, title, make] = SECTIONS.find(([name]) => name === place.section);
  document.title = `${title} of ${program.name} – Weft report`;
  const section = h("section", {id: "section-" + place.section});
  section.append(...[make(program, ...place.rest)].flat(4).filter(Boolean));
  main.replaceChildren(section);
  main.scrollTop = 0;
}

function setTheme() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme || (dark ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  document.querySelectorAll("canvas").forEach((canvas) => canvas.redraw && canvas.redraw());
}

function showKeys() {
  const help = document.getElementById("help");
  help.replaceChildren(
      h("b", null, "Keys"), h("dl", null, KEYS.map(([key, what]) => [h("dt", null, key), h("dd", null, what)])));
  help.open ? help.close() : help.showModal();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
  const place = readHash(), order = programOrder().map((each) => each.number), at = order.indexOf(place.number);
  const digit = "1234567890".indexOf(event.key);
  if (event.key === "/")
    document.getElementById("search").focus();
  else if (event.key === "?")
    showKeys();
  else if (event.key === "t")
    setTheme();
  else if (event.key === "j" && at + 1 < order.length)
    location.hash = goTo(order[at + 1], place.section);
  else if (event.key === "k" && at > 0)
    location.hash = goTo(order[at - 1], place.section);
  else if (digit >= 0 && SECTIONS[digit])
    location.hash = goTo(place.number, SECTIONS[digit][0]);
  else
    return;
  event.preventDefault();
}

function start() {
  const index = theIndex();
  document.getElementById("title").textContent = index.title;
  setUpSearch(() => readHash().number);
  document.getElementById("theme").addEventListener("click", setTheme);
  document.getElementById("keys").addEventListener("click", showKeys);
  document.getElementById("help").addEventListener("click", () => document.getElementById("help").close());
  addEventListener("hashchange", show);
  addEventListener("keydown", onKey);
  show();
  document.documentElement.dataset.ready = Math.round(performance.now());
}
document.addEventListener("DOMContentLoaded", start);
