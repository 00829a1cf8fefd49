"""What replies are made of: markdown, maths, code; and replies of somebody who means harm."""

import time

import pytest
from _model import ScriptedModel, stream
from conftest import expect


def shown(chat, text):
    ScriptedModel(chat.page, stream(text))
    chat.ask("Well?")
    return chat.expect_end().locator("> .text")


ATTACKS = """
<img src=x onerror="window.harmed = 1">
<script>window.harmed = 1</script>
<svg/onload=window.harmed=1> <iframe src="javascript:window.harmed=1"></iframe>
[a](javascript:window.harmed=1) [b](JaVaScRiPt:window.harmed=1) [c](data:text/html,<script>window.harmed=1</script>)
[d](\tjavascript:window.harmed=1) [e](vbscript:x) [f](/v1/state) [g](//elsewhere.example) <javascript:window.harmed=1>
![h](x" onerror="window.harmed=1) ![i](https://elsewhere.example/pixel.png)
`<img src=x onerror=window.harmed=1>` **<b onclick=window.harmed=1>** $<img src=x onerror=window.harmed=1>$

```"><img src=x onerror=window.harmed=1>
</code><img src=x onerror=window.harmed=1>
```

| <img src=x onerror=window.harmed=1> | b |
|---|---|
| [x](javascript:window.harmed=1) | <script>window.harmed=1</script> |

$$\\text{<img src=x onerror=window.harmed=1>} \\href{javascript:window.harmed=1}{x}$$
"""


def test_nothing_that_a_model_says_runs(chat):
    text = shown(chat, ATTACKS)
    expect(text).to_contain_text("<script>window.harmed = 1</script>")
    for selector in ("img", "script", "iframe", "svg", "[onerror]", "[onclick]", "[style]", "[href^=javascript]"):
        expect(text.locator(selector)).to_have_count(0)
    addresses = text.locator("a").evaluate_all("links => links.map((link) => link.getAttribute('href'))")
    assert addresses == ["https://elsewhere.example/pixel.png"]
    assert chat.page.evaluate("() => window.harmed") is None


def test_names_and_arguments_of_tools_are_text(chat):
    harm = "<img src=x onerror=window.harmed=1>"
    ScriptedModel(chat.page, stream(reasoning=harm, calls=[(harm, harm)]), stream("End."))
    chat.page.get_by_role("switch", name="Demo tools").check()
    chat.ask(harm)
    chat.expect_end()
    expect(chat.page.locator("#log img")).to_have_count(0)
    expect(chat.page.locator("#sidebar li img")).to_have_count(0)
    assert chat.page.evaluate("() => window.harmed") is None


def test_even_a_script_of_the_page_cannot_make_markup(chat):
    refused = chat.page.evaluate("""() => {
      try { document.createElement("p").innerHTML = "<b>x</b>"; return false; } catch { return true; }
    }""")
    assert refused
    chat.forgive("TrustedHTML")


MARKDOWN = """# Title *with* emphasis

Some **bold**, *thin*, ***both***, ~~gone~~, snake_case_name and 2 * 3 * 4, a \\*star\\*, `code **not bold**`.
Second line.

- one
- two
  1. inner
  2. inner two

     more of inner two
- [x] done

> quoted
> > deeper

| left | right |
|:-----|------:|
| `a|b` \\| c | 1 |
| x |

```python
def f(x):
\treturn x < 1
```

Visit https://perigee.example/a_b_(c). Or [this](https://perigee.example/?q=1&r=2 "title"), <mailto:a@perigee.example>.

---
7. seven
8. eight
"""


def test_markdown_is_shown_as_its_elements(chat):
    text = shown(chat, MARKDOWN)
    expect(text.locator("h2")).to_have_text("Title with emphasis")
    expect(text.locator("h2 em")).to_have_text("with")
    first = text.locator("> p").first
    expect(first.locator("strong")).to_have_text(["bold", "both"])
    expect(first.locator("del")).to_have_text("gone")
    expect(first).to_contain_text("snake_case_name and 2 * 3 * 4, a *star*")
    expect(first.locator("code")).to_have_text("code **not bold**")
    expect(text.locator("> ul > li")).to_have_count(3)
    expect(text.locator("> ul ol > li")).to_have_count(2)
    expect(text.locator("> ul ol > li").last.locator("p")).to_have_text(["inner two", "more of inner two"])
    expect(text.locator("li.task input")).to_be_checked()
    expect(text.locator("blockquote blockquote")).to_have_text("deeper")
    expect(text.locator("thead th")).to_have_text(["left", "right"])
    expect(text.locator("tbody td")).to_have_text(["`a", "b` | c", "x", ""])
    expect(text.locator("figcaption span")).to_have_text("python")
    assert text.locator("pre code").text_content() == "def f(x):\n\treturn x < 1"
    links = text.locator("a").evaluate_all("links => links.map((link) => [link.href, link.rel, link.target])")
    assert [link[0] for link in links] == ["https://perigee.example/a_b_(c)", "https://perigee.example/?q=1&r=2",
                                           "mailto:a@perigee.example"]
    assert {(link[1], link[2]) for link in links} == {("noopener noreferrer", "_blank")}
    expect(text.locator("hr")).to_have_count(1)
    expect(text.locator("ol[start='7'] > li")).to_have_text(["seven", "eight"])


def test_code_can_be_copied(chat):
    text = shown(chat, "```sh\necho 1 && echo 2\n```")
    chat.button("Copy", text).click()
    expect(text.get_by_role("button")).to_have_text("Copied")
    assert chat.page.evaluate("() => navigator.clipboard.readText()") == "echo 1 && echo 2"


def maths(chat, source):
    """The MathML of a formula, without attributes."""
    return chat.page.evaluate("""async (source) => {
      const plain = (node) => node.nodeType === Node.TEXT_NODE ? node.data
        : `<${node.localName}>${[...node.childNodes].map(plain).join("")}</${node.localName}>`;
      const node = (await import("/web/js/math.js")).mathNode(source, false);
      return [...node.firstChild.childNodes].map(plain).join("");
    }""", source)


@pytest.mark.parametrize("source, expected", [
    ("x^2", "<msup><mi>x</mi><mn>2</mn></msup>"),
    ("x_{i+1}", "<msub><mi>x</mi><mrow><mi>i</mi><mo>+</mo><mn>1</mn></mrow></msub>"),
    ("a_i^2", "<msubsup><mi>a</mi><mi>i</mi><mn>2</mn></msubsup>"),
    ("x^23", "<msup><mi>x</mi><mn>2</mn></msup><mn>3</mn>"),
    (r"\frac{1}{2}", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
    (r"\frac12", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
    (r"\sqrt[3]{x}", "<mroot><mi>x</mi><mn>3</mn></mroot>"),
    (r"\alpha \leq \Omega", "<mi>α</mi><mo>≤</mo><mi>Ω</mi>"),
    (r"\sum_{i=1}^n i", "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi>"),
    (r"\lim_{x \to 0}", "<munder><mi>lim</mi><mrow><mi>x</mi><mo>→</mo><mn>0</mn></mrow></munder>"),
    (r"\text{if } x", "<mtext>if </mtext><mi>x</mi>"),
    (r"\left( x \right]", "<mrow><mo>(</mo><mi>x</mi><mo>]</mo></mrow>"),
    (r"\mathbb{R}", "<mi>ℝ</mi>"),
    (r"\vec{v}", "<mover><mi>v</mi><mo>→</mo></mover>"),
    ("f'(x)", "<msup><mi>f</mi><mo>′</mo></msup><mo>(</mo><mi>x</mi><mo>)</mo>"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
     "<mrow><mo>(</mo><mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr>"
     "<mtr><mtd><mn>3</mn></mtd><mtd><mn>4</mn></mtd></mtr></mtable><mo>)</mo></mrow>"),
    (r"\unknown", "<mtext>\\unknown</mtext>"),
    ("}", "<mrow></mrow>"),
    (r"\frac{", "<mfrac><mrow></mrow><mrow></mrow></mfrac>"),
])
def test_maths_becomes_mathml(chat, source, expected):
    assert maths(chat, source) == expected


def test_maths_is_found_in_a_text_and_prices_are_not(chat):
    text = shown(chat, "From $5 to $10, $x^2$ and \\(y\\).\n\n$$\n\\int_0^1 x\\,dx\n$$\n\n\\[ e^{i\\pi} = -1 \\]")
    expect(text.locator("p math")).to_have_count(2)
    expect(text.locator("p").first).to_contain_text("From $5 to $10,")
    expect(text.locator(".formula math[display=block]")).to_have_count(2)


@pytest.mark.parametrize("hostile", [
    "*" * 100_000, "*a " * 50_000, "[" * 100_000, "[a](" * 50_000, "> " * 20_000 + "x", "`" * 50_000 + " x " + "``" * 20_000,
    "$" * 100_000, "\\(" * 50_000, "# " + " " * 100_000 + "x", "~~~" + " " * 100_000 + "`", "| " * 50_000 + "\n" + "|-" * 50_000,
    "- " * 50_000, "\n".join(" " * i + "- x" for i in range(400)), "$" + "{" * 4_000 + "$", "$" + "\\sqrt" * 1_000 + "$",
    "_" + "a_" * 50_000, "http://a" + "." * 100_000 + "x", "-" + " " * 100_000 + "x\n-" + " " * 100_000 + "|", "\\[\n" * 20_000,
    "<" * 100_000, "[a](https://b.example '" * 20_000, "**a*" * 30_000, "h" * 200_000, "~" * 100_000 + "`",
])
def test_hostile_text_is_shown_in_no_time(chat, hostile):
    took = chat.page.evaluate("""async (text) => {
      const { MarkdownView } = await import("/web/js/markdown.js");
      const node = document.createElement("div");
      const began = performance.now();
      new MarkdownView(node).show(text);
      const depth = (node) => 1 + Math.max(0, ...[...node.children].slice(0, 2000).map(depth));
      return [performance.now() - began, depth(node)];
    }""", hostile)
    assert took[0] < 8000, "slower than linear"  # well below a second, but for other work on the machine
    assert took[1] < 150, "nested too deep to be drawn"


def test_a_huge_reply_is_shown_and_the_page_stays_alive(chat):
    began = time.monotonic()
    paragraph = "A **paragraph** with `code`, $x^2$ and a [link](https://perigee.example).\n\n"
    text = shown(chat, paragraph * 5_000)
    expect(text.locator("> p")).to_have_count(5_000)
    chat.ask("Still there?")
    expect(chat.questions).to_have_count(2)
    assert time.monotonic() - began < 60
