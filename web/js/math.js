// A useful part of TeX's maths as MathML, which browsers draw themselves. What is not understood is shown as its
// source, so nothing is lost. Deliberately no macros and no layout of its own.
import { mathml } from "./dom.js";
import { accents, functionNames, letters, operators, variants } from "./math_symbols.js";

const kDeepest = 60; // of nested groups; deeper ones are shown as source
const kMostTokens = 5000;

// White space means nothing but inside of \text{…}, which is therefore one token.
const kWords = /^\\(?:text[a-z]*|mbox)\s*\{([^{}]*)\}$/;

function tokensOf(source) {
  return source.match(/\\(?:text[a-z]*|mbox)\s*\{[^{}]*\}|\\(?:[A-Za-z]+|[\s\S])|\d+(?:[.,]\d+)*|[^\s]/gu) ?? [];
}

class Parser {
  constructor(tokens) {
    this.tokens = tokens;
    this.at = 0;
    this.depth = 0;
  }

  peek() {
    return this.tokens[this.at];
  }

  take(token) {
    if (this.peek() !== token) return false;
    ++this.at;
    return true;
  }

  // Elements up to one of the closing tokens, which is left.
  row(...closing) {
    const items = [];
    while (this.at < this.tokens.length && !closing.includes(this.peek())) items.push(this.scripted());
    return items.length === 1 ? items[0] : mathml("mrow", {}, items);
  }

  scripted() {
    const base = this.peek() === "^" || this.peek() === "_" ? mathml("mrow") : this.atom();
    let below = null;
    let above = null;
    for (;;) {
      if (!below && this.take("_")) below = this.argument();
      else if (!above && this.take("^")) above = this.argument();
      else if (!above && this.peek() === "'") above = this.primes();
      else break;
    }
    const over = base.dataset?.limits === "yes";
    if (below && above) return mathml(over ? "munderover" : "msubsup", {}, base, below, above);
    if (below) return mathml(over ? "munder" : "msub", {}, base, below);
    return above ? mathml(over ? "mover" : "msup", {}, base, above) : base;
  }

  primes() {
    let marks = "";
    while (this.take("'")) marks += "′";
    return mathml("mo", {}, marks);
  }

  argument() {
    if (!this.take("{")) {
      // A number gives one digit: x^23 is x² 3.
      const token = this.peek();
      if (token !== undefined && /^\d./.test(token)) this.tokens.splice(this.at, 1, token[0], token.slice(1));
      return this.atom();
    }
    const row = this.row("}");
    this.take("}");
    return row;
  }

  // The source of a group, for names and letters.
  words() {
    if (!this.take("{")) return this.tokens[this.at++] ?? "";
    const words = [];
    let open = 1;
    for (; this.at < this.tokens.length; ++this.at) {
      open += this.peek() === "{" ? 1 : this.peek() === "}" ? -1 : 0;
      if (open === 0) break;
      words.push(this.peek());
    }
    this.take("}");
    return words.join("");
  }

  atom() {
    if (++this.depth > kDeepest) throw new Error("too deep");
    const node = this.shallowAtom();
    --this.depth;
    return node;
  }

  shallowAtom() {
    const token = this.tokens[this.at++];
    if (token === undefined) return mathml("mrow");
    if (token === "{") {
      --this.at;
      return this.argument();
    }
    const words = token.match(kWords);
    if (words) return mathml("mtext", {}, words[1]);
    if (token.startsWith("\\")) return this.command(token.slice(1));
    if (/^\d/.test(token)) return mathml("mn", {}, token);
    if (/^\p{L}$/u.test(token)) return mathml("mi", {}, token);
    if (token === "&" || token === "}") return mathml("mrow");
    return mathml("mo", {}, token === "-" ? "−" : token === "*" ? "∗" : token);
  }

  command(name) {
    if (Object.hasOwn(letters, name)) return mathml("mi", {}, letters[name]);
    if (Object.hasOwn(operators, name)) return this.operator(name);
    if (functionNames.has(name)) return this.named(name);
    if (Object.hasOwn(accents, name)) {
      const [mark, place] = accents[name];
      return mathml(place, { accent: place === "mover" ? "true" : "false" }, this.argument(), mathml("mo", {}, mark));
    }
    if (Object.hasOwn(variants, name)) return this.variant(variants[name]);
    if (Object.hasOwn(commands, name)) return commands[name](this);
    return mathml("mtext", {}, `\\${name}`);
  }

  operator(name) {
    const [sign, limits] = [operators[name][0], operators[name][1] === "limits"];
    const node = mathml("mo", {}, sign);
    if (limits) node.dataset.limits = "yes";
    return node;
  }

  named(name) {
    const node = mathml("mi", { mathvariant: "normal" }, name);
    if (/^(lim|max|min|sup|inf|argmax|argmin)/.test(name)) node.dataset.limits = "yes";
    return node;
  }

  // Letters of another alphabet: \mathbb{R}, \mathbf{x}.
  variant(alphabet) {
    const words = [...this.words()].map((letter) => alphabet(letter)).join("");
    return mathml("mi", { mathvariant: "normal" }, words);
  }

  fence() {
    const token = this.tokens[this.at++] ?? ".";
    const name = token.replace(/^\\/, "");
    if (token === ".") return "";
    return Object.hasOwn(operators, name) && token !== name ? operators[name][0] : name;
  }

  table(name) {
    const [open, close, align] = environments[name] ?? ["", "", null];
    const rows = [mathml("mtr")];
    let cell = 0;
    while (this.at < this.tokens.length && this.peek() !== "\\end") {
      const side = align ?? (cell % 2 === 0 ? "right" : "left");
      rows.at(-1).append(mathml("mtd", { class: `to-${side}` }, this.row("&", "\\\\", "\\end")));
      ++cell;
      if (this.take("\\\\")) {
        rows.push(mathml("mtr"));
        cell = 0;
      } else {
        this.take("&");
      }
    }
    if (this.take("\\end")) this.words();
    const fences = [open, close].map((sign) => (sign === "" ? null : mathml("mo", { fence: "true", stretchy: "true" }, sign)));
    return mathml("mrow", {}, fences[0], mathml("mtable", {}, rows.filter((row) => row.childNodes.length > 0)), fences[1]);
  }
}

const environments = {
  matrix: ["", "", "center"], pmatrix: ["(", ")", "center"], bmatrix: ["[", "]", "center"],
  vmatrix: ["|", "|", "center"], cases: ["{", "", "left"], array: ["", "", "center"],
  aligned: ["", "", null], align: ["", "", null], "align*": ["", "", null],
};

function fraction(parser) {
  return mathml("mfrac", {}, parser.argument(), parser.argument());
}

const commands = {
  frac: fraction, dfrac: fraction, tfrac: fraction,
  binom: (parser) => mathml("mrow", {}, mathml("mo", {}, "("),
    mathml("mfrac", { linethickness: "0" }, parser.argument(), parser.argument()), mathml("mo", {}, ")")),
  sqrt: (parser) => {
    const index = parser.take("[") ? parser.row("]") : null;
    if (index) parser.take("]");
    return index ? mathml("mroot", {}, parser.argument(), index) : mathml("msqrt", {}, parser.argument());
  },
  operatorname: (parser) => mathml("mi", { mathvariant: "normal" }, parser.words()),
  boxed: (parser) => mathml("mrow", { class: "boxed" }, parser.argument()),
  left: (parser) => {
    const open = parser.fence();
    const inside = parser.row("\\right");
    const close = parser.take("\\right") ? parser.fence() : "";
    return mathml("mrow", {}, mathml("mo", { stretchy: "true" }, open), inside, mathml("mo", { stretchy: "true" }, close));
  },
  begin: (parser) => {
    const name = parser.words();
    if (name === "array" && parser.peek() === "{") parser.words(); // its columns
    return parser.table(name);
  },
  overset: (parser) => {
    const above = parser.argument();
    return mathml("mover", {}, parser.argument(), above);
  },
  underset: (parser) => {
    const below = parser.argument();
    return mathml("munder", {}, parser.argument(), below);
  },
  limits: () => mathml("mrow"), displaystyle: () => mathml("mrow"), big: () => mathml("mrow"),
  Big: () => mathml("mrow"), quad: () => mathml("mspace", { width: "1em" }),
  qquad: () => mathml("mspace", { width: "2em" }), ",": () => mathml("mspace", { width: "0.17em" }),
  ";": () => mathml("mspace", { width: "0.28em" }), ":": () => mathml("mspace", { width: "0.22em" }),
  "!": () => mathml("mrow"), " ": () => mathml("mspace", { width: "0.3em" }), "\\": () => mathml("mrow"),
};

// A <math> element; for what is too long or too deep, its source as text.
export function mathNode(source, display) {
  const attributes = { display: display ? "block" : "inline", "aria-label": source };
  const tokens = tokensOf(source);
  try {
    if (tokens.length > kMostTokens) throw new Error("too long");
    const parser = new Parser(tokens);
    const items = [];
    while (parser.at < tokens.length) items.push(parser.scripted());
    return mathml("math", attributes, mathml("mrow", {}, items));
  } catch {
    return mathml("math", attributes, mathml("mtext", {}, source));
  }
}
