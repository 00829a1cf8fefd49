// Builds elements out of plain values. All of the page's content passes through here as text nodes and
// attributes, so nothing that a model or a file says can become markup. Deliberately no templates and no
// virtual tree: what changes often is changed in place by its owner.

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value); // onclick, …
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

export function mathml(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/1998/Math/MathML", tag), attributes, children);
}

export const byId = (id) => document.getElementById(id);

// Changes the text only if it is another, so that selections and screen readers are left alone.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
