'use strict';
// Texts come from folders that anybody may have named: they are put into the page as text only.
const kept = 120, window_ = 10;  // points of a plot; seconds that the table of phases looks back
const points = {
  rate: [],
  p50: [],
  p99: [],
  queued: [],
  running: []
};
const samples = [];  // of the last seconds
let token = sessionStorage.getItem('weft-token') || '';

const element = id => document.getElementById(id);
const color = name => getComputedStyle(document.documentElement).getPropertyValue(name);
const short = value => value >= 100 ? value.toFixed(0) :
    value >= 1                      ? value.toFixed(1) :
                                      value.toPrecision(2);

function add(list, value) {
  list.push(value);
  if (list.length > kept) list.shift();
}

function minus(now, before) {
  return {
    sum: now.sum - (before ? before.sum : 0),
    counts: now.counts.map((n, i) => n - (before && before.counts[i] || 0))
  };
}

function plus(a, b) {
  const counts = [];
  for (let i = 0; i < Math.max(a.counts.length, b.counts.length); ++i)
    counts.push((a.counts[i] || 0) + (b.counts[i] || 0));
  return {sum: a.sum + b.sum, counts};
}

const total = histogram => histogram.counts.reduce((a, n) => a + n, 0);

// Milliseconds: the upper end of the bucket that the quantile falls into.
function quantile(histogram, q, first) {
  const wanted = q * total(histogram);
  let seen = 0;
  for (let i = 0; i < histogram.counts.length; ++i) {
    seen += histogram.counts[i];
    if (seen > wanted) return first * 2 ** i * 1e-6;
  }
  return 0;
}

// Every model's and class's histograms between two moments.
function between(now, before) {
  const old = new Map((before ? before.models : []).map(model => [model.name, model]));
  const rows = [];
  for (const model of now.models) {
    for (const [name, kind] of Object.entries(model.classes)) {
      const was = old.get(model.name)?.classes[name];
      const phases =
          Object.entries(kind.phases).map(([phase, h]) => [phase, minus(h, was?.phases[phase])]);
      rows.push({model: model.name, kind: name, phases});
    }
  }
  return rows;
}

function plot(id, lines) {
  const canvas = element(id), box = canvas.getBoundingClientRect(), ratio = devicePixelRatio || 1;
  canvas.width = box.width * ratio;
  canvas.height = box.height * ratio;
  const draw = canvas.getContext('2d');
  draw.scale(ratio, ratio);
  const top = Math.max(...lines.flatMap(line => line.values), 1e-9) * 1.1, left = 40,
        height = box.height - 14;
  draw.font = '11px system-ui, sans-serif';
  draw.fillStyle = color('--dim');
  draw.strokeStyle = color('--line');
  for (const part of [0, 0.5, 1]) {
    const y = 6 + (height - 6) * (1 - part);
    draw.fillText(short(top * part), 2, y + 4);
    draw.beginPath();
    draw.moveTo(left, y);
    draw.lineTo(box.width, y);
    draw.stroke();
  }
  for (const line of lines) {
    draw.strokeStyle = color(line.color);
    draw.lineWidth = 1.6;
    draw.beginPath();
    line.values.forEach((value, i) => {
      const x = left + (box.width - left) * (kept - line.values.length + i) / (kept - 1);
      const y = 6 + (height - 6) * (1 - value / top);
      i ? draw.lineTo(x, y) : draw.moveTo(x, y);
    });
    draw.stroke();
  }
}

function row(body, cells) {
  const tr = body.insertRow();
  for (const cell of cells) {
    const td = tr.insertCell();
    if (cell instanceof Node)
      td.append(cell);
    else
      td.textContent = cell;
  }
  return tr;
}

function sumOutcomes(model, outcome) {
  return Object.values(model.classes).reduce((a, kind) => a + kind.outcomes[outcome], 0);
}

function showModels(now, before, seconds) {
  const body = element('models').tBodies[0];
  body.replaceChildren();
  const old = new Map((before ? before.models : []).map(model => [model.name, model]));
  for (const model of now.models) {
    const was = old.get(model.name),
          done = sumOutcomes(model, 'ok') - (was ? sumOutcomes(was, 'ok') : 0);
    const versions = document.createElement('span');
    for (const version of model.versions) {
      const one = document.createElement('span');
      one.textContent = `${version.version} ${version.state.toLowerCase()} `;
      if (version.error) one.className = 'failed', one.title = version.error;
      versions.append(one);
    }
    row(body, [
      model.name, versions, short(seconds ? done / seconds : 0),
      model.batches ? short(model.rows / model.batches) : '',
      model.rows ? `${short(100 * model.padded_rows / (model.rows + model.padded_rows))} %` : '',
      sumOutcomes(model, 'ok'), sumOutcomes(model, 'failed'), sumOutcomes(model, 'shed'),
      sumOutcomes(model, 'expired')
    ]);
  }
}

function showPhases(now, before) {
  const body = element('phases').tBodies[0];
  body.replaceChildren();
  for (const {model, kind, phases} of between(now, before)) {
    const whole = phases.find(([phase]) => phase === 'total')[1];
    if (!total(whole)) continue;
    for (const [phase, histogram] of phases) {
      const count = total(histogram), mean = count ? histogram.sum / count * 1e-6 : 0,
            bar = document.createElement('span');
      bar.className = 'bar';
      bar.style.width = `${whole.sum > 0 ? Math.min(100, 100 * histogram.sum / whole.sum) : 0}px`;
      row(body, [
        model, kind, phase, count, short(mean),
        short(quantile(histogram, 0.5, now.first_bucket_ns)),
        short(quantile(histogram, 0.99, now.first_bucket_ns)), bar
      ]);
    }
  }
}

function showThreads(now) {
  const body = element('threads').tBodies[0];
  body.replaceChildren();
  for (const crew of now.threads)
    row(body, [
      crew.for, crew.count, crew.waiting, crew.rank, crew.cores, crew.turn ? '' : 'not their turn'
    ]);
}

function show(now) {
  const before = samples.at(-1), past = samples[0];
  const seconds = before ? (now.uptime_ns - before.uptime_ns) * 1e-9 : 0;
  samples.push(now);
  if (samples.length > window_) samples.shift();
  const state = element('state');
  state.textContent = now.ready ? 'ready' : 'not ready';
  state.className = now.ready ? 'good' : 'bad';
  element('facts').textContent =
      `${now.version} on ${now.device} · up ${Math.floor(now.uptime_ns * 1e-9)} s · ` +
      `${(now.resident_bytes / 1e6).toFixed(0)} MB in memory, ${
          (now.weights_bytes / 1e6).toFixed(0)} MB of weights · ${now.slots} slots`;
  if (before) {
    let all = {sum: 0, counts: []};
    for (const {phases} of between(now, before))
      all = plus(all, phases.find(([phase]) => phase === 'total')[1]);
    add(points.rate, total(all) / seconds);
    add(points.p50, quantile(all, 0.5, now.first_bucket_ns));
    add(points.p99, quantile(all, 0.99, now.first_bucket_ns));
  }
  add(points.queued, Object.values(now.queued).reduce((a, n) => a + n, 0));
  add(points.running, now.running);
  plot('rate', [{values: points.rate, color: '--c0'}]);
  plot('latency', [{values: points.p50, color: '--c2'}, {values: points.p99, color: '--c1'}]);
  plot('queue', [{values: points.queued, color: '--c1'}, {values: points.running, color: '--c0'}]);
  showModels(now, before, seconds);
  showPhases(now, past);
  showThreads(now);
}

async function tick() {
  try {
    const answer = await fetch(
        '/v2/debug/status',
        {cache: 'no-store', headers: token ? {Authorization: `Bearer ${token}`} : {}});
    element('login').hidden = answer.status !== 401;
    if (answer.ok)
      show(await answer.json());
    else
      element('state').textContent =
          answer.status === 401 ? 'a token is wanted' : `${answer.status}`;
  } catch (error) {
    element('state').textContent = 'no answer';
    element('state').className = 'bad';
  }
  setTimeout(tick, 1000);
}

element('login').addEventListener('submit', event => {
  event.preventDefault();
  token = element('token').value;
  sessionStorage.setItem('weft-token', token);
});
tick();
