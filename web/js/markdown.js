// Markdown as elements: headings, lists, tables, quotes, code, maths. Written for replies, which are strangers'
// text: HTML in it is text, every element is made by dom.js, nesting is bounded, and the time grows with the
// length. A reply that is still growing is read again from the start, but only blocks that changed are built.
import { el } from "./dom.js";
import { inlineNodes } from "./inline.js";
import { mathNode } from "./math.js";

const kDeepest = 12; // of quotes and lists inside each other; deeper ones are text
const kMostMathLines = 60;

// None of these expressions has two ways to match the same characters, so that none becomes slow.
const kFence = /^ {0,3}(`{3,20}|~{3,20})([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const kRule = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const kQuote = /^ {0,3}>\s?/;
const kItem = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+|$)/;
const kTableRule = /^\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?$/;
const kMathOpen = /^ {0,3}(\$\$|\\\[)/;

const blank = (line) => line.trim() === "";

// Each reader looks at lines[at] and returns {end, build} or null.
function readFence(lines, at) {
  const open = lines[at].match(kFence);
  if (!open) return null;
  let end = at + 1;
  while (end < lines.length && !closesFence(lines[end], open[1])) ++end;
  const code = lines.slice(at + 1, end).join("\n");
  return { end: Math.min(end + 1, lines.length), build: () => codeBlock(code, open[2].trim().split(/\s/, 1)[0]) };
}

function closesFence(line, fence) {
  const text = line.trim();
  return text.length >= fence.length && text === fence[0].repeat(text.length);
}

function readMath(lines, at) {
  const open = lines[at].match(kMathOpen);
  if (!open) return null;
  const close = open[1] === "$$" ? "$$" : "\\]";
  const parts = [];
  const last = Math.min(lines.length, at + kMostMathLines);
  for (let end = at; end < last && !(blank(lines[end]) && end > at); ++end) {
    const line = end === at ? lines[end].slice(open[0].length) : lines[end];
    const found = line.indexOf(close);
    if (found < 0) {
      parts.push(line);
      continue;
    }
    if (!blank(line.slice(found + close.length))) return null; // a paragraph that begins with maths
    parts.push(line.slice(0, found));
    return { end: end + 1, build: () => el("div", { class: "formula", tabindex: 0 }, mathNode(parts.join("\n").trim(), true)) };
  }
  return null;
}

function readHeading(lines, at) {
  const found = lines[at].match(kHeading);
  // The page has an h1 of its own.
  if (!found) return null;
  const text = found[2].trim().replace(/(?:^|\s)#+$/, "");
  return { end: at + 1, build: () => el(`h${Math.min(found[1].length + 1, 6)}`, {}, inlineNodes(text)) };
}

function readRule(lines, at) {
  return kRule.test(lines[at]) ? { end: at + 1, build: () => el("hr") } : null;
}

function readQuote(lines, at, depth) {
  if (!kQuote.test(lines[at]) || depth >= kDeepest) return null;
  let end = at;
  while (end < lines.length && !blank(lines[end]) && (kQuote.test(lines[end]) || !startsBlock(lines, end))) ++end;
  const inside = lines.slice(at, end).map((line) => line.replace(kQuote, ""));
  return { end, build: () => el("blockquote", {}, buildAll(inside, depth + 1)) };
}

function cellsOf(line) {
  const inside = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return inside.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function readTable(lines, at) {
  if (!lines[at].includes("|") || at + 1 >= lines.length || !kTableRule.test(lines[at + 1].trim())) return null;
  const head = cellsOf(lines[at]);
  const rules = cellsOf(lines[at + 1]);
  if (head.length !== rules.length) return null;
  let end = at + 2;
  while (end < lines.length && !blank(lines[end]) && lines[end].includes("|")) ++end;
  const rows = lines.slice(at + 2, end).map(cellsOf);
  return { end, build: () => table(head, rules.map(sideOf), rows) };
}

function sideOf(rule) {
  if (rule.startsWith(":") && rule.endsWith(":")) return "to-center";
  return rule.endsWith(":") ? "to-right" : null;
}

function table(head, sides, rows) {
  const line = (tag, cells) =>
    el("tr", {}, head.map((_, i) => el(tag, { class: sides[i], scope: tag === "th" ? "col" : null }, inlineNodes(cells[i] ?? ""))));
  return el("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": "Table" },
    el("table", {}, el("thead", {}, line("th", head)), el("tbody", {}, rows.map((row) => line("td", row)))));
}

function readList(lines, at, depth) {
  const first = lines[at].match(kItem);
  if (!first || depth >= kDeepest) return null;
  const ordered = /\d/.test(first[2]);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const mark = lines[end].match(kItem);
    if (!mark || mark[1].length > first[1].length + 3 || /\d/.test(mark[2]) !== ordered || kRule.test(lines[end])) break;
    const item = readItem(lines, end, mark);
    items.push(item);
    end = item.end;
  }
  const loose = items.some((item) => item.loose);
  const attributes = { start: ordered && first[2] !== "1." ? parseInt(first[2], 10) : null };
  return { end, build: () => el(ordered ? "ol" : "ul", attributes, items.map((item) => listItem(item.lines, loose, depth))) };
}

// The lines of an item without its mark and indentation: those that are indented, or go on with its paragraph.
function readItem(lines, at, mark) {
  const inside = [lines[at].slice(mark[0].length)];
  let end = at + 1;
  let loose = false;
  for (; end < lines.length; ++end) {
    const line = lines[end].replace(/^[ \t]+/, (space) => space.replaceAll("\t", "    "));
    if (blank(line)) {
      const next = lines[end + 1];
      if (next === undefined || blank(next) || !(next.startsWith(" ".repeat(mark[1].length + 2)) || kItem.test(next))) break;
      if (kItem.test(next) && next.match(kItem)[1].length < mark[1].length + 2) {
        ++end;
        loose = true;
        break;
      }
      loose = true;
      inside.push("");
      continue;
    }
    const indent = line.length - line.trimStart().length;
    if (indent < mark[1].length + 2 && (kItem.test(line) || blank(lines[end - 1]) || startsBlock(lines, end))) break;
    inside.push(line.slice(Math.min(indent, mark[0].length)));
  }
  return { end, lines: inside, loose };
}

function listItem(lines, loose, depth) {
  const nodes = buildAll(lines, depth + 1);
  if (!loose && nodes[0]?.tagName === "P") nodes.splice(0, 1, ...nodes[0].childNodes);
  const box = addCheckBox(nodes);
  return el("li", { class: box ? "task" : null }, nodes);
}

// "[x] done" at the beginning of an item, which may be in a paragraph of its own.
function addCheckBox(nodes) {
  const paragraph = nodes[0]?.tagName === "P" ? nodes[0] : null;
  const text = paragraph ? paragraph.firstChild : nodes[0];
  const found = text?.nodeType === Node.TEXT_NODE ? text.data.match(/^\[([ xX])\] /) : null;
  if (!found) return false;
  text.data = text.data.slice(4);
  const done = found[1] !== " ";
  const box = el("input", { type: "checkbox", disabled: true, checked: done, "aria-label": done ? "done" : "open" });
  if (paragraph) paragraph.prepend(box);
  else nodes.unshift(box);
  return true;
}

const readers = [readFence, readMath, readHeading, readRule, readQuote, readTable, readList];

// Whether a paragraph ends before this line.
function startsBlock(lines, at) {
  const line = lines[at];
  return kFence.test(line) || kHeading.test(line) || kRule.test(line) || kQuote.test(line) || kItem.test(line) ||
    kMathOpen.test(line);
}

function readParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !blank(lines[end]) && !startsBlock(lines, end)) ++end;
  const text = lines.slice(at, end).map((line) => line.trimStart()).join("\n");
  return { end, build: () => el("p", {}, inlineNodes(text)) };
}

function readBlock(lines, at, depth) {
  for (const read of readers) {
    const block = read(lines, at, depth);
    if (block) return block;
  }
  return readParagraph(lines, at);
}

function blocksOf(lines, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length; ) {
    if (blank(lines[at])) {
      ++at;
      continue;
    }
    const block = readBlock(lines, at, depth);
    blocks.push({ source: lines.slice(at, block.end).join("\n"), build: block.build });
    at = block.end;
  }
  return blocks;
}

function buildAll(lines, depth) {
  return blocksOf(lines, depth).map((block) => block.build());
}

function codeBlock(code, language) {
  const copy = el("button", { type: "button", class: "quiet", onclick: () => copyCode(copy, code) }, "Copy");
  return el("figure", { class: "code" },
    el("figcaption", {}, el("span", {}, language || "text"), copy),
    el("pre", { tabindex: 0 }, el("code", {}, code)));
}

async function copyCode(button, code) {
  try {
    await navigator.clipboard.writeText(code);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

// Shows a text in a node, again and again as it grows. Blocks whose source stayed the same stay in place, and with
// them selections and scroll positions.
export class MarkdownView {
  constructor(node) {
    this.node = node;
    this.sources = [];
  }

  show(text) {
    const blocks = blocksOf(text.replaceAll("\r\n", "\n").split("\n"), 0);
    let same = 0;
    while (same < blocks.length && this.sources[same] === blocks[same].source) ++same;
    while (this.node.childNodes.length > same) this.node.lastChild.remove();
    this.node.append(...blocks.slice(same).map((block) => block.build()));
    this.sources = blocks.map((block) => block.source);
  }
}
