"""A page for each folder of committed results, and links that lead there.

Pages link to files of the repository, as in `../results/rivals/table.md`, so that the links work
there, too. On the site, the same link opens the page of the folder at that table.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from reference_pages import save

LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")
NOT_SHOWN = {"versions", "files", "by", "imported"}


def write(docs: Path) -> None:
    """Write generated/results/FOLDER.md for each folder under results/, and an index."""
    results, out = docs.parent / "results", docs / "generated" / "results"
    out.mkdir(parents=True, exist_ok=True)
    for folder in sorted(path for path in results.iterdir() if path.is_dir()):
        save(out / f"{folder.name}.md", folder_page(folder, out))
    index = relink((results / "README.md").read_text(), results, docs, out)
    pages = "\n".join(sorted(path.stem for path in out.glob("*.md") if path.stem != "index"))
    save(out / "index.md", f"{index}\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n")


def folder_page(folder: Path, out: Path) -> str:
    """Tables, figures, and how they were made."""
    lines = [f"# {folder.name}", ""]
    for path in sorted(folder.glob("*.md")):
        lines += [f"## {path.stem}", "", path.read_text().strip(), ""]
    for path in sorted(folder.glob("*.png")):
        lines += [f"## Figure: {path.stem}", "", f"![{path.stem}]({_relative(path, out)})", ""]
    made = folder / "made.json"
    if made.exists():
        lines += ["## How it was made", "", *_made(json.loads(made.read_text())), ""]
    return "\n".join(lines)


def _made(made: dict) -> list[str]:
    lines = ["| | |", "|---|---|"]
    for name, value in made.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        if name not in NOT_SHOWN and shown:
            code = f"`{shown}`" if name == "command" else shown
            lines.append(f"| {name} | {code} |")
    return lines


def relink(text: str, here: Path, docs: Path, out: Path) -> str:
    """A page of the folder `here` with its links made those of a page of the folder `out`."""
    root, generated = docs.parent, docs / "generated" / "results"

    def new(match: re.Match) -> str:
        target, anchor = (here / match[1]).resolve(), match[2] or ""
        if target == root / "README.md":
            target, anchor = docs / "index.md", ""
        elif target == root / "results" or target == root / "results" / "README.md":
            target = generated / "index.md"
        elif target.parent == root / "results" and target.is_dir():
            target = generated / f"{target.name}.md"
        elif target.suffix == ".md" and target.parent.parent == root / "results":
            anchor, target = f"#{target.stem}", generated / f"{target.parent.name}.md"
        return f"]({_relative(target, out)}{anchor})"

    return LINK.sub(new, text)


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path, folder)
