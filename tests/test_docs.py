"""What people read: docstrings, words, pictures, notebooks."""

import inspect
import re

import lambdaplug as lp
from lambdaplug.measures import Measure
from lambdaplug.objectives import Objective


def public():
    """(name, class or function) of everything that has a public name."""
    rooms = {"lp": lp, "lp.analysis": lp.analysis, "lp.constructions": lp.constructions}
    rooms |= {"lp.data": lp.data, "lp.presets": lp.presets}
    for room, module in rooms.items():
        for name in getattr(module, "__all__", vars(module)):
            thing = getattr(module, name)
            if (inspect.isclass(thing) or inspect.isfunction(thing)) and thing.__module__.startswith("lambdaplug"):
                yield f"{room}.{name}", thing


def sections(thing):
    """The docstring in numpydoc's sections; the part before them under an empty name."""
    parts = re.split(r"^([A-Z]\w+)\n-{3,}\n", inspect.getdoc(thing) or "", flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def parameters(thing):
    """Those of its own; a host's class documents the others."""
    if isinstance(thing, type) and issubclass(thing, Exception):
        return set()
    foreign = (
        [base for base in inspect.getmro(thing)[1:-1] if "lambdaplug" not in base.__module__]
        if inspect.isclass(thing)
        else []
    )
    hosts = {name for base in foreign for name in inspect.signature(base.__init__).parameters} - {"objective", "args"}
    return set(inspect.signature(thing).parameters) - hosts - {"self", "args", "kwargs"}


def faults(thing):
    found = sections(thing)
    said = found.get("Parameters", "") + found.get("Attributes", "")
    heads = re.findall(r"^\S.*$", said, re.M)
    named = {name.strip(" *") for head in heads for name in head.partition(" : ")[0].split(",")}
    if not found[""].strip():
        yield "no summary"
    yield from (f"no parameter {name}" for name in sorted(parameters(thing) - named))
    yield from (f"not numpydoc: {head}" for head in heads if not re.match(r"^\*{0,2}\w+(, \*{0,2}\w+)*( : \S|$)", head))
    if inspect.isfunction(thing) and inspect.signature(thing).return_annotation not in (None, "None"):
        yield from [] if "Returns" in found else ["no Returns"]
    if ">>>" not in found.get("Examples", ""):
        yield "no example"
    if re.search(r"\b(19|20)\d\d\b", found[""]) and "References" not in found:
        yield "no References"
    if inspect.isclass(thing) and issubclass(thing, (Measure, Objective)):
        yield from [] if re.search(r"\S = \S", found[""]) else ["no formula"]
    if "numpy._typing" in str(inspect.signature(thing) if parameters(thing) else ""):
        yield "a signature that nobody can read"


def test_every_public_name_is_documented_with_parameters_and_an_example():
    # tests/test_house.py runs the examples.
    assert [f"{name}: {fault}" for name, thing in public() for fault in faults(thing)] == []
    measures = [thing for _, thing in public() if inspect.isclass(thing) and issubclass(thing, Measure)]
    assert len(measures) == 15
    assert all("References" in sections(measure) for measure in measures)
    assert len(str(inspect.signature(lp.compare))) < 600
