// Markdown inside of a block: emphasis, code, links, maths, line breaks. One pass finds the parts, another pairs the
// marks of emphasis; neither looks back further than its stacks, so hostile text costs no more than other text.
import { el } from "./dom.js";
import { mathNode } from "./math.js";

const kDeepest = 20; // marks of emphasis that are open at once
const kLongestMark = 6;
const kLongestMath = 4000;
const kPlain = /[^\\`*_~[\]!$<h\n]+/y; // nothing that could begin something
const kAddress = /https?:\/\/[^\s<>"'`\\^{|}]+/y;
const kPunctuation = /[\p{P}\p{S}]/u;

// The address if it is one that may be followed, else null.
export function safeAddress(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null; // relative ones would lead into this server
  }
}

function link(address, children) {
  return el("a", { href: address, rel: "noopener noreferrer", target: "_blank" }, children);
}

// Where the bracket that opens at each place closes; found in one pass.
function closingBrackets(text) {
  const closing = new Map();
  const open = [];
  for (let at = 0; at < text.length; ++at) {
    if (text[at] === "\\") ++at;
    else if (text[at] === "[") open.push(at);
    else if (text[at] === "]" && open.length > 0) closing.set(open.pop(), at);
  }
  return closing;
}

// An address in a sentence ends before the sentence's own marks.
function withoutPunctuation(address) {
  const marks = address.includes("(") ? ".,:;!?]*_~" : ".,:;!?]*_~)";
  let end = address.length;
  while (end > 0 && marks.includes(address[end - 1])) --end;
  return address.slice(0, end);
}

class Scanner {
  constructor(text, links) {
    this.text = text;
    this.links = links; // whether links may be made; not inside of links
    this.at = 0;
    this.parts = []; // nodes, strings, and marks {sign, length, opens, closes}
    this.brackets = links ? closingBrackets(text) : new Map();
    this.next = new Map(); // where each ending comes next, as far as was looked
  }

  add(part) {
    const last = this.parts.length - 1;
    if (typeof part === "string" && typeof this.parts[last] === "string") this.parts[last] += part;
    else this.parts.push(part);
  }

  // The first place of an ending from `from` on, or -1. Nothing is looked through twice.
  find(ending, from) {
    const known = this.next.get(ending);
    if (known !== undefined && (known < 0 || known >= from)) return known;
    const found = this.text.indexOf(ending, from);
    this.next.set(ending, found);
    return found;
  }

  scan() {
    while (this.at < this.text.length) {
      kPlain.lastIndex = this.at;
      const plain = kPlain.exec(this.text);
      if (plain) {
        this.add(plain[0]);
        this.at += plain[0].length;
      } else if (!this.special(this.text[this.at])) {
        this.add(this.text[this.at++]);
      }
    }
    return this.parts;
  }

  // Takes what begins here with a character that may mean something; false if it means nothing.
  special(character) {
    switch (character) {
      case "\\": return this.math("\\(", "\\)") || this.math("\\[", "\\]") || this.escape();
      case "`": return this.code();
      case "$": return this.math("$$", "$$") || this.dollars();
      case "[": return this.link(this.at);
      case "!": return this.text[this.at + 1] === "[" && this.link(this.at + 1); // images are shown as links
      case "<": return this.angle();
      case "h": return this.address();
      case "\n": return this.lineEnd();
      case "*": case "_": case "~": return this.mark(character);
      default: return false;
    }
  }

  escape() {
    const next = this.text[this.at + 1];
    if (next === undefined || !kPunctuation.test(next)) return false;
    this.add(next);
    this.at += 2;
    return true;
  }

  lineEnd() {
    const last = this.parts.at(-1);
    const hard = typeof last === "string" && (last.endsWith("  ") || last.endsWith("\\"));
    this.add(hard ? el("br") : "\n");
    this.at += 1;
    return true;
  }

  code() {
    let length = 1;
    while (this.text[this.at + length] === "`") ++length;
    const from = this.at + length;
    const fence = "`".repeat(length);
    let end = this.find(fence, from);
    while (end >= 0 && (this.text[end + length] === "`" || this.text[end - 1] === "`")) {
      while (this.text[end] === "`") ++end;
      end = this.find(fence, end);
    }
    if (end < 0) {
      this.add(fence);
      this.at = from;
      return true;
    }
    const inside = this.text.slice(from, end).replaceAll("\n", " ");
    const padded = inside.startsWith(" ") && inside.endsWith(" ") && inside.trim() !== "";
    this.add(el("code", {}, padded ? inside.slice(1, -1) : inside));
    this.at = end + length;
    return true;
  }

  math(open, close) {
    if (!this.text.startsWith(open, this.at)) return false;
    const from = this.at + open.length;
    const end = this.find(close, from);
    if (end <= from || end - from > kLongestMath) return false;
    this.add(mathNode(this.text.slice(from, end), open === "$$" || open === "\\["));
    this.at = end + close.length;
    return true;
  }

  // $x$, but neither $5 nor "from $5 to $6".
  dollars() {
    const from = this.at + 1;
    if (/[\s\d.,]/.test(this.text[from] ?? " ") && !/^\d+[^\s$]*[\\^_=+*/a-z]/i.test(this.text.slice(from, from + 40))) return false;
    const end = this.find("$", from);
    if (end <= from || end - from > kLongestMath || /\s/.test(this.text[end - 1]) || /\d/.test(this.text[end + 1] ?? "")) {
      return false;
    }
    this.add(mathNode(this.text.slice(from, end), false));
    this.at = end + 1;
    return true;
  }

  link(open) {
    const close = this.brackets.get(open);
    if (close === undefined || this.text[close + 1] !== "(") return false;
    const target = /\(\s*<?([^\s<>()]*(?:\([^\s<>()]*\)[^\s<>()]*)*)>?(?:\s+(?:"[^"\n]*"|'[^'\n]*'))?\s*\)/y;
    target.lastIndex = close + 1;
    const found = target.exec(this.text);
    const address = found && safeAddress(found[1]);
    if (!address) return false;
    const label = this.text.slice(open + 1, close);
    this.add(link(address, label === "" ? address : inlineNodes(label, false)));
    this.at = target.lastIndex;
    return true;
  }

  // <https://…>; everything else in angle brackets is text.
  angle() {
    const found = /<((?:https?:\/\/|mailto:)[^\s<>]+)>/y;
    found.lastIndex = this.at;
    const [whole, text] = found.exec(this.text) ?? [];
    const address = this.links && text ? safeAddress(text) : null;
    if (!address) return false;
    this.add(link(address, text));
    this.at += whole.length;
    return true;
  }

  address() {
    kAddress.lastIndex = this.at;
    const found = this.links && kAddress.exec(this.text);
    const text = found ? withoutPunctuation(found[0]) : "";
    const address = text === "" ? null : safeAddress(text);
    if (!address) return false;
    this.add(link(address, text));
    this.at += text.length;
    return true;
  }

  mark(sign) {
    let length = 1;
    while (this.text[this.at + length] === sign) ++length;
    if (length > kLongestMark) {
      this.add(this.text.slice(this.at, this.at + length));
      this.at += length;
      return true;
    }
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[this.at + length] ?? " ";
    const [spaceBefore, spaceAfter] = [/\s/.test(before), /\s/.test(after)];
    const [signBefore, signAfter] = [kPunctuation.test(before), kPunctuation.test(after)];
    const left = !spaceAfter && (!signAfter || spaceBefore || signBefore);
    const right = !spaceBefore && (!signBefore || spaceAfter || signAfter);
    const word = sign === "_"; // snake_case is no emphasis
    this.parts.push({ sign, length, opens: left && (!word || !right || signBefore), closes: right && (!word || !left || signAfter) });
    this.at += length;
    return true;
  }
}

const tags = { "*1": "em", "_1": "em", "*2": "strong", "_2": "strong", "~2": "del", "~1": "del" };

// Pairs marks: each closing one with the nearest open one of its sign; open ones of other signs between are text.
class Pairer {
  constructor() {
    this.out = []; // nodes, strings, and open marks
    this.open = { "*": [], _: [], "~": [] }; // their places in `out`
    this.openCount = 0;
  }

  take(part) {
    if (part instanceof Node || typeof part === "string") {
      this.out.push(part);
      return;
    }
    let { length } = part;
    while (part.closes && length > 0 && this.open[part.sign].length > 0) length -= this.close(part.sign, length);
    if (length === 0) return;
    if (part.opens && this.openCount < kDeepest) {
      this.open[part.sign].push(this.out.length);
      ++this.openCount;
      this.out.push({ sign: part.sign, length });
    } else {
      this.out.push(part.sign.repeat(length));
    }
  }

  close(sign, length) {
    const at = this.open[sign].at(-1);
    const mark = this.out[at];
    const used = Math.min(2, length, mark.length);
    const inside = this.out.splice(at + 1).map(asText);
    for (const places of Object.values(this.open)) {
      while (places.length > 0 && places.at(-1) > at) {
        places.pop();
        --this.openCount;
      }
    }
    mark.length -= used;
    if (mark.length === 0) {
      this.out.pop();
      this.open[sign].pop();
      --this.openCount;
    }
    this.out.push(el(tags[sign + used], {}, inside));
    return used;
  }

  nodes() {
    return this.out.map(asText);
  }
}

function asText(part) {
  const plain = part instanceof Node || typeof part === "string";
  return plain ? part : part.sign.repeat(part.length);
}

// Text nodes and elements of a paragraph's text.
export function inlineNodes(text, links = true) {
  const pairer = new Pairer();
  for (const part of new Scanner(text, links).scan()) pairer.take(part);
  return pairer.nodes().map((part) => (typeof part === "string" ? document.createTextNode(part) : part));
}
