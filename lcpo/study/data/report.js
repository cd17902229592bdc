"use strict";
// A click on a title sorts; a second one turns the order around. Cells without a number come last.
for (const table of document.querySelectorAll("table")) {
  const titles = Array.from(table.tHead.rows[0].cells);
  titles.forEach((title, column) => {
    title.querySelector("button").addEventListener("click", () => {
      const down = title.getAttribute("aria-sort") === "ascending";
      for (const other of titles) other.removeAttribute("aria-sort");
      title.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(table.tBodies[0], column, down ? -1 : 1);
    });
  });
}

function sort(body, column, sign) {
  const words = new Intl.Collator("en", { numeric: true });
  const rows = Array.from(body.rows, (row) => {
    const cell = row.cells[column];
    const text = cell.textContent.trim();
    const known = "n" in cell.dataset;
    return { row, text, number: known ? Number(cell.dataset.n) : NaN, empty: !text || text === "-" };
  });
  const numeric = rows.some((r) => !Number.isNaN(r.number));
  rows.sort((a, b) => {
    const last = numeric
      ? Number.isNaN(a.number) - Number.isNaN(b.number)
      : a.empty - b.empty;
    if (last) return last;
    if (numeric && !Number.isNaN(a.number)) return sign * (a.number - b.number);
    return sign * words.compare(a.text, b.text);
  });
  body.append(...rows.map((r) => r.row));
}

// A row is shown if it has every word.
for (const field of document.querySelectorAll(".filter input")) {
  const box = field.closest("details");
  const rows = Array.from(box.querySelector("tbody").rows);
  const texts = rows.map((row) =>
    Array.from(row.cells, (cell) => cell.textContent).join(" ").toLowerCase());
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    rows.forEach((row, i) => {
      row.hidden = !wanted.every((word) => texts[i].includes(word));
      count += !row.hidden;
    });
    box.querySelector("output").textContent = wanted.length ? `${count} of ${rows.length}` : "";
  });
}
