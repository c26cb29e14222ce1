// What the router serves: requests, and the stream of snapshots.

let token = '';
let wake = () => {};

export const hasToken = () => token !== '';

/** Forgets the token, or keeps it in memory once the router has accepted it. */
export async function useToken(text) {
  if (text) await checked(await fetch('api/v1/handlers', { headers: { Authorization: `Bearer ${text}` } }));
  token = text;
  wake();
}

/** An answer that is an error, with the words of the router. */
export class Refused extends Error {
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

async function checked(response) {
  if (response.ok) return response;
  let why = `${response.status} ${response.statusText}`;
  try {
    why = (await response.json()).error ?? why;
  } catch { /* not JSON */ }
  throw new Refused(response.status, why);
}

const headers = () => (token ? { Authorization: `Bearer ${token}` } : {});
const handler = (name) => `api/v1/handlers/${encodeURIComponent(name)}`;

export const ask = async (path) => (await checked(await fetch(path, { headers: headers() }))).json();
export const element = (name) => ask(`api/v1/elements/${encodeURIComponent(name)}`);
export const read = async (name) => (await checked(await fetch(handler(name), { headers: headers() }))).text();
export const write = async (name, body) =>
  (await checked(await fetch(handler(name), { method: 'PUT', body, headers: headers() }))).json();

/** Calls `onSnapshot` for each snapshot, for ever. `onLost` hears why there are none. */
export async function follow(onSnapshot, onLost) {
  for (let failures = 0; ; failures++) {
    const control = new AbortController();
    let watchdog;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => control.abort(), 8000);
    };
    let reason = { why: 'the router has closed the connection' };
    try {
      alive();
      const response = await checked(await fetch('api/v1/events', { headers: headers(), signal: control.signal }));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        alive();
        text += value;
        if (!value.includes('\n')) continue;
        for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
          const data = text.slice(0, end).split('\n').filter((line) => line.startsWith('data:'));
          if (!data.length) continue;
          failures = 0;
          onSnapshot(JSON.parse(data.map((line) => line.slice(5)).join('\n')));
        }
      }
    } catch (error) {
      if (error instanceof Refused) reason = { why: error.message, status: error.status };
      else if (error.name === 'AbortError') reason = { why: 'the router does not answer' };
      else if (error instanceof TypeError) reason = { why: 'the router cannot be reached' };
      else {
        console.error(error);
        reason = { why: String(error.message) };
      }
    }
    clearTimeout(watchdog);
    control.abort();
    onLost(reason);
    await new Promise((go) => {
      wake = go;
      setTimeout(go, Math.min(500 * 2 ** failures, 4000));
    });
  }
}
