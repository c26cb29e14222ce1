// Lines over time.

import { find, make, say } from './dom.js';
import { history, percent, short, state } from './model.js';

const color = (name) => getComputedStyle(document.body).getPropertyValue(`--${name}`).trim();

/** Fits a canvas to its size on the screen. Returns its context, or nothing if it cannot be seen. */
function prepare(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width || !height) return null;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

function trace(pen, values, x, y) {
  let down = false;
  pen.beginPath();
  values.forEach((value, at) => {
    if (value !== value) down = false;
    else if (down) pen.lineTo(x(at), y(value));
    else {
      pen.moveTo(x(at), y(value));
      down = true;
    }
  });
}

const largest = (values, least) => values.reduce((most, value) => (value > most ? value : most), least);

/** A small line without axes: the last `span` seconds. */
export function spark(canvas, name, ink, span = 120) {
  const sheet = prepare(canvas);
  if (!sheet) return;
  const { pen, width, height } = sheet;
  const { values } = history.get(name).values(span, state.second);
  const top = largest(values, 0) || 1;
  const x = (at) => (at / (values.length - 1)) * width;
  const y = (value) => height - 1.5 - (value / top) * (height - 3);
  pen.strokeStyle = color(ink);
  pen.lineWidth = 1.5;
  pen.lineJoin = 'round';
  trace(pen, values, x, y);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(0, height);
  values.forEach((value, at) => pen.lineTo(x(at), value === value ? y(value) : height));
  pen.lineTo(width, height);
  pen.globalAlpha = 0.12;
  pen.fillStyle = color(ink);
  pen.fill();
  pen.globalAlpha = 1;
}

/** A number at which an axis may end: 1, 2 or 5 with noughts. */
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((n) => n * power >= value * 0.999) * power;
}

/** A chart with axes. `series` are {label, name, ink}. */
export class Chart {
  constructor(title, unit, series) {
    this.title = title;
    this.unit = unit;
    this.share = unit === '%';
    this.series = series;
    this.at = null;
    this.canvas = make('canvas', { role: 'img' });
    this.key = make('p', { class: 'key' });
    for (const one of series) {
      one.value = make('output');
      this.key.append(make('span', { class: `ink ${one.ink}${one.dashed ? ' dashed' : ''}` }, `${one.label} `, one.value));
    }
    this.node = make('figure', { class: 'chart' },
      make('figcaption', {}, make('b', {}, title), make('span', { class: 'dim' }, ` ${unit}`), this.key), this.canvas);
    this.canvas.addEventListener('pointermove', (event) => {
      this.at = event.offsetX;
      this.paint();
    });
    this.canvas.addEventListener('pointerleave', () => {
      this.at = null;
      this.paint();
    });
  }

  paint(span = this.span ?? 120) {
    this.span = span;
    const sheet = prepare(this.canvas);
    if (!sheet) return;
    const { pen, width, height } = sheet;
    const [left, right, top, bottom] = [46, 8, 8, 18];
    const lines = this.series.map(({ name }) => history.get(name).values(span, state.second));
    const most = lines.reduce((all, { values }) => largest(values, all), 0);
    const limit = this.share ? 1 : round(most || 1);
    const n = lines[0]?.values.length ?? 2;
    const x = (at) => left + (at / (n - 1)) * (width - left - right);
    const y = (value) => height - bottom - (value / limit) * (height - top - bottom);
    pen.font = '11px system-ui, sans-serif';
    pen.lineWidth = 1;
    pen.fillStyle = color('dim');
    pen.strokeStyle = color('line');
    pen.textBaseline = 'middle';
    pen.textAlign = 'right';
    for (const part of [0, 0.5, 1]) {
      const line = Math.round(y(limit * part)) + 0.5;
      pen.beginPath();
      pen.moveTo(left, line);
      pen.lineTo(width - right, line);
      pen.stroke();
      pen.fillText(this.share ? `${100 * part} %` : short(limit * part), left - 6, line);
    }
    pen.textBaseline = 'alphabetic';
    for (const part of [0, 0.5, 1]) {
      const ago = span * (1 - part);
      pen.textAlign = part === 0 ? 'left' : part === 1 ? 'right' : 'center';
      const words = ago === 0 ? 'now' : ago < 120 ? `−${ago} s` : `−${ago / 60} min`;
      pen.fillText(words, left + part * (width - left - right), height - 4);
    }
    pen.lineJoin = 'round';
    const shown = this.at === null ? n - 1 : Math.max(0, Math.min(n - 1, Math.round(((this.at - left) / (width - left - right)) * (n - 1))));
    this.series.forEach((one, at) => {
      const { values } = lines[at];
      pen.strokeStyle = color(one.ink);
      pen.lineWidth = 1.6;
      pen.setLineDash(one.dashed ? [4, 3] : []);
      trace(pen, values, x, y);
      pen.stroke();
      const value = values[shown];
      say(one.value, value !== value ? '–' : this.share ? percent(value) : short(value));
    });
    pen.setLineDash([]);
    if (this.at !== null) {
      pen.strokeStyle = color('dim');
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(Math.round(x(shown)) + 0.5, top);
      pen.lineTo(Math.round(x(shown)) + 0.5, height - bottom);
      pen.stroke();
    }
    this.canvas.setAttribute('aria-label', `${this.title}: ${this.key.textContent}`);
  }
}

/** The page of charts. */
export class Charts {
  constructor(section) {
    this.place = find('.charts', section);
    this.charts = [];
    section.addEventListener('change', () => this.update());
    this.section = section;
  }

  /** Makes the charts that this router needs. */
  arrange() {
    const threads = state.workers.length;
    const shape = JSON.stringify([threads, state.devices.map(({ device }) => [device.device, device.direction])]);
    if (shape === this.shape) return;
    this.shape = shape;
    this.charts = [
      new Chart('Packets', 'a second', [
        { label: 'in', name: 'total in', ink: 'flow' },
        { label: 'out', name: 'total out', ink: 'good', dashed: true },
      ]),
      new Chart('Drops', 'a second', [{ label: 'dropped', name: 'total dropped', ink: 'drop' }]),
      new Chart('Packets held', '', [{ label: 'held', name: 'total held', ink: 'held' }]),
    ];
    for (let at = 0; at < threads; at++) {
      this.charts.push(new Chart(`Thread ${at}`, '%', [
        { label: 'with packets', name: `total busy ${at}`, ink: 'heat' },
        { label: 'polling', name: `total polling ${at}`, ink: 'dim', dashed: true },
      ]));
    }
    for (const name of new Set(state.devices.map(({ device }) => device.device))) {
      this.charts.push(new Chart(name, 'a second', [
        { label: 'in', name: `total ${name} in`, ink: 'flow' },
        { label: 'out', name: `total ${name} out`, ink: 'good', dashed: true },
      ]));
    }
    this.place.replaceChildren(...this.charts.map((chart) => chart.node));
  }

  update() {
    this.arrange();
    const span = Number(find('input[name=span]:checked', this.section).value);
    for (const chart of this.charts) chart.paint(span);
  }
}
