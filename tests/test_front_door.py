"""What people type: query ids, frames, scikit-learn's tools, Optuna, old names, tables in notebooks."""

import ast
import functools
import importlib.util
import inspect
import logging
import pickle
import re
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import sklearn
import xgboost as xgb
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lambdaplug as lp

pytestmark = pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")

DATA = lp.data.cubic(queries=24, documents=8, features=4)
X, Y, GROUP = DATA
QID = np.array([f"q{number}" for number in DATA.qid])  # text, out of the order of the alphabet
SCORES = X[:, 0].astype(float)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(query=QID)
NDCG = lp.LambdaRank("ndcg")

RANKERS = {"lightgbm": lp.LGBMRanker, "xgboost": lp.XGBRanker}


def ranker(host, **options):
    quiet = {"verbose": -1, "min_child_samples": 2} if host == "lightgbm" else {}
    return RANKERS[host](**{"objective": NDCG, "n_estimators": 3, "n_jobs": 1, **quiet, **options})


ROUTES = "params" in inspect.signature(cross_val_score).parameters  # scikit-learn 1.4
TOLD = "params" if ROUTES else "fit_params"
both = pytest.mark.parametrize("host", RANKERS)


# --- group= and qid= ---------------------------------------------------------------------------------------------


def booster():
    data = lgb.Dataset(X, Y, group=GROUP)
    return lgb.train({"objective": NDCG, "verbose": -1, "num_threads": 1, "min_data_in_leaf": 2}, data, 2)


look = functools.partial(lp.analysis.local_optimality, directions=3, progress=False, measure="ndcg")
TAKERS = {
    "evaluate": lambda **queries: lp.evaluate("ndcg", Y, SCORES, **queries),
    "compare": lambda **queries: lp.compare("ndcg", Y, SCORES, -SCORES, **queries),
    "leaderboard": lambda **queries: lp.leaderboard({"a": SCORES, "b": -SCORES}, "ndcg", Y, **queries).text,
    "query_folds": lambda **queries: [test.tolist() for _, test in lp.query_folds(rows=len(Y), n=3, **queries)],
    "gradients": lambda **queries: NDCG.gradients(labels=Y, scores=SCORES, **queries)[0].tolist(),
    "weighted": lambda **queries: NDCG.gradients(labels=Y, scores=SCORES, weight=GROUP * 1.0, **queries)[0].tolist(),
    "value": lambda **queries: lp.Approx("ndcg").value(labels=Y, scores=SCORES, **queries),
    "pareto": lambda **queries: lp.Pareto([NDCG, lp.QueryRMSE()]).weights(labels=Y, scores=SCORES, **queries),
    "explain": lambda **queries: str(
        lp.analysis.explain_difference(NDCG, lp.QueryRMSE(), labels=Y, scores=SCORES, **queries)
    ).replace("Query q", "Query "),  # with ids it names the user's
    "agreement": lambda **queries: str(
        lp.analysis.lambda_agreement(NDCG, lp.QueryRMSE(), labels=Y, scores=SCORES, **queries)
    ),
    "force": lambda **queries: str(lp.analysis.force_by_label(NDCG, labels=Y, scores=SCORES, high=2, **queries)),
    "top": lambda **queries: str(lp.analysis.top_labels(labels=Y, scores=SCORES, **queries)),
    "pairs": lambda **queries: str(lp.analysis.effective_pairs(NDCG, labels=Y, scores=SCORES, **queries)),
    "optimality": lambda **queries: look(booster(), X, Y, **queries).best_improvement,
    "clicks": lambda **queries: lp.data.simulate_clicks(Y, sessions=3, **queries).tolist(),
    "LGBMRanker": lambda **queries: ranker("lightgbm").fit(X, Y, **queries).predict(X).tolist(),
    "XGBRanker": lambda **queries: ranker("xgboost").fit(X, Y, **queries).predict(X).tolist(),
    "score": lambda **queries: ranker("lightgbm").fit(X, Y, group=GROUP).score(X, Y, **queries),
}


@pytest.mark.parametrize("name", TAKERS)
def test_ids_do_what_sizes_do_and_one_taken_for_the_other_is_refused(name):
    take = TAKERS[name]
    by_id = take(qid=QID)
    assert (re.sub("Query q", "Query ", by_id) if name == "explain" else by_id) == take(group=GROUP)
    with pytest.raises(lp.LambdaplugError, match="one value per row: are these query ids"):
        take(group=DATA.qid)
    with pytest.raises(lp.LambdaplugError, match=r"add up to it: are these group sizes. Pass them as group="):
        take(qid=GROUP)
    if name != "score":  # whose rows are in the order of another fit
        with pytest.raises(lp.LambdaplugError, match=r"those of query 'q0' are in 2 places. Sort the rows by query id"):
            take(qid=[*QID[:-1], "q0"])
        with pytest.raises(lp.LambdaplugError, match="expected one of them, got both"):
            take(qid=QID, group=GROUP)


def test_ids_of_every_kind():
    wanted = [test.tolist() for _, test in lp.query_folds([2, 1, 3], n=3)]
    for ids in (
        [7, 7, 3, 5, 5, 5],
        ["b", "b", "a", "c", "c", "c"],
        [0.5, 0.5, 0.1, 9.0, 9.0, 9.0],
        np.array([[2], [2], [1], [3], [3], [3]]),
        pd.Series(["b", "b", "a", "c", "c", "c"], dtype="category"),
    ):
        assert [test.tolist() for _, test in lp.query_folds(qid=ids, n=3)] == wanted
    masked, frame = np.ma.masked_array([1, 2], [0, 1]), pd.Series([1, None], dtype="Int64")
    for missing in ([1.0, np.nan], [None, "a"], frame, masked):
        with pytest.raises(lp.LambdaplugError, match="some rows have no query id"):
            lp.query_folds(qid=missing)
    with pytest.raises(lp.LambdaplugError, match="expected one query id per row, got"):
        lp.query_folds(qid=[[1, 2], [3, 4]])
    with pytest.raises(lp.LambdaplugError, match=r"group: expected numbers.*ids are passed as qid="):
        lp.query_folds(["a", "a", "b"])
    assert lp.evaluate("p@1", [1, 0], [1, 2], [2, 0]) == {"p@1": 0.0}  # an empty query is none of that


@pytest.mark.parametrize("kind", [">i8", str, object])
def test_group_sizes_of_every_kind(kind):
    sizes = GROUP.astype(kind)
    told = {"eval_set": [(X, Y)], "eval_group": [sizes], "verbose": False}
    model = ranker("xgboost").fit(X, Y, group=sizes, **told)
    np.testing.assert_array_equal(model.predict(X), ranker("xgboost").fit(X, Y, group=GROUP).predict(X))
    for wrong in (Y.astype(complex), Y.astype("datetime64[s]")):
        with pytest.raises(lp.LambdaplugError, match="labels: expected numbers"):
            lp.evaluate("map", wrong, SCORES, GROUP)


def test_arrays_of_every_frame_library():
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    wanted = lp.evaluate("ndcg", Y, SCORES, GROUP)
    for make in (pd.Series, polars.Series, arrow.array):
        assert lp.evaluate("ndcg", make(Y), make(SCORES), qid=make(QID)) == wanted
        assert lp.evaluate("ndcg", make(Y), make(SCORES), make(GROUP)) == wanted
    chunked = arrow.chunked_array([Y[:7], Y[7:]])
    assert lp.evaluate("ndcg", chunked, SCORES, GROUP) == wanted


# --- scikit-learn ------------------------------------------------------------------------------------------------


@both
def test_score_is_the_measure_trained_for(host):
    for objective, measure in (("map", "map"), (lp.objective("ndcg@5"), "ndcg@5"), (None, "ndcg")):
        model = ranker(host, **({} if objective is None else {"objective": objective})).fit(X, Y, qid=QID)
        wanted = lp.evaluate(measure, Y, model.predict(X), GROUP)[measure]
        assert model.score(X, Y, qid=QID) == model.score(X, Y, group=GROUP) == wanted
    weight = np.arange(1.0, len(GROUP) + 1)
    wanted = lp.evaluate("ndcg", Y, model.predict(X), GROUP, weight=weight)["ndcg"]
    assert model.score(X, Y, qid=QID, sample_weight=np.repeat(weight, GROUP)) == wanted
    assert model.score(X, Y, qid=QID, sample_weight=weight) == wanted
    with pytest.raises(lp.LambdaplugError, match="equal values within each query"):
        model.score(X, Y, qid=QID, sample_weight=np.arange(len(Y)))
    with pytest.raises(lp.LambdaplugError, match=r"which rows belong together. Pass qid=.*set_score_request"):
        model.score(X, Y)
    clicks, own = lp.LambdaRank("ndcg", labels="clicks"), {"clicks": Y}
    with pytest.raises(lp.LambdaplugError, match="trains for no single measure"):
        ranker(host, objective=clicks).fit(X, Y, qid=QID, columns=own).score(X, Y, qid=QID)


@both
def test_the_hosts_own_words_have_a_score_too(host):
    word = "lambdarank" if host == "lightgbm" else "rank:ndcg"
    model = ranker(host, objective=word).fit(X, Y.astype(int), qid=DATA.qid)
    assert model.score(X, Y, qid=QID) == lp.evaluate("ndcg", Y, model.predict(X), GROUP)["ndcg"]


@both
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_column_of_the_frame_has_the_ids_and_is_no_feature(host, library):
    pytest.importorskip(library)
    frame = FRAME
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(FRAME)
    elif library == "pyarrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(FRAME)
    plain = ranker(host).fit(X, Y, qid=QID)
    model = ranker(host).fit(frame, Y, qid="query", eval_set=[(frame, Y)])
    np.testing.assert_array_equal(model.predict(frame), plain.predict(X))
    np.testing.assert_array_equal(model.predict(FRAME.drop(columns="query")), plain.predict(X))
    assert model.n_features_in_ == 4
    score = plain.score(X, Y, qid=QID)
    assert model.score(frame, Y) == model.score(frame, Y, qid="query") == model.score(frame, Y, group=GROUP) == score
    results = model.evals_result_ if host == "lightgbm" else model.evals_result()
    assert next(iter(results.values()))["ndcg"][-1] == pytest.approx(score, abs=1e-6)
    if library == "pandas" or ROUTES:  # older ones cut no other frames
        told = {TOLD: {"qid": "query"}}
        assert len(cross_val_score(ranker(host), frame, Y, cv=lp.query_folds(qid=QID, n=2), **told)) == 2
    with pytest.raises(
        lp.LambdaplugError, match=r"qid='topic': expected a column of the frame X; its columns are \['a'"
    ):
        ranker(host).fit(frame, Y, qid="topic")
    with pytest.raises(lp.LambdaplugError, match="it has none by name"):
        ranker(host).fit(X, Y, qid="query")


@both
def test_searches_with_a_column(host):
    folds = lp.query_folds(qid=FRAME["query"], n=2)
    scores = cross_val_score(ranker(host), FRAME, Y, cv=folds, **{TOLD: {"qid": "query"}})
    for (train, test), found in zip(folds, scores, strict=True):
        model = ranker(host).fit(X[train], Y[train], qid=QID[train])
        assert found == model.score(X[test], Y[test], qid=QID[test])
    search = GridSearchCV(ranker(host), {"learning_rate": [0.1, 0.3]}, cv=folds).fit(FRAME, Y, qid="query")
    assert search.score(FRAME, Y) > 0.5
    assert search.predict(FRAME).shape == Y.shape


@both
@pytest.mark.skipif(not ROUTES, reason="needs scikit-learn 1.4")
def test_searches_and_pipelines_with_metadata_routing(host):
    with sklearn.config_context(enable_metadata_routing=True):
        model = ranker(host).set_fit_request(qid=True).set_score_request(qid=True)
        told = {"qid": QID, "groups": QID}
        scores = cross_val_score(model, X, Y, cv=GroupKFold(2), params=told)
        folds = list(GroupKFold(2).split(X, Y, QID))
        for (train, test), found in zip(folds, scores, strict=True):
            assert found == ranker(host).fit(X[train], Y[train], qid=QID[train]).score(X[test], Y[test], qid=QID[test])
        pipeline = make_pipeline(StandardScaler(), model)
        name = pipeline.steps[-1][0]
        search = GridSearchCV(pipeline, {f"{name}__max_depth": [2]}, cv=GroupKFold(2)).fit(X, Y, **told)
        assert search.score(X, Y, qid=QID) > 0.5
    plain = make_pipeline(StandardScaler(), ranker(host))
    assert plain.fit(X, Y, **{f"{name}__qid": QID}).predict(X).shape == Y.shape


# --- what is no objective -----------------------------------------------------------------------------------------


NO_OBJECTIVES = {
    "a class": (lp.LambdaRank, r"expected an objective such as lp.objective\('map'\), got <class .*LambdaRank'>"),
    "the function": (lp.objective, r"expected an objective such as lp.objective\('map'\), got <function objective"),
    "a metric": (lp.metric("map"), r"expected an objective such as lp.objective\('map'\), got"),
    "nearly a name": ("mapp", r"neither a word of the host's \(Unknown .*\) nor a measure: .*nearest is 'map'"),
}


@both
@pytest.mark.parametrize("what", NO_OBJECTIVES)
def test_what_is_no_objective_is_told_what_was_meant(host, what):
    given, said = NO_OBJECTIVES[what]
    with pytest.raises(lp.LambdaplugError, match=said):
        ranker(host, objective=given).fit(X, Y, qid=DATA.qid)


@pytest.mark.parametrize("measure", ["map", lp.MAP()], ids=str)
def test_a_measure_where_an_objective_is_expected(measure):
    for take in (lambda one: lp.Mixture([(1.0, one)]), lambda one: lp.Pareto([NDCG, one]), lp.Unbiased, lp.callback):
        with pytest.raises(lp.LambdaplugError, match=r"Did you mean lp.objective\('map'\)\?"):
            take(measure)


def test_evaluation_sets_need_queries_and_may_be_evaluated_by_the_host():
    sets = {"eval_set": [(X, Y)], "eval_qid": [QID]}
    own = ranker("lightgbm", metric="ndcg").fit(X, Y, qid=QID, eval_at=[3], **sets).evals_result_
    assert list(next(iter(own.values()))) == ["ndcg@3"]
    with pytest.raises(lp.LambdaplugError, match="expected eval_qid= or eval_group="):
        ranker("lightgbm").fit(X, Y, qid=QID, eval_set=[(X.copy(), Y)])


def test_words_of_eval_metric_are_read_as_those_of_objective_are():
    one = {"eval_set": [(X, Y)], "eval_qid": [QID]}
    for word, names in (
        ("mrr@3", ["mrr@3"]),
        ("p@2", ["p@2"]),
        ("map", ["map"]),
        ([lp.MAP(), lp.metric("p@1")], ["map", "p@1"]),
    ):
        ours = ranker("lightgbm").fit(X, Y, qid=QID, eval_metric=word, **one).evals_result_["training"]
        theirs = ranker("xgboost", eval_metric=word).fit(X, Y, qid=QID, verbose=False, **one).evals_result()
        assert list(ours) == list(theirs["validation_0"]) == names
    words = {"objective": "rank:ndcg", "eval_metric": ["ndcg@3", "mrr"]}
    own = ranker("xgboost", **words).fit(X, Y, qid=QID, verbose=False, **one).evals_result()["validation_0"]
    assert list(own) == ["ndcg@3", "mrr"]
    with pytest.raises(lp.LambdaplugError, match=r"'mrx' is neither a word .* nor a measure: .*nearest is 'mrr'"):
        ranker("xgboost", eval_metric="mrx").fit(X, Y, qid=QID, verbose=False, **one)
    with pytest.raises(lp.LambdaplugError, match=r"expected a metric such as lp.metric\('ndcg'\)"):
        ranker("lightgbm").fit(X, Y, qid=QID, eval_metric=NDCG, **one)


@both
def test_parameters_of_the_hosts_own_objectives_are_said_to_have_no_effect(host):
    options = {"label_gain": [0, 1, 3, 7, 15], "sigmoid": 2.0} if host == "lightgbm" else {"lambdarank_unbiased": True}
    with pytest.warns(lp.LambdaplugWarning, match="|".join(options)) as warned:
        ranker(host, **options).fit(X, Y, qid=QID)
    assert len([one for one in warned if one.category is lp.LambdaplugWarning]) == 1
    usual = {"label_gain": None} if host == "lightgbm" else {"lambdarank_unbiased": False}
    ranker(host, **usual).fit(X, Y, qid=QID)
    if host == "lightgbm":  # whose metric has these gains too
        ranker(host, metric="ndcg", label_gain=[0, 1, 3, 7, 15]).fit(X, Y, qid=QID)


def test_objectives_and_metrics_in_each_others_place():
    data, matrix = lgb.Dataset(X, Y, group=GROUP), xgb.DMatrix(X, Y, qid=DATA.qid)
    params = {"verbose": -1, "metric": "None"}
    with pytest.raises(lp.LambdaplugError, match=r"reports, and was given as an objective: say lp.objective\('map'\)"):
        lgb.train({**params, "objective": lp.metric("map")}, data, 1)
    with pytest.raises(lp.LambdaplugError, match="reports, and was given as an objective"):
        xgb.train({}, matrix, 1, obj=lp.metric("map"))
    with pytest.raises(lp.LambdaplugError, match=r"was given as a metric .*say lp.metric\('ndcg'\)"):
        lgb.train({**params, "objective": NDCG}, data, 1, valid_sets=[data], feval=NDCG)
    with pytest.raises(lp.LambdaplugError, match="was given as a metric"):
        xgb.train({}, matrix, 1, obj=NDCG, evals=[(matrix, "a")], custom_metric=NDCG, verbose_eval=False)
    with pytest.raises(lp.LambdaplugError, match="expected at least one objective with its weight"):
        lp.Mixture([NDCG, NDCG])
    with pytest.raises(lp.LambdaplugError, match=r"support=.ndcg\(gain='linear'\)"):
        lp.objective("map").gradients(Y * 500.5, SCORES, GROUP)


def test_a_metric_of_the_hosts_under_the_same_name_is_said():
    data, matrix = lgb.Dataset(X, Y, group=GROUP), xgb.DMatrix(X, Y, qid=DATA.qid)
    params = {"verbose": -1, "metric": "ndcg,map", "eval_at": [2, 3], "objective": NDCG}
    with pytest.warns(lp.LambdaplugWarning, match=r"of its own as 'ndcg@3'.*name='lp-ndcg@3'"):
        lgb.train(params, data, 2, valid_sets=[data], feval=lp.metric("ndcg@3"))
    own = {"evals": [(matrix, "a")], "custom_metric": lp.metric("ndcg@3"), "verbose_eval": False}
    with pytest.warns(lp.LambdaplugWarning, match="XGBoost reports a metric of its own as 'ndcg@3'"):
        xgb.train({"eval_metric": "ndcg@3"}, matrix, 2, obj=NDCG, **own)
    lgb.train(params, data, 2, valid_sets=[data], feval=lp.metric("ndcg@3", name="exact-ndcg@3"))


@both
def test_the_hosts_own_ranker_of_a_fitted_one(host):
    ours = ranker(host).fit(FRAME, Y, qid="query")
    plain = ours.plain()
    assert type(plain) is type(ours).__mro__[1]
    assert plain.get_params()["objective"] == {"lightgbm": "lambdarank", "xgboost": "rank:ndcg"}[host]
    np.testing.assert_array_equal(plain.predict(X), ours.predict(FRAME))
    assert b"lambdaplug" not in pickle.dumps(plain)
    if host == "lightgbm":
        assert plain.booster_.dump_model()["objective"] == "lambdarank"  # which Vespa's reader wants
    elif importlib.util.find_spec("eland"):
        from eland.ml.transformers import get_model_transformer

        assert get_model_transformer(plain, feature_names=list("abcd")).transform().to_dict()["ensemble"]


# --- reports -----------------------------------------------------------------------------------------------------


def test_leaderboard_and_compare_take_models():
    model = booster()
    ranked = ranker("xgboost").fit(FRAME, Y, qid="query")
    boosted = ranked.get_booster()
    board = lp.leaderboard({"model": model, "scores": SCORES}, "ndcg", DATA)
    assert board.means == lp.leaderboard({"model": model, "scores": SCORES}, "ndcg", Y, qid=QID, X=X).means
    assert board.means["ndcg"]["model"] == lp.evaluate("ndcg", Y, model.predict(X), GROUP)["ndcg"]
    found = lp.compare("ndcg", Y, ranked, {"booster": boosted, "model": model}, GROUP, X=FRAME.drop(columns="query"))
    assert found["booster"].difference == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(lp.LambdaplugError, match=r"got a model \(Booster\) in place of scores: give the rows"):
        lp.leaderboard({"model": model}, "ndcg", Y, GROUP)


def reports():
    systems = {"a": SCORES, "b<": -SCORES, "c": SCORES**2}
    yield lp.compare("ndcg", Y, SCORES, -SCORES, GROUP, names=["a", "b<"])
    yield lp.compare("ndcg", Y, SCORES, systems, GROUP)
    yield lp.leaderboard(systems, ["ndcg", "map"], Y, GROUP, baseline="a")
    yield lp.leaderboard(systems, ["ndcg", "map"], Y, GROUP)
    make = functools.partial(lp.front, lambda w: lp.Mixture([(w, NDCG), (1 - w, lp.QueryRMSE())]), [0.2, 0.8])
    yield make(DATA, DATA, ["ndcg", "map"], rounds=1, progress=False)
    yield look(booster(), X, Y, GROUP)
    yield lp.analysis.explain_difference(NDCG, lp.QueryRMSE(), labels=Y, scores=SCORES, group=GROUP)
    yield lp.analysis.calibration(Y > 1, SCORES)
    yield lp.analysis.top_labels(labels=Y, scores=[SCORES, -SCORES], group=GROUP)
    yield lp.verify("p@1", trials=5)


def test_every_report_prints_and_is_a_picture():
    plt = pytest.importorskip("matplotlib.pyplot")
    for report in reports():
        assert repr(report) == str(report)
        if hasattr(report, "plot"):
            axes = np.atleast_1d(report.plot())[0]
            axes.figure.canvas.draw()
            assert axes.has_data()
            assert axes.get_title(loc="left")
        plt.close("all")


# --- messages, and the public face -------------------------------------------------------------------------------


def test_nothing_is_printed_and_the_hosts_verbosity_counts(capfd):
    for host in RANKERS:
        fit = {} if host == "lightgbm" else {"verbose": False}  # as XGBoost's own ranker prints from 3.3 on
        ranker(host).fit(X, Y, qid=QID, eval_set=[(X, Y)], eval_qid=[QID], **fit).score(X, Y, qid=QID)
    model = booster()
    lp.stamp(model)
    said = "".join(capfd.readouterr()).replace("[LightGBM] [Warning] Using self-defined objective function\n", "")
    assert said == ""  # but for what LightGBM 4.0 says
    ranker("xgboost").fit(X, Y, qid=QID, eval_set=[(X, Y)], eval_qid=[QID], verbose=True)
    assert "validation_0-ndcg" in capfd.readouterr().out
    assert not logging.getLogger("lambdaplug").handlers
    for path in Path(lp.__file__).parent.rglob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        assert "print" not in {getattr(call, "id", "") for call in calls}, path
