// One box over steps, kernels, source lines, buffers and instructions of all programs.

const MOST_FOUND = 12;

// Where a line of a module first stands: by its number, [pass, computation].
function lineIndex(program) {
  if (program.lineIndex) return program.lineIndex;
  program.lineIndex = new Map();
  program.passes.forEach((pass, i) => {
    for (const [, runs] of pass.changes || []) {
      for (const id of expandRuns(runs))
        if (!program.lineIndex.has(id)) program.lineIndex.set(id, i);
    }
  });
  return program.lineIndex;
}

// Groups {title, items: [{text, more, hash}]} of one program.
function findIn(program, words) {
  const fits = (text) => {
    const lower = text.toLowerCase();
    return words.every((word) => lower.includes(word));
  };
  const take = (rows, key, make) => {
    const items = [];
    for (const row of rows) {
      if (!fits(key(row))) continue;
      items.push(make(row));
      if (items.length >= MOST_FOUND) break;
    }
    return items;
  };
  const sources = [...new Set(program.steps.map((step) => step.source).filter(Boolean))];
  const n = program.number;
  const index = lineIndex(program);
  return [
    {
      title: "steps",
      items: take(
          program.steps, (s) => `${s.name} ${s.op} ${s.scope} ${s.source}`,
          (s) => ({
            text: s.name,
            more: [showTime(s.seconds), fileOf(s.source), s.scope].filter((t) => t && t !== "–").join("  "),
            hash: goTo(n, "steps", s.number)
          }))
    },
    {
      title: "source lines",
      items: take(
          sources, (s) => `${s} ${quoted(program, s)}`,
          (s) => ({text: s, more: quoted(program, s), hash: goTo(n, "lines", s)}))
    },
    {
      title: "kernels",
      items:
          take(program.kernels, (k) => k.name, (k) => ({text: k.name, more: "code", hash: goTo(n, "code", k.number)}))
    },
    {
      title: "instructions",
      items: take(
          index, ([id]) => program.lines[id], ([id, pass]) => ({
                                                text: program.lines[id].trim(),
                                                more: pass === 0 ? "as it came" : "since " + program.passes[pass].name,
                                                hash: goTo(n, "passes", pass, id)
                                              }))
    },
    {
      title: "passes",
      items: take(
          program.passes.map((p, i) => [p.name, i]), ([name]) => name,
          ([name, i]) => ({text: name, more: "", hash: goTo(n, "passes", i)}))
    },
    {
      title: "copies",
      items: take(
          program.copies, (c) => `${c.name} ${c.reason}`,
          (c) => ({text: c.name, more: c.reason, hash: goTo(n, "copies")}))
    },
  ].filter((group) => group.items.length);
}

function search(text, current) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const all = theIndex().programs;
  const order = [current, ...all.keys()].filter((number, i, list) => number >= 0 && list.indexOf(number) === i);
  const groups = [], begin = performance.now();
  const named = all.map((each, number) => ({each, number}))
                    .filter(({each}) => words.every((word) => each.name.toLowerCase().includes(word)))
                    .slice(0, MOST_FOUND);
  if (all.length > 1 && named.length)
    groups.push({
      title: "programs",
      items:
          named.map(({each, number}) => ({text: each.name, more: `${each.runs} runs`, hash: goTo(number, "overview")}))
    });
  for (const number of order) {
    for (const group of findIn(programOf(number), words)) {
      groups.push({...group, title: number === current ? group.title : `${group.title} of ${all[number].name}`});
    }
    if (groups.length > 24 || performance.now() - begin > 400) break;
  }
  return groups;
}

function setUpSearch(current) {
  const box = document.getElementById("search"), found = document.getElementById("found");
  let links = [], chosen = -1;
  const choose = (i) => {
    chosen = links.length ? (i + links.length) % links.length : -1;
    links.forEach((each, k) => {
      each.classList.toggle("on", k === chosen);
      each.setAttribute("aria-selected", k === chosen);
    });
    if (chosen >= 0) links[chosen].scrollIntoView({block: "nearest"});
  };
  const close = () => {
    found.hidden = true;
    box.setAttribute("aria-expanded", "false");
  };
  const update = () => {
    const groups = search(box.value, current());
    links = [];
    found.replaceChildren(...groups.flatMap((group) => [h("h4", null, group.title), ...group.items.map((item) => {
                                              const element =
                                                  h("a", {href: item.hash, role: "option", onclick: close},
                                                    item.text.slice(0, 300), h("span", null, item.more));
                                              links.push(element);
                                              return element;
                                            })]));
    if (!groups.length) found.append(h("h4", null, "nothing has these words"));
    found.hidden = !box.value.trim();
    box.setAttribute("aria-expanded", String(!found.hidden));
    choose(0);
  };
  let timer = 0;
  box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(update, 60);
  });
  box.addEventListener("focus", () => {
    if (box.value) update();
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown")
      choose(chosen + 1);
    else if (event.key === "ArrowUp")
      choose(chosen - 1);
    else if (event.key === "Enter" && links[chosen]) {
      location.hash = links[chosen].getAttribute("href");
      close();
      box.blur();
    } else if (event.key === "Escape") {
      close();
      box.blur();
    } else
      return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (!document.getElementById("searchbox").contains(event.target)) close();
  });
}
