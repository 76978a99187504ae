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


def has_gpu(host):
    program = shutil.which("nvidia-smi")
    if program is None or subprocess.run([program, "-L"], capture_output=True, check=False).stdout == b"":
        return False
    try:
        host("cuda", lp.LambdaRank("ndcg@10"))
    except (lgb.basic.LightGBMError, xgb.core.XGBoostError):  # built without CUDA
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


def in_lightgbm(device, objective):
    parameters = {"verbose": -1, "metric": "None", "min_sum_hessian_in_leaf": 1e-6, "device": device}
    model = lgb.train({**parameters, "objective": objective}, lgb.Dataset(X, Y, group=GROUP), 20)
    return model.predict(X)


def in_xgboost(device, objective):
    data = xgb.QuantileDMatrix(X, Y, qid=DATA.qid)
    return xgb.train({**OURS, "device": device}, data, 20, obj=objective).predict(data)


@pytest.mark.parametrize("host", [in_lightgbm, in_xgboost])
def test_a_gpu_trains_as_well_as_the_cpu(host):
    if not has_gpu(host):
        pytest.skip("needs a GPU, and a host that was built for it")
    cpu, gpu = (lp.evaluate("ndcg@10", Y, host(device, Spy("ndcg@10")), GROUP)["ndcg@10"] for device in ("cpu", "cuda"))
    scores, gradient, hessian = Spy.seen
    assert type(scores) is type(gradient) is type(hessian) is np.ndarray
    assert gpu > cpu - 0.05


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
