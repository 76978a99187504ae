"""Device="cuda": passed through untouched, host arrays in and out. The trainings run where there is a GPU."""

import shutil
import subprocess

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import lambdaplug as lp

DATA = lp.data.cubic(queries=60, documents=20, features=8, noise=0.3)
X, Y, GROUP = DATA
OURS = {"max_depth": 4, "min_child_weight": 0, "objective": "rank:ndcg", "disable_default_eval_metric": 1}
QUIET = {"verbose": -1, "metric": "None", "min_sum_hessian_in_leaf": 1e-6}


def has_gpu():
    program = shutil.which("nvidia-smi")
    return program is not None and subprocess.run([program, "-L"], capture_output=True, check=False).stdout != b""


def lightgbm_has_cuda():
    try:
        lgb.train({"device": "cuda", "verbose": -1}, lgb.Dataset(X, Y), 1)
    except lgb.basic.LightGBMError:
        return False
    return True


class Spy(lp.LambdaRank):
    """Notes what comes in and what goes out."""

    seen = ()

    def __call__(self, scores, data, *rest):
        result = super().__call__(scores, data, *rest)
        type(self).seen = (scores, *result)
        return result


class OnGpu:
    """As cupy's arrays are: they say where they are, and are fetched by ``get`` alone."""

    __cuda_array_interface__ = {}  # noqa: RUF012

    def __init__(self, values):
        self.values = np.asarray(values)

    def __len__(self):
        return len(self.values)

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self):
        return self.values.copy()


def test_arrays_on_a_gpu_are_fetched():
    scores, there = X[:, 0], OnGpu(X[:, 0])
    expected = lp.evaluate(["map", "ndcg@5"], Y, scores, GROUP)
    assert lp.evaluate(["map", "ndcg@5"], OnGpu(Y), there, qid=OnGpu(DATA.qid)) == expected
    columns = {"clicks": Y / 4}, {"clicks": OnGpu(Y / 4)}
    by_clicks = lp.objective("cndcg", labels="clicks")
    here = by_clicks.gradients(Y, scores, GROUP, columns=columns[0])
    np.testing.assert_array_equal(by_clicks.gradients(OnGpu(Y), there, OnGpu(GROUP), columns=columns[1]), here)


def check(parameters, ndcg, builtin_ndcg):
    scores, gradient, hessian = Spy.seen
    assert type(scores) is type(gradient) is type(hessian) is np.ndarray
    assert gradient.nbytes + hessian.nbytes == 8 * len(Y)
    assert parameters["device"] == "cuda"
    assert ndcg > builtin_ndcg - 0.05


@pytest.mark.skipif(not has_gpu() or not xgb.build_info().get("USE_CUDA"), reason="needs a GPU")
def test_xgboost_on_a_gpu():
    found = {}
    for device in ("cpu", "cuda"):
        parameters = {**OURS, "device": device}
        data = xgb.QuantileDMatrix(X, Y, qid=DATA.qid)
        model = xgb.train(parameters, data, 20, obj=Spy("ndcg@10"), callbacks=[lp.callback(Spy("ndcg@10"))])
        assert f'"device":"{device}' in model.save_config()
        found[device] = lp.evaluate("ndcg@10", Y, model.predict(data), GROUP)["ndcg@10"]
    check(parameters, found["cuda"], found["cpu"])


@pytest.mark.skipif(not has_gpu(), reason="needs a GPU")
def test_lightgbm_on_a_gpu():
    if not lightgbm_has_cuda():
        pytest.skip("this LightGBM was built without CUDA")
    found = {}
    for device in ("cpu", "cuda"):
        parameters = {**QUIET, "device": device, "objective": Spy("ndcg@10")}
        model = lgb.train(parameters, lgb.Dataset(X, Y, group=GROUP), 20)
        assert model.params["device"] == device
        found[device] = lp.evaluate("ndcg@10", Y, model.predict(X), GROUP)["ndcg@10"]
    check(parameters, found["cuda"], found["cpu"])


def test_the_rankers_pass_the_device_on():
    objective = lp.LambdaRank("ndcg@10")
    assert lp.XGBRanker(objective=objective, device="cuda").get_xgb_params()["device"] == "cuda"
    assert lp.LGBMRanker(objective=objective, device="cuda").get_params()["device"] == "cuda"


def test_a_round_takes_host_arrays_and_gives_eight_bytes_a_row():
    data = xgb.DMatrix(X, Y, qid=DATA.qid, weight=1 + np.arange(len(GROUP)) % 3)
    xgb.train({**OURS, "nthread": 1}, data, 3, obj=Spy("ndcg@10"))
    scores, gradient, hessian = Spy.seen
    assert type(scores) is np.ndarray
    assert gradient.nbytes + hessian.nbytes == 8 * len(Y)
