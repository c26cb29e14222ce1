// Building pages out of nodes. Text is always text: names and configurations are those of somebody else.

const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
};

export const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
export const find = (selector, within = document) => within.querySelector(selector);
export const every = (selector, within = document) => [...within.querySelectorAll(selector)];

/** Changes a text only if it differs, so that the browser has nothing to do. */
export function say(node, text) {
  if (node.said !== text) node.textContent = node.said = text;
}

/** The same for an attribute; null removes it. */
export function set(node, name, value) {
  const known = (node.known ??= {});
  if (known[name] === value) return;
  known[name] = value;
  if (value === null) node.removeAttribute(name);
  else node.setAttribute(name, value);
}

/** The same for a property of its style. */
export function style(node, name, value) {
  const known = (node.styled ??= {});
  if (known[name] === value) return;
  known[name] = value;
  node.style.setProperty(name, value);
}
