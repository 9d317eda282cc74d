"use strict";
// Elements, numbers for people, and the facts: JSON in script elements, read when first asked for.
// Texts of modules go into the document as text nodes only; nothing here takes HTML.

function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on"))
      element.addEventListener(key.slice(2), value);
    else if (key === "style")
      element.style.cssText = value;
    else
      element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const cache = new Map();
function readData(id) {
  if (!cache.has(id)) {
    const element = document.getElementById(id);
    cache.set(id, element ? JSON.parse(element.textContent) : null);
  }
  return cache.get(id);
}
const theIndex = () => readData("index");
const timelineData = () => readData("timeline");

// A program with its rows as objects.
const programs = new Map();
function programOf(number) {
  if (programs.has(number)) return programs.get(number);
  const raw = readData("program-" + number);
  const word = (id) => raw.words[id];
  const program = {...raw, number, word};
  program.steps = (raw.steps || []).map((row, i) => ({
                                          number: i,
                                          name: word(row[0]),
                                          op: word(row[1]),
                                          source: word(row[2]),
                                          scope: word(row[3]),
                                          shapes: word(row[4]),
                                          depth: row[5],
                                          kernel: row[6],
                                          flops: row[7],
                                          bytes: row[8],
                                          seconds: row[9],
                                          count: row[10],
                                        }));
  program.kernels = (raw.kernels || []).map((row, i) => ({number: i, name: word(row[0]), runs: row[1]}));
  program.fusions = raw.fusions.map((row) => ({
                                      name: word(row[0]),
                                      kind: word(row[1]),
                                      source: lineOf(word(row[2])),
                                      shape: word(row[3]),
                                      ops: word(row[4]),
                                      members: row[5]
                                    }));
  program.apart = raw.apart.map((row) => ({
                                  name: word(row[0]),
                                  op: word(row[1]),
                                  source: lineOf(word(row[2])),
                                  readers: word(row[3]),
                                  reason: word(row[4])
                                }));
  program.copies = raw.copies.map(
      (row) => (
          {name: word(row[0]), source: lineOf(word(row[1])), reason: word(row[2]), bytes: row[3], loop: row[4] === 1}));
  program.total = program.steps.reduce((sum, step) => sum + (step.seconds || 0), 0);
  programs.set(number, program);
  return program;
}

function expandRuns(runs) {
  const ids = [];
  for (let i = 0; i < runs.length; i += 2) {
    for (let k = 0; k < runs[i + 1]; ++k) ids.push(runs[i] + k);
  }
  return ids;
}

const count = (number, word) => number + " " +
    (number === 1           ? word :
         word.endsWith("y") ? word.slice(0, -1) + "ies" :
                              word + "s");
const lineOf = (source) => source.split(" (")[0];
const quoted = (program, source) => program.sources[source] || "";
const fileOf = (source) => source.slice(source.lastIndexOf("/") + 1);

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}
function showTime(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  if (seconds >= 1) return digits(seconds) + " s";
  if (seconds >= 1e-3) return digits(seconds * 1e3) + " ms";
  if (seconds >= 1e-6) return digits(seconds * 1e6) + " µs";
  return (seconds * 1e9).toFixed(0) + " ns";
}
function showScaled(value, units, base) {
  let unit = 0;
  while (value >= base && unit + 1 < units.length) {
    value /= base;
    ++unit;
  }
  return (unit === 0 ? Math.round(value) : digits(value)) + " " + units[unit];
}
const showBytes = (bytes) =>
    bytes === null || bytes === undefined ? "–" : showScaled(bytes, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
const showFlops = (flops) =>
    flops === null || flops === undefined ? "–" : showScaled(flops, ["", "k", "M", "G", "T"], 1000) + "FLOP";
const showPercent = (part) =>
    Number.isFinite(part) ? (part >= 0.0995 ? Math.round(part * 100) : digits(part * 100)) + " %" : "–";

// What the machine does at best: measured where that was done, else as the compiler assumes.
function peaks() {
  const machine = theIndex().machine;
  if (!machine) return null;
  const measured = machine.measured_flops > 0 && machine.measured_bytes > 0;
  return {
    flops: measured ? machine.measured_flops : machine.flops,
    bytes: measured ? machine.measured_bytes : machine.bytes,
    measured
  };
}
// Of the time that the slower of arithmetic and memory takes at best.
function rooflineShare(step) {
  const best = peaks();
  if (!best || !step.seconds || step.bytes === null || step.bytes === undefined) return NaN;
  return Math.max(step.flops / best.flops, step.bytes / best.bytes) * (step.count || 1) / step.seconds;
}

// A colour of the style sheet as the theme has it, for canvases.
function color(name) {
  const probe = document.getElementById("tip");
  probe.style.color = `var(--${name})`;
  const value = getComputedStyle(probe).color;
  probe.style.color = "";
  return value;
}
const empty = (...children) => h("p", {class: "empty"}, ...children);
const code = (text) => h("code", null, text);
const link = (hash, text, props) => h("a", {href: hash, ...props}, text);
const goTo = (program, section, ...rest) => "#" + [program, section, ...rest.map(encodeURIComponent)].join("/");
const sourceLink = (program, source) => source ?
    link(
        goTo(program.number, "lines", source), fileOf(source),
        {title: [source, quoted(program, source)].filter(Boolean).join("\n")}) :
    h("span", {class: "dim"}, "–");

function showTip(event, ...lines) {
  const tip = document.getElementById("tip");
  tip.replaceChildren(...lines.filter(Boolean).map((line, i) => h("div", {class: i ? "dim" : ""}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 16, innerHeight - box.height - 8)) + "px";
}
function hideTip() {
  document.getElementById("tip").hidden = true;
}
