"""What people type: query ids, frames, scikit-learn's tools, Optuna, old names, tables in notebooks."""

import ast
import functools
import inspect
import logging
import warnings
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import sklearn
import xgboost as xgb
from sklearn.model_selection import GridSearchCV, GroupKFold, RandomizedSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lambdaplug as lp
from lambdaplug.deprecation import scores_come_first
from lambdaplug.tables import Report

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


look = functools.partial(lp.analysis.local_optimality, directions=3, single_weights=0, progress=False, measure="ndcg")
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
    ),
    "agreement": lambda **queries: str(
        lp.analysis.lambda_agreement(NDCG, lp.QueryRMSE(), labels=Y, scores=SCORES, **queries)
    ),
    "force": lambda **queries: str(lp.analysis.force_by_label(NDCG, labels=Y, scores=SCORES, high=2, **queries)),
    "top": lambda **queries: str(lp.analysis.top_labels(labels=Y, scores=SCORES, **queries)),
    "pairs": lambda **queries: str(lp.analysis.effective_pairs(NDCG, labels=Y, scores=SCORES, **queries)),
    "optimality": lambda **queries: look(booster(), X, Y, **queries).best_improvement,
    "polish": lambda **queries: lp.analysis.polish(
        booster(), X, Y, measure="ndcg", rounds=1, probes=0, progress=False, **queries
    ).num_trees(),
    "record": lambda **queries: lp.analysis.record(
        X, Y, queries.pop("group", None), lp.analysis.TopLabels(3), **queries
    ).queries.sizes.tolist(),
    "clicks": lambda **queries: lp.data.simulate_clicks(Y, sessions=3, **queries).tolist(),
    "LGBMRanker": lambda **queries: ranker("lightgbm").fit(X, Y, **queries).predict(X).tolist(),
    "XGBRanker": lambda **queries: ranker("xgboost").fit(X, Y, **queries).predict(X).tolist(),
    "score": lambda **queries: ranker("lightgbm").fit(X, Y, group=GROUP).score(X, Y, **queries),
}


@pytest.mark.parametrize("name", TAKERS)
def test_ids_do_what_sizes_do_and_one_taken_for_the_other_is_refused(name):
    take = TAKERS[name]
    assert take(qid=QID) == take(group=GROUP)
    with pytest.raises(lp.LambdaplugError, match="one value per row: are these query ids"):
        take(group=DATA.qid)
    with pytest.raises(lp.LambdaplugError, match=r"add up to it: are these group sizes. Pass them as group="):
        take(qid=GROUP)
    if name != "score":  # whose rows are in the order of another fit
        with pytest.raises(lp.LambdaplugError, match=r"those of query 'q0' are in 2 places. Sort the rows by query id"):
            take(qid=[*QID[:-1], "q0"])
    if name not in ("score", "record"):
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
    for missing in (
        [1.0, np.nan],
        [None, "a"],
        pd.Series([1, None], dtype="Int64"),
        np.ma.masked_array([1, 2], [0, 1]),
    ):
        with pytest.raises(lp.LambdaplugError, match="some rows have no query id"):
            lp.query_folds(qid=missing)
    with pytest.raises(lp.LambdaplugError, match="expected one query id per row, got"):
        lp.query_folds(qid=[[1, 2], [3, 4]])
    with pytest.raises(lp.LambdaplugError, match=r"group: expected numbers.*ids are passed as qid="):
        lp.query_folds(["a", "a", "b"])
    with pytest.raises(
        lp.LambdaplugError, match=r"which would be 18300 rows: are these query ids. Sizes are .* ids are passed as qid="
    ):
        lp.query_folds(np.repeat(np.arange(61), 10))
    # Ids whose sum happens to be the number of rows.
    with pytest.raises(
        lp.LambdaplugError, match=r"2 of 4 queries would have no rows. It has one value per row: are these"
    ):
        lp.evaluate("ndcg", [0, 1, 0, 1], [1, 2, 3, 4], [0, 0, 2, 2])
    assert lp.evaluate("p@1", [1, 0], [1, 2], [2, 0]) == {"p@1": 0.0}  # an empty query is none of that


def test_parts_of_tables_and_fronts_have_sizes():
    ids = X, Y, DATA.qid
    for call in (
        lambda: lp.analysis.match_table(ids, DATA, "ndcg"),
        lambda: lp.analysis.match_table(DATA, ids, "ndcg"),
        lambda: lp.front(lambda _: NDCG, [1], DATA, ids, "ndcg"),
    ):
        with pytest.raises(lp.LambdaplugError, match="one value per row: are these query ids"):
            call()


def test_arrays_of_every_frame_library():
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    wanted = lp.evaluate("ndcg", Y, SCORES, GROUP)
    for make in (pd.Series, polars.Series, arrow.array):
        assert lp.evaluate("ndcg", make(Y), make(SCORES), qid=make(QID)) == wanted
        assert lp.evaluate("ndcg", make(Y), make(SCORES), make(GROUP)) == wanted
    chunked = arrow.chunked_array([Y[:7], Y[7:]])
    assert lp.evaluate("ndcg", chunked, SCORES, GROUP) == wanted


def test_one_order_of_arguments_and_the_old_one_warns():
    new = lp.compare("ndcg", Y, SCORES, -SCORES, GROUP)
    several = lp.compare("ndcg", Y, SCORES, {"b": -SCORES}, GROUP)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert new == lp.compare("ndcg", Y, scores_a=SCORES, scores_b=-SCORES, group=GROUP)
        assert new == lp.compare("ndcg", Y, SCORES, scores_b=-SCORES, qid=QID)
    old_order = "the order of arguments is"
    with pytest.warns(DeprecationWarning, match=old_order) as seen:
        assert new == lp.compare("ndcg", Y, GROUP, SCORES, -SCORES)
    assert seen[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=old_order):
        assert new == lp.compare("ndcg", Y, GROUP, scores_a=SCORES, scores_b=-SCORES)
    with pytest.warns(DeprecationWarning, match=old_order):
        assert new == lp.compare("ndcg", Y, GROUP, SCORES, scores_b=-SCORES)
    with pytest.warns(DeprecationWarning, match=old_order):
        assert several == lp.compare("ndcg", Y, GROUP, SCORES, {"b": -SCORES})
    # As many queries as rows: only the sums can tell.
    with pytest.warns(DeprecationWarning, match=old_order):
        assert lp.compare("p@1", [1, 0], [2, 0], [0.2, 0.1], [0.1, 0.2]).losses == 1
    assert lp.compare("p@1", [1, 0], [0.2, 0.1], [0.1, 0.2], [2, 0]).losses == 1
    gradient = NDCG.gradients(labels=Y, scores=SCORES, qid=QID)[0]
    for call in (
        lambda: NDCG.gradients(SCORES, Y, GROUP)[0],
        lambda: NDCG.gradients(SCORES, labels=Y, group=GROUP)[0],
    ):
        with pytest.warns(
            DeprecationWarning, match=r"gradients: the order of arguments is \(labels, scores, group\)"
        ) as seen:
            np.testing.assert_array_equal(call(), gradient)
        assert seen[0].filename == __file__
    for call in (lambda: NDCG.gradients(Y, SCORES, scores=SCORES), lambda: NDCG.gradients(*"abcdefg")):
        with pytest.raises(TypeError, match=r"gradients\(\)"):
            call()


ZEROS, FLOATS, CLICKS = np.zeros(3), [0.5, -1.0, 2.0], [0.1, 0.9, 0.2]
GRADES, WHOLE, ROUNDS = [0, 2, 1], [3.0, 1.0, 2.0], np.array([[0.1, 0.2, 0.3], [3.0, 1.0, 2.0]])
ORDERS = {
    "grades and scores": (GRADES, FLOATS, False),
    "grades of a floating type": (WHOLE, FLOATS, False),
    "positive scores": (GRADES, CLICKS, False),
    "negative integers": (GRADES, [-1, 2, 3], False),
    "integers and a floating type": (GRADES, WHOLE, False),
    "before the first round": (GRADES, ZEROS, False),
    "fractions before the first round": (CLICKS, ZEROS, False),
    "integers before the first round": (GRADES, [0, 0, 0], False),
    "labels that are all 0": ([0, 0, 0], FLOATS, False),
    "labels that are all 0, of a floating type": (ZEROS, FLOATS, False),
    "fractions and negative scores": (CLICKS, FLOATS, False),
    "rounds of scores": (GRADES, ROUNDS, False),
    "no label for a row": ([0, np.nan, 2], FLOATS, False),
    "the same": (WHOLE, WHOLE, False),
    "nothing": ([], [], False),
    "old: scores and grades": (FLOATS, GRADES, True),
    "old: scores and grades of a floating type": (CLICKS, WHOLE, True),
    "old: before the first round": (ZEROS, GRADES, True),
    "old: before the first round, floating types": (ZEROS, WHOLE, True),
    "old: rounds of scores": (ROUNDS, GRADES, True),
    "either: integers": (GRADES, [3, 1, 2], None),
    "either: floating types": (WHOLE, [2.0, 0.0, 1.0], None),
    "either: a floating type and integers": (WHOLE, GRADES, None),
    "either: fractions": (CLICKS, [0.5, 0.2, 0.1], None),
    "either: negative numbers and fractions": (FLOATS, CLICKS, None),
    "either: zeros and integers": ([0, 0, 0], GRADES, None),
    "either: zeros and fractions": (ZEROS, CLICKS, None),
    "either: negative fractions and labels that are all equal": (FLOATS, [1, 1, 1], None),
    "either: negative fractions and zeros": (FLOATS, ZEROS, None),
    "numbers without a type": (np.array(GRADES, object), FLOATS, False),
    "old: numbers without a type": (FLOATS, np.array(GRADES, object), True),
}


@pytest.mark.parametrize("case", ORDERS)
def test_which_of_two_arrays_the_labels_are(case):
    first, second, old = ORDERS[case]
    assert scores_come_first(first, second) is old
    assert scores_come_first(pd.Series(first), second) is old if np.ndim(first) == 1 else True
    if np.ndim(first) == np.ndim(second) == 1 and len(first) and case != "no label for a row":
        rmse = lp.QueryRMSE()  # which takes any labels
        names = {"labels": second, "scores": first} if old else {"labels": first, "scores": second}
        wanted = rmse.gradients(**names, group=[3])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            if old is None:
                with pytest.raises(
                    lp.LambdaplugError, match=r"could be either.*gradients\(labels=..., scores=..., group="
                ):
                    rmse.gradients(first, second, [3])
            else:
                np.testing.assert_array_equal(rmse.gradients(first, second, [3]), wanted)
        assert len(said) == (old is True)


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
    if host == "xgboost":  # the metric given stays as it is
        metric = lp.metric("ndcg")
        ranker(host, eval_metric=metric).fit(X, Y, qid=QID).score(X, Y, qid=QID, sample_weight=weight)
        assert repr(metric) == "metric('ndcg')"
    with pytest.raises(lp.LambdaplugError, match="equal values within each query"):
        model.score(X, Y, qid=QID, sample_weight=np.arange(len(Y)))
    with pytest.raises(lp.LambdaplugError, match=r"which rows belong together. Pass qid=.*set_score_request"):
        model.score(X, Y)
    with pytest.raises(lp.LambdaplugError, match=r"which rows belong together. Pass qid="):
        ranker(host).fit(X, Y)
    clicks = lp.LambdaRank("ndcg", labels=Y)
    with pytest.raises(lp.LambdaplugError, match="trains for no single measure"):
        ranker(host, objective=clicks).fit(X, Y, qid=QID).score(X, Y, qid=QID)


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


def by_ndcg(model, rows, labels):
    return lp.evaluate("ndcg", labels, model.predict(rows), qid=rows["query"])["ndcg"]


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
    # Which objective: each one's own score would be of another measure.
    grid = {"objective": ["map", NDCG, lp.objective("ndcg@3")]}
    found = GridSearchCV(ranker(host), grid, cv=folds, scoring=by_ndcg).fit(FRAME, Y, qid="query")
    assert found.best_params_["objective"] in grid["objective"]


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
        for search in (
            GridSearchCV(pipeline, {f"{name}__max_depth": [2]}, cv=GroupKFold(2)),
            RandomizedSearchCV(pipeline, {f"{name}__max_depth": [1, 2]}, n_iter=1, cv=GroupKFold(2)),
        ):
            search.fit(X, Y, **told)
            assert search.score(X, Y, qid=QID) > 0.5
    plain = make_pipeline(StandardScaler(), ranker(host))
    assert plain.fit(X, Y, **{f"{name}__qid": QID}).predict(X).shape == Y.shape


@both
def test_folds_of_both_hosts_cv(host):
    folds = lp.query_folds(qid=QID, n=2)
    if host == "lightgbm":
        params = {"objective": NDCG, "verbose": -1, "num_threads": 1, "metric": "None"}
        found = lgb.cv(params, lgb.Dataset(X, Y, group=GROUP), 2, folds=folds, feval=lp.metric("ndcg"))
        assert len(found["valid ndcg-mean"]) == 2
    else:
        params = {"disable_default_eval_metric": 1, "nthread": 1}
        matrix = xgb.DMatrix(X, Y)
        found = xgb.cv(
            params, matrix, 2, folds=folds, fpreproc=folds.fpreproc, obj=NDCG, custom_metric=lp.metric("ndcg")
        )
        assert len(found["test-ndcg-mean"]) == 2


# --- objectives as values ----------------------------------------------------------------------------------------


def test_objectives_are_categories_members_and_keys():
    optuna = pytest.importorskip("optuna")
    choices = [lp.objective("map"), lp.LambdaRank("ndcg"), lp.presets.lightgbm(), lp.QueryRMSE()]
    again = [lp.objective("map"), lp.LambdaRank("ndcg"), lp.presets.lightgbm(), lp.QueryRMSE()]
    assert choices == again
    assert set(choices) == set(again)
    assert {one: k for k, one in enumerate(choices)}[lp.objective("map")] == 0
    assert lp.objective("map") not in (lp.objective("mrr"), "map", None)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))

    def trial(trial):
        objective = trial.suggest_categorical("objective", choices)
        named = trial.suggest_categorical("name", ["map", "ndcg@3"])
        fitted = [ranker("lightgbm", objective=one, n_estimators=1).fit(X, Y, qid=QID) for one in (objective, named)]
        return sum(lp.evaluate("ndcg", Y, model.predict(X), qid=QID)["ndcg"] for model in fitted)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Optuna's, of categories that a database could not keep
        study.optimize(trial, n_trials=3)
    assert study.best_params["objective"] in again


NO_OBJECTIVES = {
    "a class of measures": (lp.MAP, r"It is a class of measures. Did you mean lp.objective\('map'\)\?"),
    "a class": (lp.LambdaRank, r"It is a class: did you mean lp.LambdaRank\(...\), or lp.objective\('map'\)\?"),
    "the function": (lp.objective, r"Call it first: did you mean lp.objective\('map'\)\?"),
    "a metric": (lp.metric("map"), r"It reports. Did you mean lp.objective\('map'\)\?"),
    "nearly a name": ("mapp", r"neither an objective of the host's \(Unknown .*\) nor a measure: .*nearest is 'map'"),
}


@both
@pytest.mark.parametrize("what", NO_OBJECTIVES)
def test_what_is_no_objective_is_told_what_was_meant(host, what):
    given, said = NO_OBJECTIVES[what]
    with pytest.raises(lp.LambdaplugError, match=said):
        ranker(host, objective=given).fit(X, Y, qid=DATA.qid)
    if what in ("a class of measures", "a class", "the function"):
        trains = {
            "lightgbm": lambda: lgb.train({"objective": given, "verbose": -1}, lgb.Dataset(X, Y, group=GROUP), 1),
            "xgboost": lambda: xgb.train({}, xgb.DMatrix(X, Y, qid=DATA.qid), 1, obj=given),
        }
        with pytest.raises(lp.LambdaplugError, match=r"lp.objective\('map'\)"):
            trains[host]()


@pytest.mark.parametrize(
    "call",
    [
        lambda measure: lp.Mixture([(1.0, measure)]),
        lambda measure: lp.Pareto([NDCG, measure]),
        lambda measure: lp.Unbiased(measure, position="rows"),
        lambda measure: lp.callback(measure),
        lambda measure: lp.analysis.explain_difference(NDCG, measure, labels=Y, scores=SCORES, qid=QID),
    ],
)
def test_a_measure_where_an_objective_is_expected(call):
    for measure in ("map", lp.MAP(), lp.MAP):
        with pytest.raises(lp.LambdaplugError, match=r"Did you mean lp.objective\('map'\)\?"):
            call(measure)


@both
def test_a_measure_is_a_metric_to_a_ranker(host):
    given = {"eval_metric": [lp.MAP(), lp.metric("mrr")]}
    if host == "lightgbm":
        results = ranker(host).fit(X, Y, qid=QID, eval_set=[(X, Y)], eval_qid=[QID], **given).evals_result_
    else:
        results = ranker(host, **given).fit(X, Y, qid=QID, eval_set=[(X, Y)], eval_qid=[QID]).evals_result()
    assert list(next(iter(results.values()))) == ["map", "mrr"]


def test_eval_at_says_what_happens():
    sets = {"eval_set": [(X, Y)], "eval_qid": [QID]}
    with pytest.warns(lp.LambdaplugWarning, match=r"eval_at=\[3\] is for LightGBM's own.*metric\('ndcg'\) is reported"):
        ranker("lightgbm").fit(X, Y, qid=QID, eval_at=[3], **sets)
    own = ranker("lightgbm").fit(X, Y, qid=QID, eval_at=[3], eval_metric="ndcg", **sets).evals_result_
    assert list(next(iter(own.values()))) == ["ndcg@3"]
    with pytest.raises(lp.LambdaplugError, match="expected eval_qid= or eval_group="):
        ranker("lightgbm").fit(X, Y, qid=QID, eval_set=[(X.copy(), Y)])


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
    weight = np.arange(len(GROUP)) + 1.0
    weighted = lp.leaderboard({"a": SCORES, "b": -SCORES}, "ndcg", Y, GROUP, weight=weight, baseline="a")
    wanted = lp.compare("ndcg", Y, SCORES, -SCORES, GROUP, weight=weight, names=["a", "b"])
    assert weighted.means["ndcg"]["b"] == pytest.approx(wanted.mean_b)
    assert weighted.p_value("ndcg", "b") == wanted.p_t


@both
def test_the_table_of_measures_has_rows_for_the_built_ins(host):
    threads = {"num_threads": 1, "min_data_in_leaf": 2} if host == "lightgbm" else {"nthread": 1}
    word = "lambdarank" if host == "lightgbm" else "rank:pairwise"
    match = functools.partial(lp.analysis.match_table, host=host, params=threads, rounds=2, objective=lp.LambdaRank)
    words = {"lightgbm": ("lambdarank", "rank_xendcg"), "xgboost": ("rank:ndcg", "rank:pairwise")}[host]
    assert match(DATA, DATA, "ndcg").trained == ("ndcg", *words)
    clicks = X, Y / 4, GROUP  # which the built-ins do not take
    assert match(clicks, clicks, "cndcg").trained == ("cndcg",)
    table = match(DATA, DATA, "ndcg", builtins=[word])
    assert table.trained == ("ndcg", word)
    assert table.values.shape == table.p_values.shape == (2, 1)
    if host == "lightgbm":
        own = lgb.train({"objective": word, "verbose": -1, **threads}, lgb.Dataset(X, Y, group=GROUP), 2)
        assert table.values[1, 0] == lp.evaluate("ndcg", Y, own.predict(X), GROUP)["ndcg"]
    else:
        own = xgb.train({"objective": word, "base_score": 0.0, **threads}, xgb.DMatrix(X, Y, qid=DATA.qid), 2)
        scores = own.predict(xgb.DMatrix(X), output_margin=True)
        assert table.values[1, 0] == lp.evaluate("ndcg", Y, scores, GROUP)["ndcg"]
    assert word in str(table)
    assert list(table.frame().index) == ["ndcg", word]
    assert len(table.plot().texts) == 2


def reports():
    systems = {"a": SCORES, "b<": -SCORES, "c": SCORES**2}
    yield lp.compare("ndcg", Y, SCORES, -SCORES, GROUP, names=["a", "b<"])
    yield lp.compare("ndcg", Y, SCORES, systems, GROUP)
    yield lp.leaderboard(systems, ["ndcg", "map"], Y, GROUP, baseline="a")
    yield lp.leaderboard(systems, ["ndcg", "map"], Y, GROUP)
    yield lp.analysis.match_table(DATA, DATA, "ndcg", params={"num_threads": 1}, rounds=1, objective=lp.LambdaRank)
    make = functools.partial(lp.front, lambda w: lp.Mixture([(w, NDCG), (1 - w, lp.QueryRMSE())]), [0.2, 0.8])
    yield make(DATA, DATA, ["ndcg", "map"], rounds=1, progress=False)
    yield look(booster(), X, Y, GROUP)
    yield lp.analysis.explain_difference(NDCG, lp.QueryRMSE(), labels=Y, scores=SCORES, group=GROUP)
    yield lp.analysis.calibration(Y > 1, SCORES)
    yield lp.analysis.top_labels(labels=Y, scores=[SCORES, -SCORES], group=GROUP)
    yield lp.verify("p@1", trials=5)


def test_every_report_is_a_table_in_a_notebook_and_a_picture():
    plt = pytest.importorskip("matplotlib.pyplot")
    kinds = set()
    for report in reports():
        page = report._repr_html_()
        kinds.add(type(report))
        assert "b<" not in page
        assert page.count("<td") == page.count("</td>")
        assert "<table>" in page or page == f"<pre>{page[5:-6]}</pre>"
        for line in report._after():
            assert line in str(report)
        if hasattr(report, "plot"):
            axes = np.atleast_1d(report.plot())[0]
            axes.figure.canvas.draw()
            assert axes.has_data()
            assert axes.get_title(loc="left")
        plt.close("all")
    hidden = {lp.analysis.Difference, type(lp.verify("p@1", trials=5))}
    assert {kind for kind in kinds if kind._cells is Report._cells} == hidden
    board = lp.leaderboard({"a": SCORES, "b": -SCORES}, "ndcg", Y, GROUP)
    assert board._repr_html_().count("<tr>") == 3


# --- messages, and the public face -------------------------------------------------------------------------------


def test_nothing_is_printed_and_the_hosts_verbosity_counts(capfd):
    for host in RANKERS:
        quiet = {} if host == "lightgbm" else {"verbosity": 0}
        ranker(host, **quiet).fit(X, Y, qid=QID, eval_set=[(X, Y)], eval_qid=[QID]).score(X, Y, qid=QID)
    model = booster()
    lp.stamp(model)
    lp.analysis.polish(model, X, Y, GROUP, "ndcg", rounds=1, probes=0, progress=False)
    lp.analysis.match_table(DATA, DATA, "ndcg", rounds=1, progress=False)  # with the built-ins
    assert capfd.readouterr() == ("", "")
    ranker("xgboost").fit(X, Y, qid=QID, eval_set=[(X, Y)], eval_qid=[QID], verbose=True)
    assert "validation_0-ndcg" in capfd.readouterr().out
    assert not logging.getLogger("lambdaplug").handlers
    for path in Path(lp.__file__).parent.rglob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        assert "print" not in {getattr(call, "id", "") for call in calls}, path


def test_the_public_face_is_small_and_old_names_lead_to_the_new_ones():
    assert len(lp.__all__) <= 40
    assert set(lp.__all__) <= set(dir(lp))
    assert {"NDCG", "linear", "position_bias"} <= set(dir(lp))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lp.NDCG is lp.measures.NDCG
        assert lp.cosine is lp.schedules.cosine
        assert lp.RankNet is lp.costs.RankNet
    names = ["explain_difference", "local_optimality", "match_table", "polish", "record"]
    for name in names:
        assert name in dir(lp.analysis)
        with pytest.warns(DeprecationWarning, match=rf"lambdaplug.{name} is now lambdaplug.analysis.{name}\."):
            assert getattr(lp, name) is getattr(lp.analysis, name)
    with pytest.raises(AttributeError, match="no attribute 'polished'"):
        lp.analysis.polished  # noqa: B018
