// The graph: boxes, lines, and their rates.

import { draw, find, make, say, set, style } from './dom.js';
import { ask } from './feed.js';
import { percent, short, state, whole } from './model.js';

/** More elements than this begin with their compounds folded. */
const MANY = 80;

export const compoundsOf = (name) => [...name.matchAll(/\//g)].map((slash) => name.slice(0, slash.index));

export class Graph {
  folded = null;
  boxes = [];
  lines = [];
  at = { x: 0, y: 0, scale: 1 };
  drawn = null;

  constructor(section, select) {
    this.section = section;
    this.place = find('.canvas', section);
    this.empty = find('.empty', section);
    this.menu = find('#compounds', section);
    this.tip = find('#tip');
    this.select_ = select;
    this.world = draw('g');
    this.svg = draw('svg', { role: 'group', 'aria-label': 'Elements and connections; arrow keys move along connections' }, this.world);
    this.place.append(this.svg);
    section.addEventListener('change', (event) => {
      if (event.target.name === 'colour') this.update();
      else if (event.target.value) this.fold(event.target.value, !event.target.checked);
    });
    section.addEventListener('click', (event) => {
      const { zoom, fold } = event.target.dataset;
      if (zoom === 'fit') this.fit();
      else if (zoom) this.zoom(zoom === 'in' ? 1.25 : 0.8);
      if (fold) this.refold(fold === 'all' ? new Set(this.compounds) : new Set());
    });
    document.addEventListener('click', (event) => {
      if (!this.menu.contains(event.target)) this.menu.open = false;
    });
    this.hands();
    this.keys();
    this.hover();
    // Neither a view that was hidden nor a window of another size keeps what did not fit.
    new ResizeObserver(() => {
      if (this.untouched) this.fit(true);
    }).observe(this.place);
  }

  /** Draws the graph of the router anew. */
  async load() {
    const names = new Set(state.elements.flatMap(({ element }) => compoundsOf(element.name)));
    this.compounds = [...names].sort();
    this.folded ??= new Set(state.elements.length > MANY ? this.compounds : []);
    this.folded = new Set([...this.folded].filter((name) => names.has(name)));
    const request = (this.request = {});
    // The shorter list: an address has its limit.
    const open = this.compounds.filter((name) => !this.folded.has(name));
    const most = open.length < this.folded.size;
    const query = most ? [['all', ''], ...open.map((name) => ['open', name])] : [...this.folded].map((name) => ['folded', name]);
    let answer;
    try {
      answer = await ask(`console/layout?${new URLSearchParams(query)}`);
    } catch (error) {
      if (request === this.request) this.say(`The graph cannot be drawn: ${error.message}`);
      return;
    }
    if (request !== this.request) return;
    // Another configuration may have come meanwhile; its first snapshot loads its graph.
    if (answer.generation !== state.now.generation) return;
    if (!answer.drawing) {
      this.say('This graph is too large for a picture. Fold some of its compounds.');
      return;
    }
    this.say('');
    this.render(answer.drawing);
    this.list();
    this.update();
  }

  say(text) {
    this.empty.textContent = text;
    this.empty.hidden = !text;
    if (text) this.world.replaceChildren();
    if (text) this.boxes = this.lines = [];
  }

  fold(name, folds) {
    const folded = new Set(this.folded);
    if (folds) folded.add(name);
    else for (const one of [...compoundsOf(name), name]) folded.delete(one);
    this.refold(folded);
  }

  refold(folded) {
    this.folded = folded;
    return this.load();
  }

  /** Shows an element, whatever it is folded into. */
  async locate(name) {
    const hidden = compoundsOf(name).filter((compound) => this.folded?.has(compound));
    if (hidden.length) await this.refold(new Set([...this.folded].filter((one) => !hidden.includes(one))));
    const box = this.boxes.find(({ shape }) => shape.name === name);
    if (box) this.focus(box.index);
  }

  /** The menu of compounds. */
  list() {
    this.menu.hidden = !this.compounds.length;
    find('ul', this.menu).replaceChildren(...this.compounds.map((name) => {
      const box = make('input', { type: 'checkbox', value: name });
      box.checked = ![name, ...compoundsOf(name)].some((one) => this.folded.has(one));
      const item = make('li', {}, make('label', {}, box, ' ', make('span', {}, name)));
      item.style.paddingLeft = `${compoundsOf(name).length}em`;
      return item;
    }));
  }

  render(drawing) {
    const focus = this.boxes[this.current]?.shape.name;
    this.lines = drawing.lines.map((line) => {
      const stroke = draw('path', { d: line.path, class: 'stroke' });
      const text = draw('text', { 'text-anchor': 'middle' });
      const node = draw('g', { class: 'wire' }, draw('path', { d: line.path, class: 'reach' }), stroke, text);
      return { line, node, stroke, text };
    });
    this.boxes = drawing.boxes.map((shape, index) => {
      const { x, y, width, height } = shape;
      const middle = width / 2;
      const port = (side) => ({ x: at, kind }) => side === 'in'
        ? draw('path', { d: `M${at - 4.5} 0h9l-4.5 6.75z`, class: `port ${kind}` })
        : draw('rect', { x: at - 4.5, y: height - 4.5, width: 9, height: 4.5, class: `port ${kind}` });
      const fits = (text, letter) => {
        const most = Math.floor((width - 12) / letter);
        return text.length > most ? `${text.slice(0, most - 1)}…` : text;
      };
      const frame = draw('rect', { width, height, rx: 5, class: 'frame' });
      const drops = draw('text', { x: middle + 9, y: -4, class: 'badge' });
      const fill = draw('rect', { x: 1.5, y: height - 3, width: width - 3, height: 3, class: 'fill' });
      const node = draw('g', {
        class: shape.element === null ? 'box compound' : 'box', transform: `translate(${x} ${y})`, tabindex: -1, role: 'button', 'data-name': shape.name,
      },
      shape.element === null ? draw('rect', { x: 4, y: 4, width, height, rx: 5, class: 'frame shade' }) : null,
      frame, fill,
      draw('text', { x: middle, y: shape.detail ? 19 : 26, 'text-anchor': 'middle', class: 'title' }, fits(shape.title, 7)),
      draw('text', { x: middle, y: 33, 'text-anchor': 'middle', class: 'detail' }, shape.detail ? fits(shape.detail, 5.8) : ''),
      ...shape.inputs.map(port('in')), ...shape.outputs.map(port('out')), drops);
      return { shape, index, node, frame, fill, drops };
    });
    this.world.replaceChildren(...this.lines.map(({ node }) => node), ...this.boxes.map(({ node }) => node));
    for (const one of this.lines) {
      const length = one.stroke.getTotalLength();
      const point = one.stroke.getPointAtLength(length < 120 ? length / 2 : length - 22);
      one.text.setAttribute('x', point.x);
      one.text.setAttribute('y', point.y + 3.5);
    }
    const members = new Map(this.boxes.map((box) => [box.shape.name, box]));
    for (const box of this.boxes) box.members = [];
    state.elements.forEach((view, id) => {
      const name = view.element.name;
      const outer = compoundsOf(name).find((compound) => this.folded.has(compound));
      members.get(outer ?? name)?.members.push(id);
    });
    this.current = Math.max(0, this.boxes.findIndex(({ shape }) => shape.name === focus));
    this.boxes[this.current]?.node.setAttribute('tabindex', 0);
    const size = `${drawing.width} ${drawing.height}`;
    if (this.drawn !== size) {
      this.drawn = size;
      this.size = drawing;
      this.fit(true);
    }
    this.mark();
  }

  /** The sums over a box. */
  sums(box) {
    const sum = { load: 0, drops: 0, packets: 0, fill: null, idle: true };
    for (const id of box.members) {
      const view = state.elements[id];
      if (!view) continue;
      sum.load += view.load;
      sum.drops += view.drops;
      sum.packets = Math.max(sum.packets, view.in, view.out);
      if (view.fill !== null) sum.fill = Math.max(sum.fill ?? 0, view.fill);
    }
    return sum;
  }

  update() {
    if (!this.boxes.length) return;
    const by = find('input[name=colour]:checked', this.section).value;
    const sums = this.boxes.map((box) => this.sums(box));
    const most = Math.max(...sums.map((sum) => (by === 'cycles' ? sum.load : sum.drops)));
    set(this.world, 'class', by);
    this.boxes.forEach((box, at) => {
      const sum = sums[at];
      const share = most ? (by === 'cycles' ? sum.load : sum.drops) / most : 0;
      // In steps, so that small changes repaint nothing.
      style(box.frame, '--share', `${share > 0.002 ? Math.round((8 + 72 * Math.sqrt(share)) / 4) * 4 : 0}%`);
      style(box.fill, 'transform', `scaleX(${sum.fill === null ? 0 : Math.round(sum.fill * 50) / 50})`);
      set(box.node, 'data-idle', sum.packets ? null : '');
      say(box.drops, sum.drops ? `▼ ${short(sum.drops)}/s` : '');
    });
    for (const { line, node, stroke, text } of this.lines) {
      const rates = line.connections.map((at) => state.lines[at]).filter((rate) => rate !== null && rate !== undefined);
      const known = rates.length > 0;
      const rate = rates.reduce((all, one) => all + one, 0);
      set(node, 'class', `wire${!known ? ' unknown' : rate ? ' flows' : ''}`);
      style(stroke, 'stroke-width', `${rate ? Math.min(6, 1.2 + Math.max(0, Math.log10(rate)) * 0.6).toFixed(1) : 1.2}px`);
      say(text, rate ? short(rate) : '');
    }
    if (this.over) this.explain(this.over);
  }

  select(name) {
    this.selected = name;
    this.mark();
  }

  /** Marks the selected box, and the lines at it. */
  mark() {
    const selected = this.boxes.findIndex(({ shape }) => shape.name === this.selected);
    this.boxes.forEach(({ node }, at) => node.setAttribute('aria-pressed', at === selected));
    this.lines.forEach(({ node, line }) => {
      node.toggleAttribute('data-near', selected >= 0 && (line.from === selected || line.to === selected));
    });
  }

  // Where it is looked at.

  move() {
    const { x, y, scale } = this.at;
    this.world.setAttribute('transform', `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${scale.toFixed(3)})`);
    this.svg.classList.toggle('far', scale < 0.5);
  }

  /** Shows all of it; if `readable`, as much as can be read. */
  fit(readable = false) {
    const { clientWidth, clientHeight } = this.place;
    if (!clientWidth || !this.size) return;
    const { width, height } = this.size;
    const across = (clientWidth - 16) / width;
    const all = Math.max(0.05, Math.min(1.15, across, (clientHeight - 16) / height));
    const scale = readable ? Math.max(all, Math.min(0.85, Math.max(across, 0.4))) : all;
    this.at = { scale, x: (clientWidth - width * scale) / 2, y: Math.max(0, (clientHeight - height * scale) / 2) };
    this.untouched = readable;
    this.move();
  }

  zoom(factor, x = this.place.clientWidth / 2, y = this.place.clientHeight / 2) {
    const scale = Math.max(0.05, Math.min(3, this.at.scale * factor));
    const ratio = scale / this.at.scale;
    this.at = { scale, x: x - (x - this.at.x) * ratio, y: y - (y - this.at.y) * ratio };
    this.untouched = false;
    this.move();
  }

  hands() {
    const fingers = new Map();
    let moved = 0;
    this.svg.addEventListener('wheel', (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
    }, { passive: false });
    this.svg.addEventListener('pointerdown', (event) => {
      if (event.button) return;
      fingers.set(event.pointerId, event);
      moved = 0;
    });
    this.svg.addEventListener('pointermove', (event) => {
      const last = fingers.get(event.pointerId);
      if (!last) return;
      const [dx, dy] = [event.clientX - last.clientX, event.clientY - last.clientY];
      moved += Math.abs(dx) + Math.abs(dy);
      if (moved < 5) return;
      this.svg.setPointerCapture(event.pointerId);
      this.tip.hidden = true;
      this.untouched = false;
      const other = [...fingers.values()].find((finger) => finger.pointerId !== event.pointerId);
      if (other) {
        const apart = (finger) => Math.hypot(finger.clientX - other.clientX, finger.clientY - other.clientY) || 1;
        const place = this.svg.getBoundingClientRect();
        this.zoom(apart(event) / apart(last), (event.clientX + other.clientX) / 2 - place.x, (event.clientY + other.clientY) / 2 - place.y);
      } else {
        this.at.x += dx;
        this.at.y += dy;
        this.move();
      }
      fingers.set(event.pointerId, event);
    });
    for (const end of ['pointerup', 'pointercancel']) {
      this.svg.addEventListener(end, (event) => fingers.delete(event.pointerId));
    }
    this.svg.addEventListener('click', (event) => {
      const box = this.boxAt(event.target);
      if (moved < 5) this.select_(box ? box.shape.name : null);
    });
    this.svg.addEventListener('dblclick', (event) => {
      const box = this.boxAt(event.target);
      if (box?.shape.element === null) this.fold(box.shape.name, false);
    });
  }

  boxAt(target) {
    const node = target.closest('.box');
    return node && this.boxes.find((box) => box.node === node);
  }

  keys() {
    const near = (box, key) => {
      const lines = this.lines.map(({ line }) => line);
      if (key === 'ArrowDown') return lines.find((line) => line.from === box.index && line.to !== box.index)?.to;
      if (key === 'ArrowUp') return lines.find((line) => line.to === box.index && line.from !== box.index)?.from;
      const row = this.boxes.filter(({ shape }) => shape.y === box.shape.y).sort((a, b) => a.shape.x - b.shape.x);
      return row[row.indexOf(box) + (key === 'ArrowRight' ? 1 : -1)]?.index;
    };
    this.svg.addEventListener('keydown', (event) => {
      const box = this.boxAt(event.target);
      if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === 'Enter' || event.key === ' ') this.select_(box.shape.name);
      else if (event.key === '+') this.zoom(1.25);
      else if (event.key === '-') this.zoom(0.8);
      else if (event.key === '0') this.fit();
      else if (event.key.startsWith('Arrow')) {
        const next = near(box, event.key);
        if (next !== undefined) this.focus(next);
      } else return;
      event.preventDefault();
    });
  }

  focus(index) {
    this.boxes[this.current]?.node.setAttribute('tabindex', -1);
    this.current = index;
    const { node, shape } = this.boxes[index];
    node.setAttribute('tabindex', 0);
    node.focus({ preventScroll: true });
    this.show(shape);
  }

  /** Moves so that a box can be seen. */
  show(shape) {
    const { clientWidth: width, clientHeight: height } = this.place;
    const { scale } = this.at;
    const [x, y] = [this.at.x + shape.x * scale, this.at.y + shape.y * scale];
    if (x < 20) this.at.x += 40 - x;
    if (x + shape.width * scale > width - 20) this.at.x -= x + shape.width * scale - width + 40;
    if (y < 20) this.at.y += 60 - y;
    if (y + shape.height * scale > height - 20) this.at.y -= y + shape.height * scale - height + 60;
    this.move();
  }

  // What is under the pointer.

  hover() {
    const over = (event) => {
      if (event.pointerType === 'touch' || event.buttons) return;
      const box = this.boxAt(event.target);
      const node = event.target.closest('.wire');
      this.over = box ?? (node && this.lines.find((line) => line.node === node));
      this.tip.hidden = !this.over;
      if (!this.over) return;
      this.explain(this.over);
      const { offsetWidth: width, offsetHeight: height } = this.tip;
      this.tip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 8)}px`;
      this.tip.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 12 : event.clientY + 18}px`;
    };
    this.svg.addEventListener('pointermove', over);
    this.svg.addEventListener('pointerleave', () => {
      this.over = null;
      this.tip.hidden = true;
    });
  }

  explain(thing) {
    const rows = [];
    let title;
    if (thing.line) {
      const ends = thing.line.connections.map((at) => state.now.connections[at]).filter(Boolean);
      const name = (id) => state.now.elements[id]?.name ?? '';
      title = ends.length === 1
        ? `${name(ends[0].from)} [${ends[0].from_port}] → [${ends[0].to_port}] ${name(ends[0].to)}`
        : `${this.boxes[thing.line.from].shape.name} → ${this.boxes[thing.line.to].shape.name}, ${ends.length} connections`;
      const known = ends.filter((end) => end.packets !== null);
      const sum = (values) => values.reduce((all, one) => all + one, 0);
      rows.push(['packets/s', known.length ? short(sum(thing.line.connections.map((at) => state.lines[at] ?? 0))) : 'not counted']);
      if (known.length) rows.push(['packets', whole(sum(known.map((end) => end.packets)))]);
    } else {
      const { shape } = thing;
      title = shape.element === null ? `${shape.name}: ${shape.detail}` : `${shape.name} :: ${state.elements[shape.element]?.element.class}`;
      const sum = this.sums(thing);
      const view = state.elements[shape.element];
      rows.push(['packets/s', short(sum.packets)]);
      if (view && view.cost !== null) rows.push(['cycles/packet', short(view.cost)]);
      rows.push(['load', percent(sum.load)]);
      if (sum.fill !== null) rows.push(['fill', percent(sum.fill)]);
      if (sum.drops) rows.push(['drops/s', short(sum.drops)]);
    }
    this.tip.replaceChildren(make('b', {}, title), make('dl', {}, ...rows.flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, value)])));
  }
}
