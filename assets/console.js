// What the console does in the browser without asking the server: copying, guards of paid buttons, sheets,
// tips, followed logs, and the keyboard. All of it listens on the document, so React may draw as it likes.
(() => {
  const find = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const remembered = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
  const remember = (key, value) => { try { localStorage.setItem(key, value); } catch { /* switched off */ } };
  const opened = () => find("dialog[open]") || find("[role=alertdialog],[role=dialog]:not(dialog)");

  // A paid button counts once: every later click on the same element is swallowed before React sees it.
  document.addEventListener("click", (event) => {
    const once = event.target.closest?.("[data-once]");
    if (!once) return;
    if (once.dataset.spent) { event.preventDefault(); event.stopImmediatePropagation(); return; }
    once.dataset.spent = "1";
    once.setAttribute("aria-disabled", "true");
  }, true);
  // ... and Enter does not press it; Space and the pointer do.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.closest?.("[data-no-enter]")) event.preventDefault();
  }, true);

  const copied = new WeakMap();
  const copy = async (button) => {
    const source = button.dataset.copyFrom ? find(button.dataset.copyFrom)?.innerText : button.dataset.copy;
    try { await navigator.clipboard.writeText(source || ""); } catch { return; }
    button.setAttribute("data-copied", "");
    const said = find("#said");
    if (said) said.textContent = "Copied.";
    clearTimeout(copied.get(button));
    copied.set(button, setTimeout(() => { button.removeAttribute("data-copied"); if (said) said.textContent = ""; }, 1600));
  };

  const open = (id) => {
    const sheet = document.getElementById(id);
    if (!sheet || sheet.open) return;
    if (id === "palette") fillPalette("");
    if (id === "shortcuts") find("#shortcuts-on").checked = shortcutsOn();
    sheet.showModal();
  };

  document.addEventListener("click", (event) => {
    const target = event.target;
    if (!target.closest) return;
    const button = target.closest("[data-copy],[data-copy-from]");
    if (button) copy(button);
    const opener = target.closest("[data-opens]");
    if (opener) open(opener.dataset.opens);
    const sheet = target.closest("dialog");
    if (sheet && (target === sheet || target.closest("[data-closes]") || (sheet.classList.contains("drawer") && target.closest("a")))) sheet.close();
    const menu = target.closest("[popover]");
    if (menu && target.closest("a")) menu.hidePopover();
  });

  // Tips: a popover beside the button that owns it; opened by hovering, focus by keyboard, or a tap.
  const place = (tip) => {
    const owner = find(`[popovertarget="${tip.id}"]`);
    if (!owner) return;
    const at = owner.getBoundingClientRect(), size = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(at.left - 12, innerWidth - size.width - 8))}px`;
    tip.style.top = `${at.bottom + 8 + size.height > innerHeight ? at.top - size.height - 6 : at.bottom + 6}px`;
  };
  document.addEventListener("toggle", (event) => {
    if (event.newState === "open" && event.target.classList?.contains("tip")) place(event.target);
  }, true);
  const tipOf = (event) => {
    const owner = event.target.closest?.(".why[popovertarget]");
    return owner && document.getElementById(owner.getAttribute("popovertarget"));
  };
  document.addEventListener("pointerover", (event) => { if (event.pointerType === "mouse") tipOf(event)?.showPopover?.(); });
  document.addEventListener("pointerout", (event) => { if (event.pointerType === "mouse") tipOf(event)?.hidePopover?.(); });

  // Followed logs stay at their end; scrolling up is reading, so it is left alone until the end is reached again.
  const follow = (log) => { if (log.dataset.follow === "true" && !log.dataset.reading) log.scrollTop = log.scrollHeight; };
  const watched = new WeakSet();
  const watchLogs = () => all(".log").forEach((log) => {
    if (watched.has(log)) return;
    watched.add(log);
    follow(log);
    log.addEventListener("scroll", () => {
      if (log.scrollHeight - log.scrollTop - log.clientHeight < 24) delete log.dataset.reading; else log.dataset.reading = "1";
    }, { passive: true });
    new MutationObserver(() => follow(log)).observe(log, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-follow"] });
  });

  // The tab's title says how far a live page is; the page writes it into an attribute.
  const retitle = () => {
    const said = find("[data-title]")?.dataset.title;
    if (said && document.title !== said) document.title = said;
  };
  new MutationObserver(retitle).observe(document.documentElement, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-title"] });

  // Keyboard.
  const shortcutsOn = () => remembered("shortcuts") !== "off";
  document.addEventListener("change", (event) => {
    if (event.target.id === "shortcuts-on") remember("shortcuts", event.target.checked ? "on" : "off");
  });
  const writes = (element) => element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) && !/^(checkbox|radio|button)$/.test(element.type);
  const mark = (row) => {
    all("[data-cursor]").forEach((other) => other.removeAttribute("data-cursor"));
    row.setAttribute("data-cursor", "");
    row.scrollIntoView({ block: "nearest" });
    (find(".row-link", row) || find("button", row))?.focus({ preventScroll: true });
  };
  const step = (by) => {
    const rows = all("[data-row]").filter((row) => row.offsetParent);
    if (!rows.length) return;
    const now = rows.findIndex((row) => row.hasAttribute("data-cursor"));
    mark(rows[Math.max(0, Math.min(rows.length - 1, now < 0 ? (by > 0 ? 0 : rows.length - 1) : now + by))]);
  };
  const press = (selector) => { const element = find(selector); if (element) element.click(); return Boolean(element); };
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (find("#palette")?.open) find("#palette").close(); else if (!opened()) open("palette");
      return;
    }
    if (event.metaKey || event.ctrlKey || event.altKey || !shortcutsOn() || writes(event.target) || opened()) return;
    if (going && Date.now() - going < 1500) {
      going = 0;
      if (press(`.app>.rail [data-go="${CSS.escape(event.key)}"]`)) { event.preventDefault(); return; }
    }
    const done = {
      g: () => { going = Date.now(); return true; },
      j: () => (step(1), true),
      k: () => (step(-1), true),
      x: () => press("[data-cursor] [role=checkbox]"),
      "/": () => { const field = find("[data-search]"); field?.focus(); return Boolean(field); },
      "?": () => (open("shortcuts"), true),
    }[event.key] || (/^[a-z0-9]$/.test(event.key) ? () => press(`[data-key="${event.key}"]:not([disabled])`) : null);
    if (done && done()) event.preventDefault();
  });

  // What was typed outlives a page that is drawn anew because the session or the server was gone.
  const typed = new Set();
  let kept = new Map(), keptUntil = 0;
  const valueOf = (field) => (field.type === "checkbox" ? field.checked : field.value);
  document.addEventListener("input", ({ target }) => { if (target.id && /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) typed.add(target.id); });
  document.addEventListener("submit", ({ target }) => all("[id]", target).forEach((field) => typed.delete(field.id)));
  const keep = () => {
    kept = new Map([...typed].map((id) => document.getElementById(id)).filter(Boolean).map((field) => [field.id, [location.pathname, valueOf(field)]]));
  };
  const giveBack = () => {
    if (Date.now() > keptUntil) return;
    kept.forEach(([path, value], id) => {
      const field = document.getElementById(id);
      if (!field || path !== location.pathname || valueOf(field) === value || field === document.activeElement) return;
      if (field.type === "checkbox") { field.click(); return; }
      Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value").set.call(field, value);
      field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input", { bubbles: true }));
    });
  };
  new MutationObserver(() => {
    if (document.documentElement.hasAttribute("data-connection")) { if (Date.now() > keptUntil) keep(); keptUntil = Infinity; }
    else if (keptUntil === Infinity) { keptUntil = Date.now() + 15000; giveBack(); }
  }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-connection"] });

  // Palette: every place of the rail and every command the page offers, filtered as one types.
  let choices = [], chosen = 0;
  const draw = () => {
    const list = find("#palette-list"), input = find("#palette-input");
    list.replaceChildren(...choices.map((choice, index) => {
      const item = document.createElement("li");
      item.id = `palette-${index}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", String(index === chosen));
      item.append(choice.word);
      if (choice.keys) { const keys = document.createElement("span"); keys.className = "kbd"; keys.textContent = choice.keys; item.append(keys); }
      item.addEventListener("click", () => run(index));
      return item;
    }));
    find("#palette-none").hidden = choices.length > 0;
    input.setAttribute("aria-activedescendant", choices.length ? `palette-${chosen}` : "");
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const fillPalette = (typed) => {
    const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
    const places = [".page [data-command]", ".app>.rail [data-go]", ".page .row-link", "#projects-menu a"];
    const commands = places.flatMap((place) => all(place)).map((element) => ({
      element,
      word: element.dataset.command || element.getAttribute("aria-label") || element.textContent.trim(),
      keys: element.dataset.go ? `g ${element.dataset.go}` : element.dataset.key || "",
    }));
    choices = commands.filter(({ word }) => words.every((part) => word.toLowerCase().includes(part))).slice(0, 40);
    chosen = 0;
    const input = find("#palette-input");
    if (!typed) input.value = "";
    draw();
  };
  const run = (index) => { const choice = choices[index]; find("#palette").close(); choice?.element.click(); };
  document.addEventListener("input", (event) => { if (event.target.id === "palette-input") fillPalette(event.target.value); });
  document.addEventListener("keydown", (event) => {
    if (event.target.id !== "palette-input") return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : choices.length - 1)) % Math.max(1, choices.length);
      draw();
    } else if (event.key === "Enter") { event.preventDefault(); run(chosen); }
  });

  const start = () => {
    watchLogs();
    new MutationObserver(() => { watchLogs(); giveBack(); }).observe(document.body, { childList: true, subtree: true });
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
