// The page of a run. It asks state.json for what is new once a second, and draws it. Everything that comes from the run
// is set as text (textContent), never as markup.
'use strict';

const EVERY = 1000, SLOWEST = 10000, LINES = 200, SVG = 'http://www.w3.org/2000/svg';
const $ = id => document.getElementById(id);

// What the server has said so far. `points`: one object per logging step, by the names of the server's columns.
const model = {since: 0, line: 0, started: null, points: [], evaluations: [], places: [], log: [], now: null, received: null, failures: 0};

// ---- text

const known = value => typeof value === 'number';

function short(value) {
  if (!known(value)) return value === null || value === undefined ? '–' : String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2);
  return size >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}

const milliseconds = seconds => known(seconds) ? short(seconds * 1e3) + ' ms' : '–';
const percent = share => known(share) ? (share * 100).toFixed(0) + ' %' : '–';

function bytes(value) {
  if (!known(value)) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; ++at; }
  return (at === 0 ? value.toFixed(0) : value.toFixed(1)) + ' ' + units[at];
}

function duration(seconds) {
  if (!known(seconds)) return '–';
  const s = Math.max(0, Math.round(seconds)), two = n => String(n).padStart(2, '0');
  if (s < 60) return s + ' s';
  if (s < 3600) return Math.floor(s / 60) + 'm' + two(s % 60) + 's';
  return s < 172800 ? Math.floor(s / 3600) + 'h' + two(Math.floor(s % 3600 / 60)) + 'm' : (s / 86400).toFixed(1) + ' days';
}

const clock = seconds => new Date(seconds * 1e3).toLocaleTimeString([], {hour12: false});

// ---- elements

function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(options)) made[key] = value;
  made.append(...children);
  return made;
}

function shape(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Changes the page only where the text did, so that a selection and a screen reader are left alone.
function say(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

// ---- charts

// Round numbers from low to high, about `count` of them.
function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) found.push(i * step);
  return found;
}

// A chart in the element `id`. draw() takes curves {name, xs, ys, dots} as lines, or stacked from the bottom up as areas.
class Chart {
  constructor(id, label, {stacked = false, text = short} = {}) {
    this.stacked = stacked;
    this.text = text;
    this.curves = [];
    this.svg = shape('svg', {role: 'img', 'aria-label': label});
    this.legend = element('div', {className: 'legend'});
    $(id).append(this.legend, this.svg);
    new ResizeObserver(() => this.redraw()).observe(this.svg);
    this.svg.addEventListener('pointermove', event => this.point(event.offsetX));
    this.svg.addEventListener('pointerleave', () => this.point(null));
  }

  draw(curves, logarithmic = false) {
    this.curves = curves;
    this.logarithmic = logarithmic;
    this.redraw();
  }

  // The heights at which a curve is drawn: its own values, or on top of those below it.
  heights() {
    const below = [];
    return this.curves.map(curve => curve.ys.map((y, i) => {
      if (!this.stacked) return known(y) && (!this.logarithmic || y > 0) ? y : null;
      below[i] = (below[i] || 0) + (known(y) ? y : 0);
      return below[i];
    }));
  }

  redraw() {
    const width = this.svg.clientWidth, height = this.svg.clientHeight;
    const left = 52, right = 10, top = 6, bottom = 18, tops = this.heights();
    const xs = this.curves.flatMap(c => c.xs), ys = tops.flat().filter(known);
    this.svg.replaceChildren();
    this.show(null);
    if (width === 0) return;
    if (ys.length === 0) {
      this.svg.append(shape('text', {x: left, y: height / 2}, 'nothing yet'));
      this.at = null;
      return;
    }
    const bend = this.logarithmic ? Math.log10 : y => y;
    let x0 = Math.min(...xs), x1 = Math.max(...xs), y0 = this.stacked ? 0 : bend(Math.min(...ys)), y1 = bend(Math.max(...ys));
    if (x1 === x0) x1 = x0 + 1;
    if (y1 - y0 < 1e-12 * Math.max(1, Math.abs(y1))) { const gap = Math.abs(y1) * .1 || 1; y1 += gap; y0 -= this.stacked ? 0 : gap; }
    const px = x => left + (x - x0) / (x1 - x0) * (width - left - right);
    const py = y => height - bottom - (bend(y) - y0) / (y1 - y0) * (height - top - bottom);
    const marks = this.logarithmic ? ticks(y0, y1, 5).map(e => 10 ** e) : ticks(y0, y1, 5);
    for (const y of marks) {
      this.svg.append(shape('line', {class: 'grid', x1: left, x2: width - right, y1: py(y), y2: py(y)}),
                      shape('text', {x: left - 6, y: py(y) + 4, 'text-anchor': 'end'}, this.text(y)));
    }
    for (const x of ticks(x0, x1, Math.max(3, Math.floor(width / 110))).filter(Number.isInteger)) {
      this.svg.append(shape('text', {x: px(x), y: height - 4, 'text-anchor': x === x0 ? 'start' : 'middle'}, short(x)));
    }
    tops.forEach((heights, i) => this.plot(i, heights, i === 0 ? null : tops[i - 1], px, py));
    this.cursor = shape('line', {class: 'cursor', y1: top, y2: height - bottom, visibility: 'hidden'});
    this.svg.append(this.cursor);
    this.at = {px, x0, x1, left, right, width};
  }

  plot(i, heights, floor, px, py) {
    const {xs, dots} = this.curves[i], place = (k, y) => px(xs[k]).toFixed(1) + ' ' + py(y).toFixed(1);
    if (this.stacked) {
      const back = xs.map((_, k) => place(k, floor ? floor[k] : 0)).reverse();
      this.svg.append(shape('path', {class: 'area area' + i, d: 'M' + xs.map((_, k) => place(k, heights[k])).concat(back).join('L') + 'Z'}));
      return;
    }
    let line = '', pen = 'M';
    heights.forEach((y, k) => {
      if (y === null) { pen = 'M'; return; }
      line += pen + place(k, y);
      pen = 'L';
    });
    this.svg.append(shape('path', {class: 'line' + i % 8, d: line || 'M0 0'}));
    const alone = heights.filter(known).length === 1;
    heights.forEach((y, k) => {
      if (y !== null && (dots || alone)) this.svg.append(shape('circle', {class: 'dot' + i % 8, r: 2.5, cx: px(xs[k]), cy: py(y)}));
    });
  }

  // The values under the pointer; without a pointer the newest.
  point(offset) {
    if (!this.at) return;
    const {x0, x1, left, right, width} = this.at;
    const inside = offset !== null && offset >= left && offset <= width - right;
    this.cursor.setAttribute('visibility', inside ? 'visible' : 'hidden');
    this.show(inside ? x0 + (offset - left) / (width - left - right) * (x1 - x0) : null);
    if (inside) for (const end of ['x1', 'x2']) this.cursor.setAttribute(end, offset);
  }

  show(x) {
    const parts = [];
    let shown = null;
    this.curves.forEach((curve, i) => {
      if (curve.xs.length === 0) return;
      let at = curve.xs.length - 1;
      if (x !== null) curve.xs.forEach((step, k) => { if (Math.abs(step - x) < Math.abs(curve.xs[at] - x)) at = k; });
      shown = i === 0 ? curve.xs[at] : shown;
      if (this.stacked && !(curve.ys.some(y => y > 0))) return;
      const swatch = element('i', {className: (this.stacked ? 'area' : 'line') + (this.stacked ? i : i % 8)});
      parts.push(element('span', {}, swatch, curve.name + ' ' + this.text(curve.ys[at])));
    });
    if (x !== null && shown !== null) parts.unshift(element('span', {textContent: 'step ' + shown}));
    this.legend.replaceChildren(...parts);
  }
}

const charts = {
  loss: new Chart('loss', 'the loss by optimizer step'),
  throughput: new Chart('throughput', 'samples per second by optimizer step'),
  phases: new Chart('phases', 'the time of a step by phase', {stacked: true}),
  metrics: new Chart('metrics', 'the metrics of the evaluations by optimizer step'),
  rate: new Chart('rate', 'the learning rate by optimizer step'),
  norm: new Chart('norm', 'the norm of the gradient by optimizer step')};

// The parts of a step in milliseconds, the last of them what is in no phase.
function parts_of(phases, step_seconds) {
  const parts = phases.map(seconds => (seconds || 0) * 1e3);
  return [...parts, Math.max(0, (step_seconds || 0) * 1e3 - parts.reduce((a, b) => a + b, 0))];
}

function draw_charts() {
  const {points, evaluations, now} = model, xs = points.map(p => p.step);
  const curve = (name, key, factor = 1) => ({name, xs, ys: points.map(p => known(p[key]) ? p[key] * factor : null)});
  const splits = [...new Set(evaluations.map(e => e.split))];
  const of_split = (split, metric) => {
    const own = evaluations.filter(e => e.split === split && e.metrics.some(m => m[0] === metric));
    return {name: split, dots: true, xs: own.map(e => e.step), ys: own.map(e => e.metrics.find(m => m[0] === metric)[1])};
  };
  const losses = splits.map(s => of_split(s, 'loss')).filter(c => c.xs.length > 0);
  charts.loss.draw([{...curve('train', 'loss'), name: 'train'}, ...losses], $('logarithmic').checked);
  charts.throughput.draw([curve('', 'samples_per_second')]);
  charts.rate.draw([curve('', 'learning_rate')]);
  charts.norm.draw([curve('', 'grad_norm')]);
  const parts = points.map(p => parts_of(p.phases, p.step_seconds));
  charts.phases.draw([...now.phases, 'other'].map((name, i) => ({name: name.replace('_', ' '), xs, ys: parts.map(p => p[i])})));
  // The split with most evaluations: the one of the test split, at the end, must not replace the history of validation.
  const all_of = split => evaluations.filter(e => e.split === split);
  const split = splits.reduce((most, s) => all_of(s).length > all_of(most).length ? s : most, splits[0]);
  // The curves of metrics with one unit share a scale: those of the unit that comes first.
  const newest = splits.length > 0 ? all_of(split).pop().metrics.filter(m => m[0] !== 'loss') : [];
  $('metrics-section').hidden = newest.length === 0;
  charts.metrics.draw(newest.filter(m => m[2] === newest[0][2]).slice(0, 8).map(m => ({...of_split(split, m[0]), name: m[0]})));
}

// ---- the rest of the page

function draw_head() {
  const now = model.now, share = now.total_steps > 0 ? now.step / now.total_steps : 0;
  say('run', now.run);
  say('state', now.state);
  const mood = {training: 'good', finished: 'good', evaluating: 'busy', saving: 'busy', failed: 'bad'}[now.state] || '';
  $('state').className = 'state ' + mood;
  say('facts', now.facts.map(([name, value]) => name + ' ' + value).join(' · '));
  $('progress').value = share;
  const left = now.state === 'finished' ? '' : known(now.eta_seconds) ? ', about ' + duration(now.eta_seconds) + ' left' : '';
  say('position', 'step ' + now.step + (now.total_steps > 0 ? ' of ' + now.total_steps + ' (' + (share * 100).toFixed(1) + ' %)' : '') +
      ', epoch ' + (now.epoch + 1) + (now.epochs > 0 ? ' of ' + now.epochs : '') + left);
  document.title = (share * 100).toFixed(0) + ' % · ' + now.run;
  $('verdict-section').hidden = now.verdict === '';
  say('verdict', now.verdict);
}

function draw_tiles() {
  const now = model.now, p = now.newest || {}, tiles = [];
  const add = (name, value, bad = false) => tiles.push(element('div', {}, element('dt', {textContent: name}),
      element('dd', {textContent: value, className: bad ? 'bad' : ''})));
  // The loss of a logging step is always known: null is "not a number".
  const broken = now.newest !== null && !known(p.loss);
  add('training loss', broken ? (p.loss === null ? 'not a number' : p.loss) : short(p.loss), broken);
  if (now.evaluation) {
    const metric = now.evaluation.metrics.find(m => m[0] !== 'loss') || now.evaluation.metrics[0];
    if (metric) add(now.evaluation.split + ' ' + metric[0], short(metric[1]) + (metric[2] ? ' ' + metric[2] : ''), metric[1] === null);
  }
  add('samples per second', short(p.samples_per_second));
  add('time of a step', milliseconds(p.step_seconds));
  add('learning rate', short(p.learning_rate));
  add('gradient norm', short(p.grad_norm), p.grad_norm === 'inf');
  if (known(p.loss_scale)) add('loss scale', short(p.loss_scale), p.loss_scale < 1);
  add('memory, rank 0', bytes(p.memory_used) + (now.memory_total > 0 ? ' of ' + bytes(now.memory_total) : ''));
  add('last checkpoint', now.checkpoint ? 'step ' + now.checkpoint.step + ', ' + duration(now.time - now.checkpoint.time) + ' ago' : 'none yet');
  if (now.skipped > 0) add('skipped steps', String(now.skipped));
  if (now.bad_samples > 0) add('bad samples left out', String(now.bad_samples), true);
  $('tiles').replaceChildren(...tiles);
}

// A bar of the parts of a step, as long as the share of the slowest rank's step.
function bar_of(parts, longest) {
  const svg = shape('svg', {viewBox: '0 0 100 10', preserveAspectRatio: 'none', 'aria-hidden': 'true'});
  let x = 0;
  parts.forEach((part, i) => {
    const width = longest > 0 ? part / longest * 100 : 0;
    if (width > 0) svg.append(shape('rect', {class: 'area area' + i, x: x.toFixed(2), y: 0, width: width.toFixed(2), height: 10}));
    x += width;
  });
  return svg;
}

// A measured value with its unit.
function measured(value, unit) {
  if (!known(value)) return '–';
  switch (unit) {
    case 's': return short(value * 1e3);
    case 'share': return percent(value);
    case 'bytes': return bytes(value);
    case 'Hz': return (value / 1e6).toFixed(0) + ' MHz';
    default: return value.toFixed(0) + ' ' + unit;
  }
}

function draw_ranks() {
  const {places, now} = model, by_rank = new Map(now.ranks.map(r => [r.rank, r]));
  const numbers = now.ranks.length > 0 ? now.ranks.map(r => r.rank) : places.slice(0, 64).map((_, i) => i);
  $('ranks-section').hidden = numbers.length === 0;
  const at = name => now.phases.indexOf(name), ms = (r, ...names) => r ? short(names.reduce((sum, n) => sum + (r.phase_seconds[at(n)] || 0), 0) * 1e3) : '–';
  const all = [
    {name: 'rank', number: true, of: (_, n) => String(n)},
    {name: 'node', of: (_, n) => places[n] ? places[n][0] : '–'},
    {name: 'device', of: (_, n) => places[n] ? places[n][1] : '–'},
    {name: 'cores', number: true, of: (_, n) => places[n] ? String(places[n][2]) : '–'},
    {name: 'readers', number: true, of: (_, n) => places[n] ? String(places[n][3]) : '–'},
    {name: 'step', timed: true, bar: true},
    {name: 'step ms', timed: true, number: true, of: r => r ? short(r.step_seconds * 1e3) : '–'},
    {name: 'data ms', timed: true, number: true, of: r => ms(r, 'data_wait', 'h2d')},
    {name: 'compute ms', timed: true, number: true, of: r => ms(r, 'forward', 'backward')},
    {name: 'comm ms', timed: true, number: true, of: r => ms(r, 'allreduce_wait')},
    ...now.quantities.map(([title, unit], i) => ({name: unit === 's' ? title + ' ms' : title, number: true,
      at: i, of: r => r ? measured(r.values[i], unit) : '–'}))];
  const columns = all.filter(c => (!c.timed || now.ranks.length > 0) && (c.at === undefined || now.ranks.some(r => known(r.values[c.at]))));
  const longest = Math.max(0, ...now.ranks.map(r => (r.step_seconds || 0) * 1e3));
  const head = element('tr', {}, ...columns.map(c => element('th', {scope: 'col', textContent: c.name, className: c.number ? 'number' : ''})));
  const rows = numbers.map(n => {
    const rank = by_rank.get(n);
    return element('tr', {}, ...columns.map(c => {
      if (c.bar) return element('td', {}, rank ? bar_of(parts_of(rank.phase_seconds, rank.step_seconds), longest) : '');
      return element('td', {textContent: c.of(rank, n), className: c.number ? 'number' : ''});
    }));
  });
  $('ranks').replaceChildren(element('thead', {}, head), element('tbody', {}, ...rows));
  const more = places.length - numbers.length;
  say('more-ranks', more <= 0 ? '' : now.ranks.length > 0 ? 'The slowest of ' + places.length + ' ranks.' : 'and ' + more + ' more');
}

function draw_log(lines) {
  if (lines.length === 0) return;
  const box = $('log-box'), at_end = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
  for (const [, time, text] of lines) {
    $('log').append(element('li', {}, element('time', {textContent: clock(time)}), text));
  }
  while ($('log').childElementCount > LINES) $('log').firstElementChild.remove();
  if (at_end) box.scrollTop = box.scrollHeight;
}

// ---- the server

function take(answer) {
  const restarted = model.started !== null && answer.started !== model.started;
  if (restarted && !answer.whole) {  // another process serves here now, with a history of its own
    model.since = model.line = 0;
    return false;
  }
  if (answer.whole) {
    model.points = [];
    model.evaluations = [];
    if (restarted || model.started === null) model.places = [];
    model.line = 0;
    $('log').replaceChildren();
  }
  const names = answer.columns, named = values => {
    const point = {phases: values.slice(names.length)};
    names.forEach((name, i) => { point[name] = values[i]; });
    return point;
  };
  const points = answer.points.map(named);
  model.points.push(...points);
  model.evaluations.push(...answer.evaluations);
  if (answer.places.length > 0) model.places = answer.places;
  model.now = {...answer, newest: answer.newest && named(answer.newest)};
  model.since = answer.number;
  model.started = answer.started;
  if (answer.log.length > 0) model.line = answer.log[answer.log.length - 1][0];
  draw_head();
  draw_tiles();
  draw_ranks();
  draw_log(answer.log);
  if (answer.whole || points.length > 0 || answer.evaluations.length > 0) draw_charts();
  return true;
}

function lost(why) {
  ++model.failures;
  const last = model.received === null ? 'no update yet' : 'last update ' + model.received.toLocaleTimeString([], {hour12: false});
  const end = model.now && model.now.state === 'finished' ? ' The run had finished.' : model.now && model.now.state === 'failed' ? ' The run had failed.' : '';
  say('lost', 'connection lost, ' + last + (why ? ' (' + why + ')' : '') + '.' + end);
  $('lost').hidden = false;
  document.title = 'lost · ' + (model.now ? model.now.run : 'dtrain');
}

async function poll() {
  let soon = false;
  try {
    const answer = await fetch('state.json?since=' + model.since + '&line=' + model.line, {cache: 'no-store', signal: AbortSignal.timeout(10000)});
    if (!answer.ok) throw new Error('status ' + answer.status);
    soon = !take(await answer.json());
    model.failures = 0;
    model.received = new Date();
    $('lost').hidden = true;
    say('updated', 'last update ' + model.received.toLocaleTimeString([], {hour12: false}) + ' ·');
  } catch (error) {
    lost(error instanceof TypeError || error.name === 'TimeoutError' ? '' : error.message);
  }
  if (document.hidden) {  // go on when the page is visible again
    document.addEventListener('visibilitychange', poll, {once: true});
    return;
  }
  setTimeout(poll, soon ? 0 : Math.min(EVERY * 2 ** Math.min(model.failures, 8), SLOWEST));
}

$('logarithmic').addEventListener('change', () => { if (model.now) draw_charts(); });
poll();
