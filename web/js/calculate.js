// An arithmetic expression's value, by recursive descent. No eval: the text is the model's.

const functions = {
  sqrt: Math.sqrt, abs: Math.abs, exp: Math.exp, ln: Math.log, log: Math.log10, sin: Math.sin, cos: Math.cos,
  tan: Math.tan, round: Math.round, floor: Math.floor, ceil: Math.ceil,
};
const constants = { pi: Math.PI, e: Math.E };
const kLongest = 500; // characters; also bounds how deep parentheses can nest

function tokensOf(text) {
  const tokens = text.match(/\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+|[A-Za-z]+|\*\*|[-+*/%^()×÷−·]|\S/g) ?? [];
  const same = { "×": "*", "·": "*", "÷": "/", "−": "-", "**": "^" };
  return tokens.map((token) => same[token] ?? token);
}

class Parser {
  constructor(tokens) {
    this.tokens = tokens;
    this.at = 0;
  }

  take(...wanted) {
    return wanted.includes(this.tokens[this.at]) ? this.tokens[this.at++] : undefined;
  }

  sum() {
    let value = this.product();
    for (let sign; (sign = this.take("+", "-")); ) value += (sign === "-" ? -1 : 1) * this.product();
    return value;
  }

  product() {
    let value = this.signed();
    for (let sign; (sign = this.take("*", "/", "%")); ) {
      const right = this.signed();
      if (sign !== "*" && right === 0) throw new Error("division by zero");
      value = sign === "*" ? value * right : sign === "/" ? value / right : value % right;
    }
    return value;
  }

  signed() {
    const sign = this.take("+", "-");
    if (sign) return sign === "-" ? -this.signed() : this.signed();
    const base = this.atom();
    return this.take("^") ? base ** this.signed() : base; // 2^3^2 is 2^(3^2), -2^2 is -(2^2)
  }

  atom() {
    const token = this.tokens[this.at++];
    if (token === undefined) throw new Error("the expression ends too early");
    if (token === "(") return this.closed();
    if (/^[\d.]/.test(token) && Number.isFinite(Number(token))) return Number(token);
    if (Object.hasOwn(constants, token)) return constants[token];
    if (Object.hasOwn(functions, token) && this.take("(")) return functions[token](this.closed());
    throw new Error(`"${token}" is not understood`);
  }

  closed() {
    const value = this.sum();
    if (!this.take(")")) throw new Error("a parenthesis is not closed");
    return value;
  }
}

// Throws an Error with a sentence for what is no expression.
export function calculate(text) {
  if (text.length > kLongest) throw new Error("the expression is too long");
  const parser = new Parser(tokensOf(text));
  const value = parser.sum();
  if (parser.at < parser.tokens.length) throw new Error(`"${parser.tokens[parser.at]}" is not understood`);
  if (!Number.isFinite(value)) throw new Error("the result is not a number");
  return Number(value.toPrecision(15));
}
