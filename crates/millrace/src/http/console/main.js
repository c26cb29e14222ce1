// The page: what comes in, and who shows it.

import { Charts, spark } from './charts.js';
import { every, find, make, say, set, style } from './dom.js';
import { ask, follow, hasToken, useToken } from './feed.js';
import { Graph } from './graph.js';
import { duration, percent, short, state, take } from './model.js';
import { Page } from './page.js';
import { Table } from './table.js';
import { configuration } from './text.js';

const VIEWS = ['graph', 'elements', 'history', 'configuration'];
let view = 'graph';
let selected = null;
let known = null;

const go = (to, name = selected) => {
  location.hash = name === null ? to : `${to}/${encodeURIComponent(name)}`;
};

const desk = {
  select: (name) => go(view, name),
  fold: (name, folds = true) => {
    graph.fold(name, folds);
    go('graph', name);
  },
  isFolded: (name) => graph.folded?.has(name) ?? false,
  locate: async (name) => {
    go('graph', name);
    await graph.locate(name);
  },
  line: async (number) => {
    find('input[name=form][value=text]').checked = true;
    go('configuration');
    await configured;
    mark(number);
  },
  unlock: () => askToken(),
};

const graph = new Graph(find('#graph'), desk.select);
const table = new Table(find('#elements'), desk.select);
const charts = new Charts(find('#history'));
const page = new Page(find('#page'), desk);

/** Shows what the address says. */
function route() {
  const [to, ...rest] = location.hash.slice(1).split('/');
  const changed = to !== view;
  view = VIEWS.includes(to) ? to : 'graph';
  try {
    selected = rest.length ? decodeURIComponent(rest.join('/')) : null;
  } catch {
    selected = null;
  }
  for (const name of VIEWS) find(`#${name}`).hidden = name !== view;
  for (const link of every('nav a')) set(link, 'aria-current', link.hash === `#${view}` ? 'page' : null);
  if (!state.now) return;
  page.show(selected).catch((error) => console.error(error));
  graph.select(selected);
  table.select(selected);
  if (changed && view === 'configuration') configure();
  show();
}

/** Writes the figures of this moment into what can be seen. */
function show() {
  if (document.hidden || !state.now) return;
  header();
  if (view === 'graph') graph.update();
  else if (view === 'elements') table.update();
  else if (view === 'history') charts.update();
  page.update();
}

function header() {
  const { totals, now } = state;
  const inks = { in: 'flow', out: 'flow', dropped: 'drop', held: 'held' };
  for (const [name, ink] of Object.entries(inks)) {
    const output = find(`#total-${name}`);
    say(output, name === 'held' ? short(totals.held) : `${short(totals[name])}/s`);
    spark(output.nextElementSibling, `total ${name}`, ink);
  }
  find('.readout.drop').toggleAttribute('data-on', totals.dropped > 0);
  const bars = find('#threads .bars');
  while (bars.children.length > state.workers.length) bars.lastChild.remove();
  state.workers.forEach(({ worker, busy, polling }, at) => {
    const bar = bars.children[at] ?? bars.appendChild(make('div', { class: 'bar', role: 'meter', 'aria-valuemin': 0, 'aria-valuemax': 100 },
      make('span', {}, String(worker.thread)), make('div', {}, make('i', { class: 'busy' }), make('i', { class: 'polling' })), make('output')));
    style(find('.busy', bar), 'width', `${Math.round(100 * busy)}%`);
    style(find('.polling', bar), 'width', `${Math.round(100 * polling)}%`);
    say(find('output', bar), percent(busy));
    set(bar, 'aria-valuenow', Math.round(100 * busy));
    set(bar, 'aria-label', `Thread ${worker.thread}`);
    set(bar, 'title', `Thread ${worker.thread}: ${percent(busy)} with packets, ${percent(polling)} polling`);
  });
  const rows = find('#devices .rows');
  find('#devices').hidden = !state.devices.length;
  while (rows.children.length > state.devices.length) rows.lastChild.remove();
  state.devices.forEach(({ device, packets, bits, lost }, at) => {
    const row = rows.children[at] ?? rows.appendChild(make('div', {}, make('b'), make('span'), make('output')));
    say(row.children[0], device.device);
    say(row.children[1], device.direction);
    say(row.children[2], `${short(packets)}/s  ${short(bits)}bit/s${lost ? `  ${short(lost)}/s lost` : ''}`);
  });
  say(find('#state span'), `${now.phase} ${duration(now.seconds)}`);
}

let configured = null;
let texts = null;

/** Loads the configuration, if it is another one than that which is shown. */
function configure() {
  const { pid, generation } = state.now;
  const key = `${pid} ${generation}`;
  if (texts?.key !== key) {
    texts = { key };
    configured = ask('api/v1/configuration').then((answer) => {
      Object.assign(texts, answer);
      form();
    }, (error) => {
      texts = null;
      find('#configuration pre').textContent = error.message;
    });
  }
  return configured;
}

function form() {
  const chosen = find('input[name=form]:checked').value;
  find('#configuration pre').replaceChildren(...configuration(texts?.[chosen] ?? ''));
}

function mark(number) {
  const lines = every('#configuration .line');
  lines.forEach((line, at) => line.classList.toggle('here', at + 1 === number));
  lines[number - 1]?.scrollIntoView({ block: 'center' });
}

find('#configuration').addEventListener('change', form);
find('#copy').addEventListener('click', async () => {
  const text = texts?.[find('input[name=form]:checked').value] ?? '';
  try {
    await navigator.clipboard.writeText(text);
    say(find('#copy'), 'Copied');
  } catch {
    getSelection().selectAllChildren(find('#configuration pre'));
    say(find('#copy'), 'Selected');
  }
  setTimeout(() => say(find('#copy'), 'Copy'), 1500);
});

// The token.

const dialog = find('#ask');
const field = find('input', dialog);

function askToken(why = '') {
  find('.wrong', dialog).textContent = why;
  field.value = '';
  if (!dialog.open) dialog.showModal();
}

find('form', dialog).addEventListener('submit', async (event) => {
  if (event.submitter?.value === 'cancel') return;
  event.preventDefault();
  try {
    await useToken(field.value);
    dialog.close();
    lock();
  } catch (error) {
    find('.wrong', dialog).textContent = error.message;
  }
});

function lock() {
  page.lock();
  const button = find('#lock');
  button.setAttribute('aria-pressed', hasToken());
  button.textContent = hasToken() ? 'Forget token' : 'Token';
}

find('#lock').addEventListener('click', async () => {
  if (!hasToken()) return askToken();
  await useToken('');
  lock();
});

find('#router').addEventListener('click', () => desk.select(selected === '' ? null : ''));
find('#router').addEventListener('keydown', (event) => event.stopPropagation());
addEventListener('hashchange', route);
document.addEventListener('visibilitychange', show);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
addEventListener('resize', show);

// What comes in.

const notice = find('#notice');
let timer;

function announce(text, lasts) {
  clearTimeout(timer);
  notice.textContent = text;
  notice.hidden = !text;
  notice.classList.toggle('good', lasts !== undefined);
  if (lasts) timer = setTimeout(() => announce(''), lasts);
}

function receive(snapshot) {
  const changed = take(snapshot);
  const lost = known === 'lost';
  if (known !== 'live') {
    known = 'live';
    set(document.body, 'data-state', 'live');
    announce('');
  }
  if (changed) {
    document.title = `Millrace ${snapshot.pid}`;
    if (lost && changed === 'router') announce('Another router runs here now.', 6000);
    if (changed === 'graph') announce(`Configuration ${snapshot.generation + 1} runs now.`, 6000);
    graph.load();
    if (view === 'configuration') configure();
    page.show(selected, true).catch((error) => console.error(error));
    route();
  }
  show();
}

follow(receive, ({ why, status }) => {
  if (status === 401 && !dialog.open) askToken('This router shows itself only to those who have its token.');
  known = 'lost';
  set(document.body, 'data-state', 'lost');
  say(find('#state span'), 'no connection');
  const since = state.now ? ` The figures are those of ${new Date(state.second * 1000).toLocaleTimeString()}.` : '';
  announce(`No connection: ${why}.${since} Trying again.`);
});
route();
