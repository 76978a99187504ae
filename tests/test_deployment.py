"""After the training: stamped and saved models, readers other than the host, and trainings continued."""

import argparse
import pickle
import runpy
import subprocess
import sys
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import lambdaplug as lp

DATA = lp.data.cubic(queries=40, documents=15, features=6, noise=0.3)
X, Y, GROUP = DATA
QUIET = {"verbose": -1, "num_threads": 1, "num_leaves": 7, "metric": "None", "min_sum_hessian_in_leaf": 0}
OURS = {"nthread": 1, "max_depth": 3, "min_child_weight": 0, "objective": "rank:ndcg", "disable_default_eval_metric": 1}
OBJECTIVES = [
    lp.LambdaRank("map"),
    lp.LambdaRank("ndcg@5", cost=lp.RankNet(distance=0.01), normalize="log"),
    lp.interpolate(lp.LambdaRank("ndcg"), lp.LambdaRank("mrr"), weight=lp.linear(0.0, 0.1)),
    lp.presets.lightgbm(),
    lp.presets.lightgbm_xendcg(),
    lp.presets.xgboost("ndcg"),
    lp.SPSA("ndcg"),
]


def in_lightgbm(objective, rounds=10, **options):
    parameters = {**QUIET, "objective": objective}
    data = lgb.Dataset(X, Y, group=GROUP, free_raw_data=False)
    return lgb.train(parameters, data, rounds, callbacks=[lp.callback(objective)], **options)


def in_xgboost(objective, rounds=10, **options):
    data = xgb.DMatrix(X, Y, qid=DATA.qid)
    return xgb.train(OURS, data, rounds, obj=objective, callbacks=[lp.callback(objective)], **options)


def trees(model):
    text = model.model_to_string()
    return text[text.index("Tree=0") : text.index("end of trees")]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_five_rounds_and_five_more_are_ten(objective):
    half, whole = in_lightgbm(objective, 5), trees(in_lightgbm(objective))
    assert [trees(in_lightgbm(objective, 5, init_model=one)) for one in (half, lp.stamp(half))] == [whole] * 2
    halves = in_xgboost(objective, 5, xgb_model=in_xgboost(objective, 5))
    assert halves.get_dump(dump_format="json", with_stats=True) == in_xgboost(objective).get_dump(
        dump_format="json", with_stats=True
    )
    np.testing.assert_array_equal(halves.predict(xgb.DMatrix(X)), in_xgboost(objective).predict(xgb.DMatrix(X)))


def test_stamped_models_say_their_objective_and_predict_the_same(tmp_path):
    model = in_lightgbm(OBJECTIVES[0])
    model.best_iteration = 7
    text = model.model_to_string(num_iteration=-1)
    stamped, stamped_text = lp.stamp(model), lp.stamp(text)
    assert text == model.model_to_string(num_iteration=-1)
    assert "\nobjective=" not in text
    unstamped = stamped_text.replace("objective=lambdarank\n", "", 1).replace(
        "[objective: lambdarank]", "[objective: custom]"
    )
    assert unstamped == text
    builtin = lgb.train({**QUIET, "objective": "lambdarank"}, lgb.Dataset(X, Y, group=GROUP), 2).model_to_string()
    lines = [one.splitlines() for one in (stamped_text, builtin)]
    assert len({one.index("objective=lambdarank") for one in lines}) == 1  # where LightGBM writes it
    assert lp.stamp(stamped_text) == stamped_text
    windows = stamped_text.replace("\n", "\r\n")
    assert lp.stamp(text.replace("\n", "\r\n")) == lp.stamp(windows) == windows
    assert lp.stamp(builtin) == builtin
    assert isinstance(stamped, lgb.Booster)
    assert stamped.best_iteration == 7
    (tmp_path / "model.txt").write_text(stamped_text)
    for other in (stamped, lgb.Booster(model_str=stamped_text), lgb.Booster(model_file=tmp_path / "model.txt")):
        np.testing.assert_array_equal(other.predict(X, num_iteration=10), model.predict(X, num_iteration=10))
    np.testing.assert_array_equal(stamped.predict(X), model.predict(X))
    assert lp.stamp(stamped).model_to_string() == stamped.model_to_string()


def test_what_is_not_stamped():
    regression = lgb.train({**QUIET, "objective": "regression"}, lgb.Dataset(X, Y), 1)
    several = in_lightgbm(OBJECTIVES[0], 1).model_to_string().replace("num_class=1", "num_class=3")
    for wrong, message in (
        (regression, "this one says 'objective=regression'"),
        (several, "this one says 'several classes'"),
        (in_xgboost(OBJECTIVES[0], 1), "An XGBoost model needs no stamp"),
        ("model.txt", r"\.read_text\(\); got 'model.txt'"),
        (Path("m.txt"), "or the text of its model"),
        ("tree\nversion=v4\n", "expected a lightgbm.Booster with a tree"),
    ):
        with pytest.raises(lp.LambdaplugError, match=message):
            lp.stamp(wrong)


def test_saved_models_need_no_lambdaplug(tmp_path):
    ours, theirs = in_lightgbm(OBJECTIVES[2]), in_xgboost(OBJECTIVES[2])
    ours.save_model(tmp_path / "model.txt")
    theirs.save_model(tmp_path / "model.json")
    assert b"lambdaplug" not in pickle.dumps(ours) + pickle.dumps(theirs)
    np.savez(tmp_path / "rows.npz", X=X, ours=ours.predict(X), theirs=theirs.predict(xgb.DMatrix(X)))
    program = """
import sys, lightgbm, numpy as np, xgboost
rows = np.load("rows.npz")
ranker = xgboost.XGBRanker()
ranker.load_model("model.json")
np.testing.assert_array_equal(lightgbm.Booster(model_file="model.txt").predict(rows["X"]), rows["ours"])
np.testing.assert_array_equal(ranker.predict(rows["X"]), rows["theirs"])
assert "lambdaplug" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


def test_treelite_reads_both_hosts_models():
    treelite = pytest.importorskip("treelite")
    model, other = in_lightgbm(OBJECTIVES[0]), in_xgboost(OBJECTIVES[0])
    for loaded, expected in (
        (treelite.frontend.from_lightgbm(lp.stamp(model)), model.predict(X)),
        (treelite.frontend.from_xgboost(other), other.predict(xgb.DMatrix(X))),
    ):
        found = treelite.gtil.predict(loaded, X.astype(np.float64)).reshape(-1)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_onnx_converts_a_stamped_model_and_one_of_xgboost_that_is_told_to_be_a_regression():
    onnxmltools = pytest.importorskip("onnxmltools")
    runtime = pytest.importorskip("onnxruntime")
    from onnxmltools.convert.common.data_types import FloatTensorType

    inputs = [("X", FloatTensorType([None, X.shape[1]]))]
    model, other = in_lightgbm(OBJECTIVES[0]), in_xgboost(OBJECTIVES[0])
    plain = other.copy()
    plain.set_param({"objective": "reg:squarederror"})
    for converted, expected in (
        (onnxmltools.convert_lightgbm(lp.stamp(model), initial_types=inputs, zipmap=False), model.predict(X)),
        (onnxmltools.convert_xgboost(plain, initial_types=inputs), other.predict(xgb.DMatrix(X))),
    ):
        session = runtime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
        found = session.run(None, {"X": X})[0].reshape(-1)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("host", ["LightGBM", "XGBoost"])
@pytest.mark.parametrize(("rounds", "patience", "every"), [(10, 30, 5), (60, 3, 1), (60, 3, 4)])
def test_a_training_killed_before_its_export_exports_the_same_model(host, rounds, patience, every, tmp_path):
    recipe = Path(__file__).parent.parent / "recipes" / "production.py"
    production = runpy.run_path(str(recipe))
    train, valid, _ = lp.data.cubic(100, 20, 8, noise=0.5).split(0.6, 0.2, 0.2)
    options = argparse.Namespace(rounds=rounds, patience=patience, every=every, hold=None, threads=1)
    found = []
    for _ in range(2):
        production["TRAIN"][host](tmp_path, train, valid, options)
        model = tmp_path / production["MODELS"][host]
        found.append((model.read_bytes(), len((tmp_path / "journal.jsonl").read_text().splitlines())))
        model.unlink()  # as if the process had died just before
    assert found[0] == found[1]
