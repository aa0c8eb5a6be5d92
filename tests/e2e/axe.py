"""What axe-core finds on an open page; `axe.min.js` is axe-core 4.14.1 (MPL-2.0, axe.LICENSE.txt), for tests only."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page

_SCRIPT = Path(__file__).with_name("axe.min.js")
_RUN = """async ([within, only]) => {
  return (await axe.run(within || document, {
    resultTypes: ["violations"],
    rules: only ? {} : { "target-size": { enabled: true } },
    ...(only ? { runOnly: only } : {}),
  })).violations
  .filter((found) => ["serious", "critical"].includes(found.impact))
  .map((found) => ({ id: found.id, nodes: found.nodes.filter((node) => !isUnderABar(node)) }))
  .filter((found) => found.nodes.length)
  .map((found) => `${found.id}: ${found.nodes.map((node) => node.target.join(" ")).join(", ")}`);
  // What sticks to an edge of the window covers whatever has been scrolled under it.
  function isUnderABar(node) {
    const over = node.any.flatMap((check) => check.relatedNodes).map((other) => document.querySelector(other.target[0]));
    return node.any.some((check) => check.id === "target-size") && over.some((one) => one?.closest(".dock, .bar"));
  }
}"""


def serious_findings(page: Page, *only: str, within: str = "") -> list[str]:
    """Serious and critical ones of all rules, or of `only` some, as "rule: where, where"; on all of the page, or `within`.

    Evaluated in the page, so no policy of its own can stop it.
    """
    if not page.evaluate("Boolean(window.axe)"):
        page.evaluate(_SCRIPT.read_text())
    found: list[str] = page.evaluate(_RUN, [within, list(only) or None])
    return found
