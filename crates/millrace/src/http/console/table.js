// The table of elements. Only the rows on the screen exist.

import { every, find, make, say, set, style } from './dom.js';
import { percent, short, state, whole } from './model.js';

const ROW = 28;

/** Title, explanation, value to sort by, text. */
const COLUMNS = [
  ['Element', 'Name', (v) => v.element.name, (v) => v.element.name],
  ['Class', 'Class', (v) => v.element.class, (v) => v.element.class],
  ['Packets/s', 'Packets that came or left, whichever is more', (v) => Math.max(v.in, v.out), (v, n) => short(n)],
  ['Bits/s', 'If the element counts bytes', (v) => v.bits ?? -1, (v) => short(v.bits)],
  ['Cycles/pkt', 'Cycles a packet, without polling', (v) => v.cost ?? -1, (v) => short(v.cost)],
  ['Load', 'Share of a thread, with packets', (v) => v.load, (v, n) => percent(n)],
  ['Polling', 'Share of a thread that looks for packets in vain', (v) => v.polling, (v, n) => percent(n)],
  ['Batch', 'Packets a batch', (v) => v.batch ?? -1, (v) => short(v.batch)],
  ['Held', 'Packets in it now', (v) => v.element.held, (v, n) => (v.element.queue ? `${whole(v.element.queue.length)} / ${whole(v.element.queue.capacity)}` : n ? whole(n) : '–')],
  ['Drops/s', 'Packets dropped a second', (v) => v.drops, (v, n) => short(n)],
  ['Drops', 'Packets dropped since the start', (v) => v.element.dropped, (v, n) => whole(n)],
];

export class Table {
  sort = 2;
  down = true;
  rows = [];
  shown = [];

  constructor(section, select) {
    this.scroll = find('.scroll', section);
    this.body = find('tbody', section);
    this.search = find('input[type=search]', section);
    this.busy = find('#busy', section);
    this.count = find('output', section);
    this.table = find('table', section);
    this.above = make('tr', { class: 'gap', 'aria-hidden': 'true' }, make('td', { colspan: COLUMNS.length }));
    this.below = this.above.cloneNode(true);
    this.body.append(this.above, this.below);
    const head = find('thead tr', section);
    COLUMNS.forEach(([title, why], at) => {
      const button = make('button', { title: why, onclick: () => this.order(at) }, title);
      head.append(make('th', { scope: 'col', class: at < 2 ? null : 'number' }, button));
    });
    this.heads = every('th', head);
    this.scroll.addEventListener('scroll', () => this.fill(), { passive: true });
    for (const control of [this.search, this.busy]) control.addEventListener('input', () => this.update());
    this.body.addEventListener('click', (event) => {
      const row = event.target.closest('tr');
      if (row?.view) select(row.view.element.name);
    });
    addEventListener('resize', () => this.fill());
  }

  order(at) {
    this.down = this.sort === at ? !this.down : at >= 2;
    this.sort = at;
    this.update();
  }

  update() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = ({ element }) => {
      if (!words.length) return true;
      const text = `${element.name} ${element.class} ${Object.keys(element.drops).join(' ')}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const key = COLUMNS[this.sort][2];
    const side = this.down ? -1 : 1;
    this.shown = state.elements
      .filter((view) => (!this.busy.checked || view.in || view.out || view.drops) && fits(view))
      .map((view) => [key(view), view])
      .sort(([a, x], [b, y]) => (a < b ? -side : a > b ? side : x.element.id - y.element.id))
      .map(([, view]) => view);
    this.heads.forEach((head, at) => {
      set(head, 'aria-sort', at !== this.sort ? null : this.down ? 'descending' : 'ascending');
    });
    say(this.count, `${this.shown.length} of ${state.elements.length}`);
    set(this.table, 'aria-rowcount', this.shown.length + 1);
    this.fill();
  }

  /** Writes the rows on the screen. */
  fill() {
    const high = this.scroll.clientHeight;
    if (!high) return;
    const first = Math.max(0, Math.min(Math.floor(this.scroll.scrollTop / ROW) - 4, this.shown.length));
    const n = Math.min(Math.ceil(high / ROW) + 8, this.shown.length - first);
    while (this.rows.length < n) {
      const name = make('button', { class: 'name' });
      const cells = COLUMNS.map((_, at) => make('td', { class: at < 2 ? null : 'number' }, at ? null : name));
      const row = make('tr', {}, ...cells);
      row.cells_ = [name, ...cells.slice(1)];
      this.rows.push(row);
      this.below.before(row);
    }
    while (this.rows.length > n) this.rows.pop().remove();
    style(this.above, 'height', `${first * ROW}px`);
    style(this.below, 'height', `${(this.shown.length - first - n) * ROW}px`);
    this.rows.forEach((row, at) => {
      const view = this.shown[first + at];
      row.view = view;
      set(row, 'aria-rowindex', first + at + 2);
      set(row, 'class', [view.in || view.out ? '' : 'idle', view.drops ? 'drops' : '', view.element.name === this.selected ? 'selected' : ''].join(' ').trim() || null);
      COLUMNS.forEach(([, , value, text], column) => say(row.cells_[column], text(view, value(view))));
      set(row.cells_[0], 'title', view.element.name);
      style(row, '--load', `${Math.min(100, Math.round(view.load * 100))}%`);
    });
  }

  select(name) {
    this.selected = name;
    this.fill();
  }
}
