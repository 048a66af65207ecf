# SPDX-License-Identifier: Apache-2.0
"""How the calls of a step loop reach libcep: the extension module, or ctypes where that is missing."""

import contextlib
import copy
import gc
import inspect
import os
import pickle
import shutil
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import cep
import pytest

BINDING = os.environ.get("CEP_BINDING", "")
is_native = pytest.mark.skipif(cep.binding != "native", reason="the extension module is not in use")


def imported(code="import cep; print(cep.binding)", **env):
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True)


def test_the_binding_is_the_one_that_the_variable_names():
    assert cep.binding == {"": cep.binding, "ctypes": "ctypes"}.get(BINDING, "native")


def test_ctypes_can_be_chosen():
    assert imported(CEP_BINDING="ctypes").stdout == "ctypes\n"


def test_a_chosen_module_that_is_missing_is_an_error(tmp_path):
    result = imported(CEP_BINDING=str(tmp_path / "nowhere.so"))
    assert result.returncode != 0 and "ImportError" in result.stderr and "nowhere.so" in result.stderr


def copy_of_the_package(folder):
    package = folder / "cep"
    shutil.copytree(Path(cep.__file__).parent, package, ignore=shutil.ignore_patterns("_native*", "__pycache__"))
    return package


def test_a_package_without_the_module_uses_ctypes(tmp_path):
    copy_of_the_package(tmp_path)
    assert imported(CEP_BINDING="", PYTHONPATH=str(tmp_path)).stdout == "ctypes\n"
    assert "_native" in imported(CEP_BINDING="native", PYTHONPATH=str(tmp_path)).stderr


def test_a_module_that_cannot_be_loaded_is_passed_over(tmp_path):
    (copy_of_the_package(tmp_path) / "_native.abi3.so").write_text("not a module")
    assert imported(CEP_BINDING="", PYTHONPATH=str(tmp_path)).stdout == "ctypes\n"


@is_native
def test_the_module_in_the_package_is_found_and_uses_the_library_that_the_package_loaded(tmp_path):
    shutil.copy(BINDING, copy_of_the_package(tmp_path))
    library = tmp_path / "libcep.so.0"
    shutil.copy(cep.library_path(), library)
    code = f"""
import cep, re
with cep.Profiler({str(tmp_path)!r}, record_every_n_steps=1, backend="host") as prof:
    prof.step(0)
    with prof.region("forward"):
        pass
maps = open("/proc/self/maps").read()
print(cep.binding, set(re.findall(r"/\\S*libcep\\.so\\S*", maps)), prof.stats.written)
"""
    result = imported(code, CEP_BINDING="", PYTHONPATH=str(tmp_path), CEP_LIBRARY=str(library))
    assert result.stdout == f"native {{{str(library)!r}}} 1\n", result.stderr


def other_pythons():
    """CPython 3.9 and later on this machine, those of pyenv too."""
    found = [path for minor in range(9, 15) if (path := shutil.which(f"python3.{minor}")) and ".pyenv" not in path]
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser().glob("versions/3.*/bin/python3")
    found += [str(path) for path in versions if int(path.parts[-3].split(".")[1]) >= 9]
    return sorted(found) or [sys.executable]


@is_native
@pytest.mark.parametrize("python", other_pythons())
def test_one_binary_serves_every_python(python, tmp_path):
    code = f"""
import cep, sys
with cep.Profiler({str(tmp_path)!r}, record_every_n_steps=1, backend="host") as prof:
    for step in range(10):
        prof.step(step)
        with prof.region("outer"), prof.region("inner", stream=cep.HOST):
            pass
        prof.phase("forward")
    prof.end_phase()
assert prof.stats.written == 30, prof.stats
print(cep.binding, sys.modules["cep._native"].TimedFunction(None, max, min, [])(2, 3, key=lambda x: -x))
"""
    result = subprocess.run([python, "-c", code], env=dict(os.environ), capture_output=True, text=True)
    assert result.stdout == "native 2\n", result.stderr


def test_regions_are_found_again_by_name_kind_and_stream(profiler):
    forward = profiler.region("forward")
    assert profiler.region("forward") is forward
    assert profiler.region(name="forward", kind="compute", stream=None) is forward
    assert profiler.region("forward", None, 7) is profiler.region("forward", stream=7) is not forward
    assert profiler.region("forward", stream=cep.HOST) is profiler.region("forward", stream=cep.HOST)
    assert profiler.region("forward", stream=cep.HOST) is not profiler.region("forward", stream=7)


@pytest.mark.parametrize("arguments", [{"kind": "nonsense"}, {"stream": "nonsense"}, {"kind": ["compute"]}])
def test_a_known_regions_other_arguments_are_checked_too(profiler, arguments):
    profiler.region("forward")
    with pytest.raises((cep.OptionError, TypeError)):
        profiler.region("forward", **arguments)


@pytest.mark.parametrize("call", ["prof.region()", "prof.region('a', nonsense=1)", "prof.step(1, 2)", "prof.step(x=1)"])
def test_wrong_arguments_are_type_errors(profiler, call):
    with pytest.raises(TypeError):
        eval(call, {"prof": profiler})


def test_many_blocks_of_one_region_may_be_open(profiler, files):
    region = profiler.region("outer")
    for _ in range(50):
        region.__enter__()
    for _ in range(50):
        region.__exit__(None, None, None)
    region.__exit__(None, None, None)  # one too many
    assert [row["depth"] for row in files.spans("outer")] == list(range(49, -1, -1))


def test_blocks_of_threads_that_overlap_end_their_own_spans(profiler, files):
    region = profiler.region("shared")
    entered, leave = threading.Barrier(9), threading.Barrier(9)

    def body():
        with region:
            with region:
                entered.wait()
                leave.wait()

    threads = [threading.Thread(target=body) for _ in range(8)]
    for thread in threads:
        thread.start()
    entered.wait()
    assert profiler.stats.open_spans == 16
    leave.wait()
    for thread in threads:
        thread.join()
    assert len(files.spans("shared")) == 16 and profiler.stats.open_spans == 0


def test_a_profiler_and_its_regions_are_collected(tmp_path):
    profiler = cep.Profiler(tmp_path, record_every_n_steps=1)
    profiler.step(0)
    with profiler.region("forward"), profiler.region("forward", stream=7), profiler.region("sync", bytes=5):
        profiler.phase("phase")
    timed = profiler.region("forward")(lambda: None)
    timed()
    alive = weakref.ref(profiler)
    del profiler, timed
    gc.collect()
    assert alive() is None


def test_nothing_leaks_in_a_step_loop(tmp_path):
    with cep.Profiler(tmp_path, record_every_n_steps=2, backend="host") as profiler:
        timed = profiler.region("timed")(lambda argument: argument)

        def train(steps):
            for step in range(steps):
                profiler.step(step)
                with profiler.region("forward"), profiler.region("load", stream=cep.HOST):
                    timed(argument=step)
                with profiler.region("sync", group="dp", coll=step, bytes=1 << 40, flops=0.5):
                    pass
                profiler.phase("phase")
            profiler.end_phase()
            profiler.flush()
            gc.collect()

        train(100)
        before = sys.getallocatedblocks()
        train(2000)
        assert sys.getallocatedblocks() - before < 200


@is_native
def test_a_with_block_makes_no_objects_to_call(profiler):
    region = profiler.region("forward")
    assert region.__enter__ is region.__enter__ and region.__exit__ is region.__exit__
    assert region.__enter__.__self__ is region


def test_a_region_of_one_use_is_freed_at_its_end(profiler):
    gc.disable()
    try:
        for coll in range(3):
            with profiler.region("of_one_use", group="dp", coll=coll):
                pass
        regions = [found for found in gc.get_objects() if isinstance(found, cep.Region) and found.name == "of_one_use"]
    finally:
        gc.enable()
    assert regions == [profiler.region("of_one_use")]


def test_regions_work_in_an_exit_stack(profiler, files):
    with contextlib.ExitStack() as stack:
        for name in ("outer", "inner"):
            assert stack.enter_context(profiler.region(name)).name == name
    assert [(row["name"], row["depth"]) for row in files.spans()] == [("inner", 1), ("outer", 0)]


def test_calls_of_with_blocks_are_found_on_the_class(profiler, files):
    region = profiler.region("forward")
    assert cep.Region.__enter__(region) is region
    cep.Region.__exit__(region, None, None, None)
    assert len(files.spans("forward")) == 1


def decorated(profiler):
    @profiler.region("function")
    def function(first, second=2, *, third=3):
        """What it does."""
        return first, second, third

    return function


def test_a_decorated_function_looks_like_the_function(profiler):
    function = decorated(profiler)
    assert function(1, third=4) == (1, 2, 4)
    assert str(inspect.signature(function)) == "(first, second=2, *, third=3)"
    assert (function.__name__, function.__doc__) == ("function", "What it does.")
    assert function.__module__ == __name__ and function.__wrapped__(5)[0] == 5
    function.attribute = 7
    assert function.attribute == 7
    assert weakref.ref(function)() is function
    assert copy.copy(function) is function is copy.deepcopy(function)


class Model:
    """Its method is decorated in the test below."""

    def forward(self, value):
        return self, value


def test_a_decorated_method_is_bound(profiler, files, monkeypatch):
    monkeypatch.setattr(Model, "forward", profiler.region("method")(Model.forward))
    model = Model()
    assert model.forward(3) == (model, 3)
    bound = model.forward
    assert bound(4) == (model, 4) and Model.forward(model, value=5) == (model, 5)
    assert len(files.spans("method")) == 3


def test_a_decorated_function_is_pickled_by_name(profiler, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "decorated", profiler.region("pickled")(decorated))
    assert pickle.loads(pickle.dumps(decorated)) is decorated
