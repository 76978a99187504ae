"""The page of the papers' claims, from what the recipes found.

    python recipes/make_results.py            # write recipes/results.md anew from recipes/results/*.json
    python recipes/make_results.py --quick    # print the table, write nothing but the picture

Each recipe decides its paper's claims and with ``--out recipes/results`` leaves a file of them and a picture there. This
program puts them in one table, with a section for each recipe, into the part of the page that is between its marks.
"""

import argparse
import json
import textwrap
from collections import Counter
from pathlib import Path

import common
import pandas as pd

from lambdaplug import plotting

HERE = Path(__file__).parent
START, END = "<!-- made by make_results.py: start -->\n", "<!-- made by make_results.py: end -->\n"
ORDER = ["graded_clicks", "moving_target", "direct_approximation", "numerical_gradients", "constructions"]
ORDER += ["local_optimality", "match_the_measure", "speed_up"]
LOOKS = {"confirmed": (plotting.BLUE, "o"), "refuted": (plotting.ORANGE, "s"), "undecided": ("0.5", "^")}
RULES = """A claim says that one thing is ahead of another. It is confirmed where the 95 % interval of the difference, paired query by query, is
above 0, and refuted where it is below the effect that the paper found (where the paper says "significant" without a number, below the least
that is significant with as many queries as it tested on; where it shows a figure and says no more than "yes", below 0). "No loss" is
confirmed above minus the margin named. That fewer than 1 % of directions improve is confirmed where the interval of their share is below
1 %, and refuted where it is above. The power is the chance of a confirmation if the paper's effect is the true one, with the queries
tested here; for "significant" and "yes" that effect is the least that is significant with as many queries (or weights) as the paper looked
at, so that this power says only how many more are tested here; of directions it is the chance of no confirmation if 1 % improve.
"Deviation" is the standard deviation of the differences.

The intervals are over test queries, as in the papers. Where there are several data sets, each with its own trainings, "alike" counts those
whose mean is on the side of all, and "over data sets" is the interval with their means as the sample: wider where trainings vary more than
queries explain, and always wide for few data sets. Where one data set alone would confirm a claim and another refute it, that interval
decides. Generated labels are easier to predict than the web's: the tables show how much."""


def read(folder):
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")}
    return [found[name] for name in [*ORDER, *sorted(set(found) - set(ORDER))] if name in found]


def rows_of(found):
    """A row of the table for each claim."""
    for one in found:
        for claim in one["claims"]:
            alike = sum((mean > 0) == (claim["here"] > 0) for mean in claim["sets"])
            stricter = claim.get("stricter")
            sign = "+" if claim["unit"] == "points" else ""
            unit = "" if claim["unit"] == "points" else f" {claim['unit']}"
            here = f"{claim['here']:{sign}.2f} ({claim['low']:{sign}.2f} to {claim['high']:{sign}.2f}){unit}"
            yield {
                "paper": claim["paper"],
                "claim": claim["claim"],
                "there": claim["there"],
                "here (95 %)": here,
                "over data sets": "" if stricter is None else f"{stricter[0]:{sign}.2f} to {stricter[1]:{sign}.2f}",
                "deviation": "" if claim["spread"] is None else f"{claim['spread']:.2f}",
                "tested": f"{claim['tested']:,} {claim['over']}",
                "alike": f"{alike} of {len(claim['sets'])}" if len(claim["sets"]) > 1 else "",
                "for 0.8": "" if claim["needed"] is None else f"{claim['needed']:,}",
                "power": "" if claim["power"] is None else f"{claim['power']:.2f}",
                "verdict": claim["verdict"],
                "command": f"`{one['command']}`",
            }


def summary(found):
    claims = [claim for one in found for claim in one["claims"]]
    counts = Counter(claim["verdict"] for claim in claims)
    sure = sum(claim["verdict"] != "undecided" and (claim["power"] or 0.0) >= 0.8 for claim in claims)
    several = [claim for claim in claims if claim.get("stricter")]
    same = sum(claim["stricter"][2] == claim["verdict"] for claim in several)
    return (
        f"{len(claims)} claims of the papers: {counts['confirmed']} confirmed, {counts['refuted']} refuted, "
        f"{counts['undecided']} undecided ({1 - counts['undecided'] / len(claims):.0%} decided). Decided with a power of at "
        f"least 0.8: {sure} ({sure / len(claims):.0%} of all). Of the {len(several)} with an interval over data sets, {same} have the same verdict by it."
    )


def markdown(table):
    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in table.itertuples(index=False))])


def section(one):
    """What a recipe said, with its picture."""
    title, _, rest = one["about"].partition("\n")
    paragraphs = rest.strip().split("\n\n")
    about = " ".join(paragraphs[-1].split())
    with_ = ", ".join(f"{name} {number}" for name, number in one["made with"].items())
    counts = Counter(claim["verdict"] for claim in one["claims"])
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in LOOKS if counts[verdict])
    text = "\n".join(line.rstrip() for line in one["text"]).strip("\n")
    time = f"{one['processor minutes']:g} minutes of processor time"
    return "\n".join(
        [
            f"### {title.rstrip('.')}",
            "",
            f"{about} `{one['command']}`, {time}, with {with_}. Claims: {verdicts}.",
            "",
            f"```\n{text}\n```",
            "",
            f"![{title}](results/{one['recipe']}.png)",
            "",
        ]
    )


def draw(found, path):
    """Every claim in points, under its paper: what was found here with its interval, and the paper's effect."""
    lines = []
    for one in found:
        claims = [claim for claim in one["claims"] if claim["unit"] == "points"]
        if claims:
            paper = claims[0]["paper"].rpartition(", ")[0]
            lines += [(f"{paper}: {one['recipe']}.py", None), *((claim["claim"], claim) for claim in claims)]
    figure, (axis,) = common.panels("AA", 1.5 + 0.29 * len(lines))
    for number, (_, claim) in enumerate(lines):
        if claim:
            colour, mark = LOOKS[claim["verdict"]]
            axis.plot([claim["low"], claim["high"]], [number, number], color=colour, lw=2)
            axis.plot(claim["here"], number, mark, color=colour, ms=5)
            if claim["effect"] is not None and claim.get("said") != "yes":
                axis.plot(claim["effect"], number, "x", color="black", ms=5)
    for verdict, (colour, mark) in LOOKS.items():
        axis.plot([], [], f"{mark}-", color=colour, label=verdict)
    axis.plot([], [], "x", color="black", ls="", label="the paper's effect")
    axis.axvline(0, color="0.3", lw=0.8)
    axis.set_yticks(range(len(lines)), [textwrap.fill(text, 56) for text, _ in lines], fontsize=8)
    for label, (_, claim) in zip(axis.get_yticklabels(), lines, strict=True):
        label.set_fontweight("normal" if claim else "bold")
    axis.set_ylim(len(lines) - 0.4, -0.6)
    axis.set_xscale("symlog", linthresh=2)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("points, 95 % intervals\n(linear from -2 to 2, then logarithmic)")
    title = "The papers' claims: the effect found here, and the paper's"
    figure.legend(loc="outside upper left", ncols=4, title=title, alignment="left")
    common.small_picture(figure, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", default=HERE / "results", type=Path, help="where the recipes left what they found")
    parser.add_argument("--page", default=HERE / "results.md", type=Path, help="the page to write into")
    parser.add_argument("--quick", action="store_true", help="print the table only")
    parser.add_argument("--plot", help="where the picture goes; default: claims.png beside the results")
    options = parser.parse_args()
    found = read(options.results)
    table = pd.DataFrame(rows_of(found))
    draw(found, options.plot or options.results / "claims.png")
    print(table.drop(columns="command").to_string(index=False))
    print(summary(found))
    if not options.quick:
        page = options.page.read_text("utf-8")
        before, _, rest = page.partition(START)
        after = rest.partition(END)[2]
        parts = [
            summary(found),
            RULES,
            markdown(table),
            "![The papers' claims](results/claims.png)",
            *map(section, found),
        ]
        options.page.write_text(before + START + "\n" + "\n\n".join(parts) + END + after, "utf-8")


if __name__ == "__main__":
    main()
