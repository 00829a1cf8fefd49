// Two small drawings in SVG: a line through the last minutes, and a bar of parts. Colours are classes of
// css/machine.css; the numbers are always beside the drawing as text, so the drawings are hidden from screen readers.
import { el, setText, svg } from "./dom.js";

const kWidth = 300;
const kHeight = 64;

// The last `length` values of something, the newest at the right edge. The scale is the largest of them, or `limit`.
export class History {
  constructor(length, { limit = 0, tone = "one" } = {}) {
    this.values = [];
    this.length = length;
    this.limit = limit;
    this.area = svg("path", { class: `area ${tone}` });
    this.line = svg("path", { class: `line ${tone}` });
    this.mark = svg("line", { class: "limit", x1: 0, x2: kWidth, visibility: "hidden" });
    this.node = svg("svg", { viewBox: `0 0 ${kWidth} ${kHeight}`, preserveAspectRatio: "none", class: "history", "aria-hidden": "true" },
      this.area, this.mark, this.line);
  }

  push(value) {
    this.values.push(value);
    if (this.values.length > this.length) this.values.shift();
    this.draw();
  }

  draw() {
    const top = Math.max(...this.values, this.limit, 1e-9) * 1.08;
    const x = (i) => kWidth - ((this.values.length - 1 - i) * kWidth) / (this.length - 1);
    const y = (value) => kHeight - 1 - (value / top) * (kHeight - 2);
    const points = this.values.map((value, i) => `${x(i).toFixed(1)} ${y(value).toFixed(1)}`);
    this.line.setAttribute("d", `M${points.join("L")}`);
    this.area.setAttribute("d", `M${x(0).toFixed(1)} ${kHeight}L${points.join("L")}L${kWidth} ${kHeight}Z`);
    if (this.limit > 0) {
      this.mark.setAttribute("visibility", "visible");
      this.mark.setAttribute("y1", y(this.limit));
      this.mark.setAttribute("y2", y(this.limit));
    }
  }
}

// A bar whose parts share its length, with a legend. Parts are {name, tone}; show() takes their values in order.
export class PartsBar {
  constructor(parts, format) {
    this.format = format;
    this.rects = parts.map(({ tone }) => svg("rect", { y: 0, height: 10, class: `part ${tone}` }));
    this.values = parts.map(() => el("dd", {}));
    this.node = el("div", {},
      svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", class: "bar-of-parts", "aria-hidden": "true" },
        svg("rect", { x: 0, y: 0, width: 100, height: 10, class: "ground" }), this.rects),
      el("dl", { class: "legend" }, parts.map(({ name, tone }, i) =>
        el("div", {}, el("dt", {}, el("span", { class: `dot ${tone}` }), name), this.values[i]))));
  }

  // `whole`: what the full length means, if not the sum.
  show(values, whole = values.reduce((sum, value) => sum + value, 0)) {
    let x = 0;
    values.forEach((value, i) => {
      const width = whole > 0 ? Math.min((100 * value) / whole, 100 - x) : 0;
      this.rects[i].setAttribute("x", x);
      this.rects[i].setAttribute("width", Math.max(width, 0));
      x += width;
      setText(this.values[i], this.format(value, whole));
    });
  }
}
