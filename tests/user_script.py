"""What a team writes: the lines of README and guide, with types. tests/test_types.py checks it as mypy and pyright see it."""

from collections.abc import Sequence

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import xgboost as xgb

import lambdaplug as lp

Floats = npt.NDArray[np.float64]

data: lp.data.RankingData = lp.data.cubic(queries=40, documents=12)
X, y, group, qid = data.X, data.labels, data.group, data.qid
train, valid, test = data.split(0.6, 0.2, 0.2)


def objectives() -> Sequence[lp.objectives.Objective]:
    own = lp.custom("best", best, k=3)
    ndcg = lp.LambdaRank(
        lp.NDCG(k=10, gain=[0, 1, 3, 7, 15]), noise=lp.cosine(2.0, 0.5, 100), construction="local_cost"
    )
    moving = lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("map"), weight=lp.linear(0.0, 0.02))
    several = lp.Mixture([(0.7, lp.objective("ndcg@10")), (lp.step({0: 0.1, 50: 0.5}), lp.QuerySoftmax())])
    return [
        lp.objective("map", noise=0.5, seed=1, support="ndcg(gain='linear')"),
        lp.objective(lp.MAP(relevant=2), support=None),
        lp.LambdaRank("mrr", cost=lp.RankNet(distance=0.01), normalize="log", samples=2),
        lp.LambdaRank(own, construction=lp.constructions.LocalCost(window=3)),
        ndcg,
        moving,
        several,
        lp.Graded(
            [lp.LambdaRank("ndcg"), lp.LambdaRank("cndcg")], weights=[0.8, 0.2], guard=lp.guard("ndcg@3", floor=0.6)
        ),
        lp.Pareto([lp.LambdaRank("ndcg@10"), lp.LambdaRank("mrr")], method="mgda", preference=[0.8, 0.2]),
        lp.Unbiased(lp.objective("ndcg@10"), method="additive"),
        lp.Approx("map", alpha=lp.cosine(5, 50, 40)),
        lp.PLRank("ndcg@10", samples=8),
        lp.StochasticRank("err@10", sigma=1.0),
        lp.SPSA("err@10", evaluations=8, c=0.3, seed=0),
        lp.Calibrated(weight=0.5, max_label=4),
        lp.presets.lightgbm(truncation_level=10),
        lp.presets.xgboost(),
    ]


def best(labels: Floats) -> float:
    return float(labels[0])


def with_lightgbm() -> Floats:
    dataset = lp.attach(lgb.Dataset(train.X, train.labels, group=train.group), clicks=train.labels / 4)
    seen = lgb.Dataset(valid.X, valid.labels, group=valid.group)
    objective = lp.Unbiased(lp.objective("map"), position="rows")
    model = lgb.train(
        {"objective": objective, "metric": "None", "verbose": -1},
        dataset,
        num_boost_round=20,
        valid_sets=[seen],
        feval=lp.metric("map", "ndcg@10"),
        callbacks=[lgb.early_stopping(20, verbose=False), lp.callback(objective)],
    )
    folds = lp.query_folds(group, 5)
    lgb.cv({"objective": objective}, lgb.Dataset(X, y, group=group), 20, folds=folds, feval=lp.metric(["map", "mrr"]))
    stamped: lgb.Booster = lp.stamp(model)
    bias = lp.position_bias(model)
    print(bias.propensity[0])
    scores: Floats = np.asarray(stamped.predict(test.X), dtype=np.float64)
    return scores


def with_xgboost() -> float:
    dtrain, dvalid = (xgb.DMatrix(part.X, part.labels, qid=part.qid) for part in (train, valid))
    model = xgb.train(
        {"objective": "rank:ndcg", "disable_default_eval_metric": 1},
        dtrain,
        num_boost_round=20,
        obj=lp.objective("err@10"),
        evals=[(dvalid, "valid")],
        custom_metric=lp.metric("err@10", name="pre-err"),
        early_stopping_rounds=20,
    )
    folds = lp.query_folds(qid=qid, n=3, seed=1)
    xgb.cv({}, xgb.DMatrix(X, y), 20, folds=folds, fpreproc=folds.fpreproc, obj=lp.objective("map"))
    found: dict[str, float] = lp.evaluate(["map", "ndcg@10"], y, model.predict(xgb.DMatrix(X)), group)
    return found["map"]


def rankers() -> float:
    ours = lp.LGBMRanker(objective="map", n_estimators=20, verbose=-1).fit(X, y, group=group)
    theirs = lp.XGBRanker(objective=lp.MRR(k=10), n_estimators=20, eval_metric=lp.metric("mrr@10")).fit(X, y, qid=qid)
    scores: Floats = np.asarray(ours.predict(X)) + np.asarray(theirs.predict(X))
    plain: xgb.XGBRanker = theirs.plain()
    host: lgb.LGBMRanker = ours.plain()
    ours.fit(X, y, qid=qid, columns={"price": y}, eval_set=[(X, y)], eval_qid=[qid])
    by: float = lp.scorer("ndcg@10", qid=qid)(ours, X, y)
    return by + ours.score(X, y, qid=qid) + theirs.score(X, y, group=group) + float(scores[0]) + len(str((plain, host)))


def reports(scores: Floats) -> None:
    per_query: dict[str, Floats] = lp.evaluate("map", y, scores, group, per_query=True)
    frame = lp.evaluate("map", y, scores, qid=qid, frame=True)
    frame.head()
    one = lp.compare("ndcg@10", y, scores, -scores, group, level=0.9)
    low, high = one.interval
    several = lp.compare("ndcg@10", y, scores, {"minus": -scores}, group)
    p: float = several["minus"].p_t_holm
    board = lp.leaderboard({"old": scores, "new": -scores}, ["ndcg@10", "map"], y, group, baseline="old")
    text: str = board.text + board.markdown()
    check = lp.verify(lp.custom("best", best))
    print(per_query["map"].mean(), low, high, p, text, bool(check), one.plot())
    report = lp.analysis.explain_difference(
        lp.presets.lightgbm(), lp.LambdaRank("map"), labels=y, scores=scores, group=group
    )
    print(report.query_correlation, lp.analysis.calibration(y, scores, max_label=4).ece)
    log = lp.data.simulate_clicks(y, group, users="position", sessions=50, rankings=2, seed=1)
    curve = lp.estimate_propensities(log)
    print(curve.propensity[0], lp.read("LambdaRank('ndcg@10', noise=1)"))
    lp.set_num_threads(2)


def goals() -> None:
    parts = lp.LambdaRank("ndcg@10"), lp.LambdaRank("mrr")
    front = lp.front(
        lambda r: lp.Pareto(parts, preference=[1 - r, r]),
        [0.2, 0.8],
        train,
        valid,
        ["ndcg@10", "mrr"],
        rounds=5,
        progress=False,
    )
    print(
        front.choose("ndcg@10", floor={"mrr": 0.1}),
        lp.step({0: 0.1, 50: 0.5}),
        lp.join([0.5, lp.exponential(0.1, 2)], [100]),
    )
