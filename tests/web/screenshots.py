#!/usr/bin/env python3
"""Makes the images of docs/web-page.md: build/web/bin/python tests/web/screenshots.py FOLDER, PERIGEE naming the program.

What the model says and what the machine does is made up here: models/nano knows no integrals and streams nothing.
"""

import random
import sys
from pathlib import Path

from _chromium import chromium
from _model import ScriptedModel, stream
from conftest import chat_in, serving
from page_test import state

ANSWER = """The integral is a **Gaussian** one, and its value is

$$\\int_{-\\infty}^{\\infty} e^{-x^2/2}\\,dx = \\sqrt{2\\pi} \\approx 2.5066$$

| $n$ | $\\int x^n e^{-x^2/2}\\,dx$ | in words |
|---:|:---|:---|
| 0 | $\\sqrt{2\\pi}$ | the area |
| 2 | $\\sqrt{2\\pi}$ | the variance, times the area |

```python
from math import pi, sqrt
print(sqrt(2 * pi))  # 2.5066282746310002
```
"""
KEPT_ANSWERS = 120  # web/js/machine_view.js
THOUGHT = "The substitution to polar coordinates gives the square root of two pi. I check the number with the tool."
CALLS = [("calculate", '{"expression": "sqrt(2 * pi)"}')]


def busy_states():
    """One answer of /v1/state after another, of a machine that streams."""
    chance = random.Random(1)
    now = state()
    experts = now["machine"]["experts"]
    while True:
        speed = 1.2 + 0.5 * chance.random()
        now["tokens"]["generated_per_second"] = speed
        now["tokens"]["prompt_per_second"] = 10 * chance.random()
        now["jobs"]["running"] = chance.choice([3, 3, 4, 5])
        experts["bytes"]["read_demand"] += (2.0 + 0.8 * chance.random()) * 1e9
        experts["bytes"]["used"] += 30e9
        experts["hits"]["pinned"] += 500
        experts["misses"] += 300
        yield now


def talk(chat):
    ScriptedModel(chat.page, stream(reasoning=THOUGHT, calls=CALLS), stream(ANSWER, reasoning="Now the answer."))
    chat.page.get_by_role("switch", name="Demo tools").check()
    chat.ask("What is the integral of exp(-x²/2) over the real line?")
    chat.expect_end()
    chat.page.mouse.move(0, 0)


def show_machine(chat):
    """Its drawings need two minutes of answers; the page's clock is turned."""
    answers = busy_states()
    chat.page.route("**/v1/state", lambda route: route.fulfill(json=next(answers)))
    chat.page.clock.install()
    chat.page.get_by_role("link", name="Machine").click()
    for _ in range(KEPT_ANSWERS):
        with chat.page.expect_response("**/v1/state"):
            chat.page.clock.run_for(1000)
    chat.page.mouse.move(0, 0)


def main(folder):
    pictures = (("web-chat", "light", (1100, 820), talk), ("web-dark", "dark", (1100, 820), talk),
                ("web-narrow", "light", (390, 780), talk), ("web-machine", "light", (1100, 980), show_machine))
    with chromium() as browser, serving() as server:
        for name, scheme, (width, height), prepare in pictures:
            with chat_in(browser, server.url, color_scheme=scheme) as chat:
                chat.page.set_viewport_size({"width": width, "height": height})
                prepare(chat.open())
                chat.page.screenshot(path=Path(folder) / f"{name}.png")


if __name__ == "__main__":
    main(sys.argv[1])
