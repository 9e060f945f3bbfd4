"""What all plots have in common. Colours can be told apart on light and on dark ground."""
BLUE, ORANGE, GREEN, PURPLE, RED, GRAY = (
    "#3b82c4", "#d9822b", "#3a9d5d", "#8e6bbf", "#cf4f4f", "#9aa0a8")
LINES = [BLUE, ORANGE, GREEN, PURPLE, RED, GRAY]


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def head(width=760, height=380, left=12, right=3, top=1.5, bottom=3.5):
    """Margins are in characters."""
    return (f"set terminal svg size {width},{height} dynamic noenhanced font 'sans-serif,14'\n"
            "set encoding utf8\n"
            f"set lmargin {left}\nset rmargin {right}\nset tmargin {top}\nset bmargin {bottom}\n"
            f"set grid lc rgb '{GRAY}' lt 1 lw 0.4\nset tics nomirror\nset border 3\n")


def lines(named, style="lw 2 pt 7 ps 0.6"):
    """Data blocks and the plot command of lines: [(title, [(x, y), ...]), ...]."""
    text, plots = "", []
    for place, (title, points) in enumerate(named):
        text += f"$line{place} << EOD\n" + "".join(f"{x} {y}\n" for x, y in points) + "EOD\n"
        plots.append(f"$line{place} using 1:2 with linespoints {style} "
                     f"lc rgb '{LINES[place % len(LINES)]}' title {quoted(title)}")
    return text + "plot " + ", ".join(plots)
