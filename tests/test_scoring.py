"""A measure as scoring= of scikit-learn, and what its searches do that makes scores wrong."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score

import lambdaplug as lp

DATA = lp.data.cubic(queries=30, documents=8, features=4)
X, Y, GROUP = DATA
QID = np.array([f"q{number}" for number in DATA.qid])
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(query=QID)
FOLDS = lp.query_folds(qid=QID, n=3)


def ranker(**options):
    return lp.LGBMRanker(**{"objective": "map", "n_estimators": 3, "n_jobs": 1, "verbose": -1, **options})


def search(grid, **options):
    found = GridSearchCV(ranker(), grid, **{"cv": FOLDS, "error_score": "raise", **options})
    return found.fit(FRAME, Y, qid="query")


def test_a_scorer_is_the_measure_of_the_rows_that_are_held_out():
    found = search({"objective": ["map", "dcg"]}, scoring=lp.scorer("mrr")).cv_results_["mean_test_score"]
    for objective, mean in zip(["map", "dcg"], found, strict=True):
        values = []
        for train, test in FOLDS:
            model = ranker(objective=objective).fit(FRAME.iloc[train], Y[train], qid="query")
            values.append(lp.evaluate("mrr", Y[test], model.predict(FRAME.iloc[test]), qid=QID[test])["mrr"])
        assert mean == pytest.approx(np.mean(values))


def test_importances_by_a_measure():
    model = ranker().fit(FRAME, Y, qid="query")
    by_row = lp.scorer("ndcg@3", qid=QID)
    found = permutation_importance(model, FRAME, Y, scoring=by_row, n_repeats=2, random_state=0).importances_mean
    assert found[0] > 0.02
    assert found[4] == 0.0  # the ids are no feature
    bare = permutation_importance(model, X, Y, scoring=by_row, n_repeats=2, random_state=0).importances_mean
    assert len(bare) == 4
    assert by_row == pickle.loads(pickle.dumps(by_row)) != lp.scorer("ndcg@3")
    assert repr(lp.scorer("ndcg@3", qid="query", empty=0)) == "scorer('ndcg@3', qid='query', empty=0)"


def test_what_a_scorer_must_be_told():
    model = ranker().fit(X, Y, group=GROUP)
    with pytest.raises(lp.LambdaplugError, match="expected to be told which rows belong together"):
        lp.scorer("map")(model, X, Y)
    with pytest.raises(lp.LambdaplugError, match="X has no column 'id'"):
        lp.scorer("map", qid="id")(model, FRAME, Y)
    with pytest.raises(lp.LambdaplugError, match="ties: expected 'stable', 'worst', 'best' or 'expected', got 'wurst'"):
        lp.scorer("map", ties="wurst")
    with pytest.raises(TypeError, match="tie"):
        lp.scorer("map", tie="worst")
    assert lp.scorer("map", qid="query")(model, FRAME, Y) == model.score(X, Y, qid=QID)


@pytest.mark.parametrize("scoring", [None, lp.scorer("ndcg@3")], ids=["own", "scorer"])
def test_folds_that_cut_queries_are_said(scoring):
    with pytest.warns(
        lp.LambdaplugWarning, match=r"queries that are scored were partly trained on, \d+ of \d+, query q0 for"
    ):
        search({"max_depth": [2]}, cv=KFold(3, shuffle=True, random_state=0), scoring=scoring)


def test_a_search_over_objectives_wants_one_measure():
    with pytest.warns(lp.LambdaplugWarning, match=r"measures are compared with each other. Say scoring=lp.scorer"):
        search({"objective": ["map", "dcg"]})


@pytest.mark.skipif("enable_metadata_routing" not in sklearn.get_config(), reason="since scikit-learn 1.3")
def test_ids_that_scikit_learn_passes_on():
    with sklearn.config_context(enable_metadata_routing=True):
        told = lp.XGBRanker(objective="map", n_estimators=3, n_jobs=1).set_fit_request(qid=True)
        params = {"qid": QID, "groups": QID}
        found = cross_val_score(told, X, Y, cv=GroupKFold(3), scoring=lp.scorer("map"), params=params)
        assert (found > 0.3).all()
        with pytest.warns(lp.LambdaplugWarning, match="partly trained on"):
            cross_val_score(told, X, Y, cv=KFold(7), scoring=lp.scorer("map"), params={"qid": QID})
