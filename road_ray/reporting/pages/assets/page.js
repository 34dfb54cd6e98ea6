"use strict";
// Tables sort and filter; a row and its marks in the figures light up together.
(() => {
  const rows = new Map(), marks = new Map();
  for (const row of document.querySelectorAll("tr[id]")) rows.set(row.id, row);
  for (const mark of document.querySelectorAll("svg a")) {
    const trial = mark.href.baseVal.slice(1);
    if (!marks.has(trial)) marks.set(trial, []);
    marks.get(trial).push(mark);
  }

  const valueOf = (cell) => (cell.dataset.v === undefined ? cell.textContent : cell.dataset.v);
  function compare(a, b) {
    const [x, y] = [Number(a), Number(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y;
  }
  function sort(head, column) {
    const down = head.getAttribute("aria-sort") === "ascending";
    const body = head.closest("table").tBodies[0];
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keyed = [...body.rows].map((row) => [valueOf(row.cells[column]), row]);
    const empty = (key) => key === "–" || key === "";
    keyed.sort(([a], [b]) => empty(a) - empty(b) || (down ? -compare(a, b) : compare(a, b)));
    body.append(...keyed.map(([, row]) => row));
  }

  // "word", or "column<number" with < <= > >= = ; all of them must hold. A column by part of its name.
  function tests(text, names) {
    return text.toLowerCase().split(/\s+/).filter(Boolean).map((term) => {
      const found = term.match(/^(.+?)(<=|>=|<|>|=)(.+)$/);
      const column = found ? names.findIndex((name) => name.includes(found[1])) : -1;
      if (column < 0) return (row) => row.textContent.toLowerCase().includes(term);
      return (row) => {
        const cell = valueOf(row.cells[column]), wanted = found[3];
        if (cell === "–") return false;
        const order = Number.isNaN(Number(wanted)) ? cell.toLowerCase().localeCompare(wanted) : compare(cell, wanted);
        return { "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0, "=": order === 0 }[found[2]];
      };
    });
  }
  function filter(input) {
    const tools = input.closest(".tools"), table = tools.nextElementSibling.querySelector("table");
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim().toLowerCase());
    const wanted = tests(input.value, names);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const off = !wanted.every((holds) => holds(row));
      shown += !off;
      row.classList.toggle("off", off);
      for (const mark of marks.get(row.id) || []) mark.classList.toggle("off", off);
    }
    const all = table.tBodies[0].rows.length;
    tools.querySelector(".found").textContent = shown === all ? `${all} rows` : `${shown} of ${all} rows`;
  }

  for (const table of document.querySelectorAll("table.live")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      head.addEventListener("click", () => sort(head, column));
    });
  }
  for (const input of document.querySelectorAll(".filter")) input.addEventListener("input", () => filter(input));

  const hint = Object.assign(document.createElement("div"), { id: "hint", hidden: true });
  document.body.append(hint);
  let lit = null;
  function light(trial, event) {
    for (const [name, on] of [[lit, false], [trial, true]]) {
      for (const mark of marks.get(name) || []) mark.classList.toggle("lit", on);
      rows.get(name)?.classList.toggle("lit", on);
    }
    lit = trial;
    const row = rows.get(trial), inFigure = event && event.target.closest("svg");
    hint.hidden = !(row && inFigure);
    if (hint.hidden) return;
    const names = [...row.closest("table").tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    hint.textContent = [...row.cells].slice(0, 12).map((cell, n) => `${names[n]}: ${cell.textContent}`).join("\n");
    const { innerWidth: width, innerHeight: height } = window;
    hint.style.left = `${Math.min(event.clientX + 14, width - hint.offsetWidth - 8)}px`;
    hint.style.top = `${Math.min(event.clientY + 14, height - hint.offsetHeight - 8)}px`;
  }
  const trialOf = ({ target }) => target.closest?.("svg a")?.href.baseVal.slice(1) ?? target.closest?.("tr[id]")?.id ?? null;
  document.addEventListener("pointerover", (event) => { const trial = trialOf(event); if (trial !== lit) light(trial, event); });
  addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
})();
