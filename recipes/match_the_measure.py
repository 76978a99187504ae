"""Which measure to train for: every measure trained for, every one tested, and how it changes with more data.

    python recipes/match_the_measure.py                      # generated data
    python recipes/match_the_measure.py --data train.txt     # your own LETOR / SVMLight file with query ids
    python recipes/match_the_measure.py --plain              # plain LambdaRank, as in the paper, not lp.objective

"On the local optimality of LambdaRank" (2009), section 7.3: NDCG, NDCG@10, MAP and MRR, with a paired t-test of each cell
against training for the measure tested and the number of effective pairs (its Tables 3 and 4), then test MRR over
effective pairs for training sets of several sizes (its Figure 5).
"""

import argparse

import matplotlib
import numpy as np
from tqdm import tqdm

import lambdaplug as lp

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HOSTS = {"LightGBM": "lightgbm", "XGBoost": "xgboost"}
PARAMETERS = {
    "lightgbm": {"learning_rate": 0.1, "num_leaves": 15},
    "xgboost": {"learning_rate": 0.1, "max_leaves": 15, "grow_policy": "lossguide", "max_depth": 0},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a LETOR / SVMLight file with query ids; default: generated data")
    parser.add_argument("--relevant", type=float, help="lowest relevant label; default 2 for generated data, else 1")
    parser.add_argument("--measures", nargs="*", default=[], help="others to train for and test, such as err@10")
    parser.add_argument("--plain", action="store_true", help="train lp.LambdaRank(measure), not lp.objective(measure)")
    parser.add_argument("--rounds", type=int, default=150, help="at most so many trees (validation decides)")
    parser.add_argument("--quick", action="store_true", help="less data, fewer trees, two sizes")
    parser.add_argument("--plot", default="match_the_measure.png", help="where the figures go")
    options = parser.parse_args()
    rounds = 15 if options.quick else options.rounds
    relevant = options.relevant or (1 if options.data else 2)
    average_precision, first = lp.MAP(relevant=relevant), lp.MRR(relevant=relevant)
    measures = ["ndcg", "ndcg@10", average_precision, first, *options.measures]

    if options.data:
        part, valid, test = lp.data.load_letor(options.data).split(0.6, 0.2, 0.2)
    else:
        sizes = (120, 40, 80) if options.quick else (2000, 500, 2000)
        data = lp.data.cubic(sum(sizes), documents=15 if options.quick else 30, features=20, noise=0.5)
        part, valid, test = data.split(*sizes)
    count = len(part.group)
    shares = (0.25, 1) if options.quick else (1 / 16, 1 / 4, 1)

    tables = {}
    given = {"progress": False, "objective": lp.LambdaRank if options.plain else lp.objective}
    with tqdm(total=len(shares) + 1, desc="tables", disable=None) as bar:
        for share in shares:
            some = part.split(share, 1 - share)[0] if share < 1 else part
            tables["LightGBM", len(some.group)] = lp.analysis.match_table(
                some, test, measures, "lightgbm", PARAMETERS["lightgbm"], rounds, valid, **given
            )
            bar.update()
        tables["XGBoost", count] = lp.analysis.match_table(
            part, test, measures, "xgboost", PARAMETERS["xgboost"], rounds, valid, **given
        )
        bar.update()
    smallest = next(iter(tables))
    for host, queries in (smallest, ("LightGBM", count), ("XGBoost", count)):
        print(f"{host}, {queries} training queries, {len(valid.group)} for validation, {len(test.group)} for the test:")
        print(f"{tables[host, queries]}\n")

    column = 3
    print(f"Test {first} as effective pairs grow (LightGBM, Figure 5):")
    names = tables["LightGBM", count].measures
    growth = {name: [] for name in names}
    for (host, queries), table in tables.items():
        if host == "LightGBM":
            for row, name in enumerate(names):
                growth[name].append((table.effective_pairs[row], table.values[row, column], queries))
    for name, points in growth.items():
        print(f"  trained for {name:16}" + "  ".join(f"{value:.4f} ({pairs:,.0f} pairs)" for pairs, value, _ in points))
    # At as many effective pairs as MRR had with all the data, what had the others?
    own = growth[names[column]][-1]
    for name in names[:column]:
        pairs, values, _ = (np.array(x) for x in zip(*growth[name], strict=True))
        if pairs.min() <= own[0] <= pairs.max():
            at = np.interp(np.log(own[0]), np.log(pairs), values)
            verdict = "behind" if at < own[1] else "ahead"
            print(f"  at {own[0]:,.0f} pairs training for {name} reaches {at:.4f}: {verdict} ({own[1]:.4f})")
        else:
            print(
                f"  training for {name} never had as few as {own[0]:,.0f} pairs: at {pairs.min():,.0f} it reaches {values[0]:.4f} (against {own[1]:.4f})"
            )

    figure, axes = plt.subplots(1, 3, figsize=(17, 5))
    for axis, host in zip(axes, HOSTS, strict=False):
        tables[host, count].plot(axis)
        axis.set_title(f"{host}, {count} training queries (Tables 3 and 4)")
    for name, points in growth.items():
        axes[2].plot([point[0] for point in points], [point[1] for point in points], "o-", label=f"trained for {name}")
    axes[2].set(xscale="log", xlabel="effective pairs", ylabel=f"test {first}", title="Figure 5, LightGBM")
    axes[2].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(options.plot, dpi=100)


if __name__ == "__main__":
    main()
