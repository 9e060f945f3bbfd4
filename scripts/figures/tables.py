"""Tables of Markdown files."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]


def table(file, heading, columns=()):
    """The rows of the first table with these columns below a heading that begins with `heading`;
    each row is a dict by column."""
    lines = (ROOT / file).read_text().splitlines()
    below, header = False, None
    rows = []
    for line in lines:
        if line.startswith("#"):
            if rows:
                break
            below = line.lstrip("# ").startswith(heading)
        elif below and line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if header is None:
                header = cells
            elif set("".join(cells)) <= set("-: "):
                if not set(columns) <= set(header):
                    header = ()  # another table
            elif header:
                rows.append(dict(zip(header, cells)))
        elif rows:
            break
        else:
            header = None
    if not rows:
        raise SystemExit(f"{file}: no table with columns {', '.join(columns)} below '{heading}'")
    return rows


def number(cell):
    """The first number of a cell such as `**0.63**` or `74.0 (72.3..83.5)`; None if it has none."""
    found = re.search(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?", cell)
    return float(found[0].replace(",", "")) if found else None
