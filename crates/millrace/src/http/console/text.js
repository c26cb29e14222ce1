// Configurations in colour, and manuals.

import { make } from './dom.js';

const TOKENS =
  /(\/\/[^\n]*|\/\*[^]*?(?:\*\/|$))|("(?:[^"\\]|\\[^])*"?|\\<[^>]*>?)|(\$\w+|\$\{[^}]*\})|(->|=>|::|\b(?:elementclass|define|require|provide|input|output)\b)|(\b[A-Z]\w*(?=\s*(?:\(|->|;|\[|,|\}|$)))/gm;
const KINDS = [null, 'comment', 'string', 'variable', 'word', 'class'];

/** The lines of a configuration as nodes, for a `pre`. */
export function configuration(text) {
  const lines = [];
  let line = make('span', { class: 'line' });
  const add = (words, kind) => {
    words.split('\n').forEach((part, at) => {
      if (at > 0) {
        line.append('\n');
        lines.push(line);
        line = make('span', { class: 'line' });
      }
      if (part) line.append(kind ? make('span', { class: kind }, part) : part);
    });
  };
  let at = 0;
  for (const found of text.matchAll(TOKENS)) {
    add(text.slice(at, found.index));
    add(found[0], KINDS[found.findIndex((group, n) => n > 0 && group !== undefined)]);
    at = found.index + found[0].length;
  }
  add(text.slice(at));
  if (line.childNodes.length) lines.push(line);
  return lines;
}

/** `code` and *emphasis* in a line of a manual. */
function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).filter(Boolean).map((part) => {
    if (part.startsWith('`')) return make('code', {}, part.slice(1, -1));
    if (part.startsWith('**')) return make('b', {}, part.slice(2, -2));
    return part.replace(/\[([^\]]+)\]\([^)]*\)/g, '$1').replace(/\\([[\]<>*_`\\])/g, '$1');
  });
}

/** A manual, which is written in a small part of Markdown. */
export function manual(text) {
  const blocks = [];
  const lines = text.split('\n');
  const plain = (line) => line.trim() && !/^(#|```|\||\s*- )/.test(line);
  for (let at = 0; at < lines.length;) {
    const line = lines[at++];
    if (line.startsWith('```')) {
      const code = [];
      while (at < lines.length && !lines[at].startsWith('```')) code.push(lines[at++]);
      at++;
      const isClick = /click/.test(line);
      blocks.push(make('pre', {}, ...(isClick ? configuration(code.join('\n')) : [code.join('\n')])));
    } else if (line.startsWith('#')) {
      blocks.push(make('h4', {}, ...inline(line.replace(/^#+\s*/, ''))));
    } else if (/^\s*- /.test(line)) {
      const list = make('ul');
      let item = line.replace(/^\s*- /, '');
      for (;;) {
        while (at < lines.length && plain(lines[at])) item += ` ${lines[at++].trim()}`;
        list.append(make('li', {}, ...inline(item)));
        if (at >= lines.length || !/^\s*- /.test(lines[at])) break;
        item = lines[at++].replace(/^\s*- /, '');
      }
      blocks.push(list);
    } else if (line.startsWith('|')) {
      const table = make('table');
      for (let row = line; row?.startsWith('|'); row = lines[at++]) {
        if (!/^[|\s:-]+$/.test(row)) {
          table.append(make('tr', {}, ...row.slice(1, row.lastIndexOf('|')).split('|')
            .map((cell) => make('td', {}, ...inline(cell.trim())))));
        }
      }
      at--;
      blocks.push(table);
    } else if (line.trim()) {
      let words = line;
      while (at < lines.length && plain(lines[at])) words += ` ${lines[at++].trim()}`;
      blocks.push(make('p', {}, ...inline(words)));
    }
  }
  return blocks;
}
