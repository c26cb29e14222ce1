// From counts to rates, and the history of the rates.

const FINE = 600;
const COARSE = 360;
const STEP = 10;

/** A value a second for ten minutes, and means of ten seconds for an hour. */
export class Ring {
  fine = new Float32Array(FINE).fill(NaN);
  coarse = new Float32Array(COARSE).fill(NaN);
  last = -1;
  sum = 0;
  n = 0;

  push(second, value) {
    if (this.last >= 0) {
      // A moment without news is filled, a long one is a gap.
      const gap = second - this.last > 3 ? NaN : value;
      for (let at = Math.max(this.last + 1, second - FINE); at < second; at++) this.put(at, gap);
    }
    this.put(second, value);
    this.last = second;
  }

  put(second, value) {
    this.fine[second % FINE] = value;
    if (second % STEP === 0) {
      this.sum = this.n = 0;
      this.coarse[(second / STEP) % COARSE] = NaN;
    }
    if (value === value) {
      this.sum += value;
      this.n++;
      this.coarse[Math.floor(second / STEP) % COARSE] = this.sum / this.n;
    }
  }

  /** The values of the last `span` seconds until `now`, the oldest first, and the seconds between two. */
  values(span, now) {
    const step = span > FINE ? STEP : 1;
    const n = span / step;
    const end = Math.floor(now / step);
    const [ring, last] = step === 1 ? [this.fine, this.last] : [this.coarse, Math.floor(this.last / step)];
    const values = new Float32Array(n);
    for (let i = 0; i < n; i++) {
      const at = end - n + 1 + i;
      values[i] = at > last || at <= last - ring.length || at < 0 ? NaN : ring[at % ring.length];
    }
    return { values, step };
  }
}

/** Rings by name; those of one that is gone stay until there are too many. */
class Book {
  rings = new Map();
  get(name) {
    let ring = this.rings.get(name);
    if (!ring) {
      if (this.rings.size > 20000) this.rings.clear();
      this.rings.set(name, (ring = new Ring()));
    }
    return ring;
  }
}

export const history = new Book();

const difference = (now, then, name) => Math.max(0, now[name] - then[name]) || 0;

/** The state that views show: a snapshot, the one before it, and the rates between both. */
export const state = { now: null, second: 0, elements: [], lines: [], totals: null, workers: [], devices: [] };

/** A clock that is never set back. */
const clock = () => Math.floor((performance.timeOrigin + performance.now()) / 1000);

/** Takes a snapshot in. Returns what changed besides the figures: 'router', 'graph' or nothing. */
export function take(now) {
  let before = state.now;
  const restarted = !before || before.pid !== now.pid || now.seconds < before.seconds;
  const swapped = restarted || before.generation !== now.generation || before.elements.length !== now.elements.length;
  if (restarted) before = null;
  const seconds = before ? now.seconds - before.seconds : 0;
  if (before && seconds < 0.05) return null;
  const per = (value) => (seconds ? value / seconds : 0);
  state.now = now;
  state.second = clock();
  const cycles = (worker) => worker.busy_cycles + worker.polling_cycles + worker.idle_cycles;

  state.workers = now.workers.map((worker, at) => {
    const then = before?.workers[at];
    const all = then ? cycles(worker) - cycles(then) : 0;
    const share = (name) => (all > 0 ? difference(worker, then, name) / all : 0);
    return { worker, all, busy: share('busy_cycles'), polling: share('polling_cycles') };
  });
  const hertz = Math.max(0, ...state.workers.map((worker) => worker.all));

  const earlier = swapped && before ? new Map(before.elements.map((e) => [`${e.name} ${e.class}`, e])) : null;
  const reuse = !swapped && state.elements.length === now.elements.length;
  const elements = reuse ? state.elements : now.elements.map(() => ({}));
  now.elements.forEach((element, at) => {
    const then = earlier ? earlier.get(`${element.name} ${element.class}`) : before?.elements[at];
    const view = elements[at];
    const d = (name) => (then ? difference(element, then, name) : 0);
    const [entered, left, spent, batches] = [d('in'), d('out'), d('cycles'), d('batches')];
    const packets = Math.max(entered, left);
    view.element = element;
    view.in = per(entered);
    view.out = per(left);
    view.drops = per(d('dropped'));
    view.bits = element.bytes === null || !then ? null : per(8 * d('bytes'));
    view.cost = spent && packets ? spent / packets : null;
    view.load = hertz ? spent / hertz : 0;
    view.polling = hertz ? d('polling_cycles') / hertz : 0;
    view.batch = batches ? d('received') / batches : null;
    view.fill = element.queue?.capacity ? element.queue.length / element.queue.capacity : null;
    view.reasons = element.drops;
    view.lately = then ? then.drops : {};
    view.seconds = seconds;
    if (seconds) {
      const keep = (what, value) => history.get(`${what} ${element.name}`).push(state.second, value);
      keep('packets', Math.max(view.in, view.out));
      keep('drops', view.drops);
      keep('load', view.load);
    }
  });
  state.elements = elements;

  const same = before && !swapped && before.connections.length === now.connections.length;
  state.lines = now.connections.map((line, at) => {
    const then = same ? before.connections[at].packets : null;
    return line.packets === null ? null : then === null ? 0 : per(Math.max(0, line.packets - then));
  });
  state.devices = now.devices.map((device) => {
    const then = before?.devices.find((d) => d.device === device.device && d.direction === device.direction);
    const rate = (name) => (then ? per(difference(device, then, name)) : 0);
    return { device, packets: rate('packets'), bits: 8 * rate('bytes'), lost: rate('lost') };
  });
  const total = (name) => (before ? per(difference(now.totals, before.totals, name)) : 0);
  state.totals = { in: total('in'), out: total('out'), dropped: total('dropped'), held: now.totals.held };
  if (seconds) {
    const keep = (name, value) => history.get(`total ${name}`).push(state.second, value);
    for (const [name, value] of Object.entries(state.totals)) keep(name, value);
    state.workers.forEach(({ busy, polling }, at) => {
      keep(`busy ${at}`, busy);
      keep(`polling ${at}`, polling);
    });
    for (const { device, packets } of state.devices) keep(`${device.device} ${device.direction}`, packets);
  }
  return restarted ? 'router' : swapped ? 'graph' : null;
}

const UNITS = ['', ' k', ' M', ' G', ' T'];

/** A number in three digits. */
export function short(value) {
  if (value === null || value === undefined || value !== value) return '–';
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  const digits = value >= 99.95 || (unit === 0 && Number.isInteger(value)) ? 0 : value >= 9.995 ? 1 : 2;
  return value.toFixed(unit === 0 && value < 10 ? Math.min(digits, 1) : digits) + UNITS[unit];
}

export const whole = (value) => (value === null ? '–' : value.toLocaleString('en-US').replaceAll(',', '\u202f'));
export const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
export const duration = (seconds) => {
  const s = Math.floor(seconds);
  const two = (n) => String(n).padStart(2, '0');
  const clock = `${Math.floor((s % 86400) / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return s >= 86400 ? `${Math.floor(s / 86400)} d ${clock}` : clock;
};
