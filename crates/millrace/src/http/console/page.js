// The page of one element, of a compound, or of the router.

import { find, make, say, set, style } from './dom.js';
import { Chart } from './charts.js';
import { element, ask, hasToken, read, write } from './feed.js';
import { compoundsOf } from './graph.js';
import { duration, percent, short, state, whole } from './model.js';
import { manual } from './text.js';

const figures = (rows) => {
  const values = {};
  const list = make('dl', { class: 'figures' });
  for (const [key, label] of rows) {
    values[key] = make('dd');
    list.append(make('dt', {}, label), values[key]);
  }
  return [list, values];
};

/** A part of a page that can be closed. */
const part = (title, open, ...nodes) => make('details', { open }, make('summary', {}, make('h3', {}, title)), ...nodes);

export class Page {
  what = null;

  constructor(node, desk) {
    this.node = node;
    this.desk = desk;
    node.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') desk.select(null);
    });
  }

  /** Shows an element or a compound by its name, the router for an empty name, nothing for null. */
  async show(name, again = false) {
    if (name === this.name && !again) return;
    this.name = name;
    this.live = null;
    this.node.hidden = name === null;
    if (name === null) return;
    const view = state.elements.find((one) => one.element.name === name);
    const members = view ? [] : state.elements.filter((one) => one.element.name.startsWith(`${name}/`));
    this.head(name || 'The router', view?.element.class ?? (name === '' ? state.now.program : members.length ? 'compound' : ''));
    if (name === '') await this.router();
    else if (view) await this.element(view);
    else if (members.length) this.compound(name, members.map((one) => one.element.name));
    else this.body.append(make('p', {}, 'This router has no such element.'));
    this.node.scrollTop = 0;
  }

  head(title, kind) {
    const close = make('button', { class: 'close', 'aria-label': 'Close', onclick: () => this.desk.select(null) }, '×');
    this.body = make('div');
    this.node.replaceChildren(make('div', { class: 'head' }, make('h2', {}, title), close, make('p', { class: 'dim' }, kind)), this.body);
  }

  /** Whether what was asked for still is to be shown. */
  asked(name) {
    return name === this.name;
  }

  async element(view) {
    const { name, landmark } = view.element;
    const folds = compoundsOf(name).map((compound) =>
      make('button', { onclick: () => this.desk.fold(compound) }, `Fold ${compound}`));
    const line = Number(/:(\d+)$/.exec(landmark)?.[1]);
    const where = make('p', { class: 'links' },
      make('button', { onclick: () => this.desk.line(line) }, landmark),
      make('button', { onclick: () => this.desk.locate(name) }, 'Show in graph'), ...folds);
    const [list, values] = figures([
      ['in', 'In'], ['out', 'Out'], ['bits', 'Bits'], ['cost', 'Cycles a packet'], ['load', 'Load'], ['polling', 'Polling'],
      ['batch', 'Batch'], ['held', 'Held'], ['since', 'Since the start'],
    ]);
    const meter = make('div', { class: 'meter', role: 'meter', 'aria-label': 'Queue', 'aria-valuemin': 0, 'aria-valuemax': 100 }, make('i'));
    const charts = [
      new Chart('Packets', 'a second', [{ label: '', name: `packets ${name}`, ink: 'flow' }]),
      new Chart('Drops', 'a second', [{ label: '', name: `drops ${name}`, ink: 'drop' }]),
    ];
    const drops = make('table', { class: 'drops' });
    const dropped = part('Drops by reason', true, drops);
    const links = make('table', { class: 'ends' });
    this.body.append(where, list, meter, ...charts.map((chart) => chart.node), dropped, part('Connections', true, links));
    this.live = () => {
      const now = state.elements.find((one) => one.element.name === name);
      if (!now) return;
      const { element: e } = now;
      say(values.in, `${short(now.in)}/s`);
      say(values.out, `${short(now.out)}/s`);
      say(values.bits, now.bits === null ? '–' : `${short(now.bits)}bit/s`.replace(/(\d)bit/, '$1 bit'));
      say(values.cost, short(now.cost));
      say(values.load, percent(now.load));
      say(values.polling, percent(now.polling));
      say(values.batch, short(now.batch));
      say(values.held, e.queue ? `${whole(e.queue.length)} of ${whole(e.queue.capacity)}` : whole(e.held));
      say(values.since, `${whole(e.in)} in, ${whole(e.out)} out`);
      meter.hidden = now.fill === null;
      set(meter, 'aria-valuenow', Math.round(100 * (now.fill ?? 0)));
      style(meter.firstChild, 'width', percent(now.fill ?? 0).replace(' ', ''));
      for (const chart of charts) chart.paint(600);
      charts[1].node.hidden = !e.dropped;
      charts[0].paint(600);
      const reasons = Object.entries(e.drops);
      dropped.hidden = !reasons.length;
      rows(drops, reasons.map(([reason, count]) => {
        const since = now.seconds ? (count - (now.lately[reason] ?? 0)) / now.seconds : 0;
        return [reason, `${short(Math.max(0, since))}/s`, whole(count)];
      }));
      rows(links, state.now.connections.flatMap((end, at) => {
        const rate = state.lines[at];
        const words = rate === null ? '–' : `${short(rate)}/s`;
        const other = (id) => ({ go: state.now.elements[id].name });
        const found = [];
        if (end.to === e.id) found.push([`[${end.to_port}] from`, other(end.from), `[${end.from_port}]`, words]);
        if (end.from === e.id) found.push([`[${end.from_port}] to`, other(end.to), `[${end.to_port}]`, words]);
        return found;
      }), this.desk.select);
    };
    this.live();
    let page;
    try {
      page = await element(name);
    } catch (error) {
      if (this.asked(name)) this.body.append(make('p', { class: 'wrong' }, error.message));
      return;
    }
    if (!this.asked(name)) return;
    if (page.config) this.body.append(part('Arguments', true, make('pre', {}, page.config)));
    this.body.append(this.handlers(page.handlers, `${name}.`));
    const threads = page.on_threads ?? [];
    if (threads.length) where.append(make('span', { class: 'dim' }, `thread${threads.length > 1 ? 's' : ''} ${threads.join(', ')}`));
    if (page.manual) this.body.append(part('Manual', false, make('div', { class: 'manual' }, ...manual(page.manual))));
  }

  compound(name, names) {
    const [list, values] = figures([['n', 'Elements'], ['load', 'Load'], ['drops', 'Drops'], ['held', 'Held'], ['dropped', 'Dropped']]);
    const members = make('table', { class: 'ends' });
    const unfold = this.desk.isFolded(name);
    this.body.append(
      make('p', { class: 'links' }, make('button', { onclick: () => this.desk.fold(name, !unfold) }, unfold ? 'Unfold' : 'Fold')),
      list, part('Elements', true, members));
    const within = new Set(names);
    this.live = () => {
      const views = state.elements.filter((one) => within.has(one.element.name));
      const sum = (of) => views.reduce((all, one) => all + of(one), 0);
      say(values.n, whole(views.length));
      say(values.load, percent(sum((one) => one.load)));
      say(values.drops, `${short(sum((one) => one.drops))}/s`);
      say(values.held, whole(sum((one) => one.element.held)));
      say(values.dropped, whole(sum((one) => one.element.dropped)));
      rows(members, views.map((one) => [{ go: one.element.name }, one.element.class, `${short(Math.max(one.in, one.out))}/s`]), this.desk.select);
    };
    this.live();
  }

  async router() {
    const [list, values] = figures([['pid', 'Process'], ['phase', 'Phase'], ['up', 'Runs for'], ['generation', 'Configurations before'],
      ['in', 'In'], ['out', 'Out'], ['dropped', 'Dropped'], ['held', 'Held']]);
    const threads = make('table', { class: 'ends' });
    const devices = make('table', { class: 'ends' });
    const drops = make('table', { class: 'drops' });
    this.body.append(list, part('Threads', true, threads));
    const dropped = part('Drops by reason', true, drops);
    const traffic = part('Devices', true, devices);
    this.body.append(traffic, dropped);
    this.live = () => {
      const { now } = state;
      say(values.pid, String(now.pid));
      say(values.phase, now.phase);
      say(values.up, duration(now.seconds) + (now.virtual_seconds === null ? '' : `, ${duration(now.virtual_seconds)} of virtual time`));
      say(values.generation, String(now.generation));
      for (const name of ['in', 'out', 'dropped', 'held']) say(values[name], whole(now.totals[name]));
      rows(threads, state.workers.map(({ worker, busy, polling }) => [
        `${worker.thread}`, worker.cores.length ? `core${worker.cores.length > 1 ? 's' : ''} ${worker.cores.join(', ')}` : 'any core',
        `${percent(busy)} with packets`, `${percent(polling)} polling`]));
      traffic.hidden = !state.devices.length;
      rows(devices, state.devices.map(({ device, packets, bits, lost }) => [
        device.device, device.direction, `${short(packets)}/s`, `${short(bits)}bit/s`, device.lost ? `${whole(device.lost)} lost` : '', device.backend]));
      const reasons = new Map();
      for (const { element: e, lately, seconds } of state.elements) {
        for (const [reason, count] of Object.entries(e.drops)) {
          const [rate, all] = reasons.get(reason) ?? [0, 0];
          reasons.set(reason, [rate + (seconds ? Math.max(0, count - (lately[reason] ?? 0)) / seconds : 0), all + count]);
        }
      }
      dropped.hidden = !reasons.size;
      rows(drops, [...reasons].map(([reason, [rate, all]]) => [reason, `${short(rate)}/s`, whole(all)]));
    };
    this.live();
    const { handlers } = await ask('api/v1/handlers');
    if (this.asked('')) this.body.append(this.handlers(handlers, ''));
  }

  handlers(all, prefix) {
    const list = all.map(({ name, readable, writable }) => {
      const value = make('pre', { tabindex: 0 });
      const said = make('p', { role: 'status' });
      const fetchIt = async () => {
        try {
          const text = await read(prefix + name);
          value.textContent = text.length > 200000 ? `${text.slice(0, 200000)}…` : text || ' ';
          value.classList.remove('wrong');
        } catch (error) {
          value.textContent = error.message;
          value.classList.add('wrong');
        }
      };
      const input = make('input', { type: 'text', 'aria-label': `New value of ${name}`, spellcheck: 'false', autocomplete: 'off' });
      const send = async (event) => {
        event.preventDefault();
        try {
          const { warnings } = await write(prefix + name, input.value);
          said.textContent = ['Written.', ...(warnings ?? [])].join(' ');
          said.className = '';
          if (readable) await fetchIt();
        } catch (error) {
          said.textContent = error.message;
          said.className = 'wrong';
        }
      };
      const body = [];
      if (readable) body.push(value, make('button', { onclick: fetchIt }, 'Read again'));
      if (writable) body.push(make('form', { class: 'writes', onsubmit: send }, input, make('button', {}, 'Write')), said);
      const node = make('details', { class: 'handler' }, make('summary', {}, name,
        make('span', { class: 'dim' }, [readable && 'read', writable && 'write'].filter(Boolean).join(', '))), ...body);
      node.addEventListener('toggle', () => {
        if (node.open && readable) fetchIt();
      });
      return node;
    });
    const hint = all.some(({ writable }) => writable)
      ? make('p', { class: 'hint' }, make('button', { onclick: () => this.desk.unlock() }, 'Enter the token'), ' to write.') : null;
    const node = part('Handlers', true, hint, ...list);
    node.classList.add('handlers');
    this.lock();
    return node;
  }

  /** Shows what can be written, if there is a token. */
  lock() {
    document.body.toggleAttribute('data-writes', hasToken());
  }

  update() {
    this.live?.();
  }
}

/** Fills a table with rows of texts; `{go}` is the name of an element that can be gone to. */
function rows(table, wanted, select) {
  while (table.rows.length > wanted.length) table.deleteRow(-1);
  wanted.forEach((texts, at) => {
    const row = table.rows[at] ?? table.insertRow();
    texts.forEach((text, column) => {
      const cell = row.cells[column] ?? row.insertCell();
      if (text.go === undefined) return say(cell, text);
      if (cell.goes !== text.go) {
        cell.goes = text.go;
        cell.replaceChildren(make('button', { class: 'name', onclick: () => select(text.go) }, text.go));
      }
    });
  });
}
