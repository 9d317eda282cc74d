"""Weft: an open compiler and runtime for machine-learning programs, as a device for JAX.

JAX finds this package by itself; it is used where it is asked for:

    JAX_PLATFORMS=weft python program.py        # or weft,cpu; or WEFT_DEFAULT=1

Nothing here needs to be imported for that. `library_path()` is where the PJRT plugin lies, and
`register()` makes the platform known in a process that did not ask for it (to export for it, say).

    WEFT_AS=cpu python program.py               # Weft is JAX's `cpu`, for programs that list platforms

Where there is a GPU, platform `weft` is the GPU, and the processor can be asked for beside it:
JAX_PLATFORMS=weft,weft_cpu. WEFT_PLATFORM=cpu has no GPU at all.
"""

import contextlib
import os

__version__ = "0.1.0"
NAME = "weft"  # what Weft is asked for by
# What its devices answer to whoever asks for a platform.
PLATFORM = "cpu" if os.environ.get("WEFT_AS") == "cpu" else NAME
CPU = "weft_cpu"  # the processor, where `weft` is a GPU


def _has_gpu() -> bool:
    """Whether devices are a GPU: by WEFT_PLATFORM, else where a driver of NVIDIA's is loaded."""
    chosen = os.environ.get("WEFT_PLATFORM", "")
    if chosen or PLATFORM != NAME:
        return chosen in ("gpu", "pretend") and PLATFORM == NAME
    return any(os.path.exists(path) for path in ("/dev/nvidiactl", "/dev/dxg"))


HAS_GPU = _has_gpu()
PLATFORMS = (PLATFORM, CPU) if HAS_GPU else (PLATFORM,)  # all that are Weft


def is_on_cpu(platform) -> bool:
    """Whether it is one of Weft's whose arrays lie in the host's memory."""
    return platform in PLATFORMS and not (HAS_GPU and platform == PLATFORM)


TESTED_JAX = ("0.10.1", "0.12")  # the first and the last release that the tests were run with


def library_path() -> str:
    """The PJRT plugin: WEFT_LIBRARY where set, else the one installed with this package, else, in
    the source tree, the one built there."""
    chosen = os.environ.get("WEFT_LIBRARY")
    if chosen:
        return os.path.abspath(chosen)
    package = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(package, "libpjrt_weft.so")
    built = os.path.join(os.path.dirname(os.path.dirname(package)), "build", "libpjrt_weft.so")
    return built if not os.path.exists(installed) and os.path.exists(built) else installed


def guide_path() -> str:
    """The folder of the user guide: pages in Markdown, index.md first."""
    package = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(package, "guide")
    return installed if os.path.exists(installed) else os.path.join(os.path.dirname(os.path.dirname(package)), "docs")


def register() -> None:
    """Registers the platform `weft` with JAX, asked for or not. Call before JAX is first used."""
    from weft import jax_plugin

    jax_plugin.register()


def set_threads(count: int) -> None:
    """How many threads work on programs from now on, in this process: from 1 to the number of
    cores. WEFT_THREADS says it from the start."""
    from weft import _native

    if count < 1:
        raise ValueError(f"set_threads: {count} threads")
    _native.load(library_path()).set_threads(count)


def metrics():
    """What this process did on Weft, by name: counters and gauges as numbers, histograms as
    dictionaries of count, sum and cumulative buckets (upper end, count). docs/profiling.md lists
    them."""
    import json

    from weft import _native

    return json.loads(_native.load(library_path()).metrics(1))


def metrics_text():
    """The same in the text format of Prometheus."""
    from weft import _native

    return _native.load(library_path()).metrics(0)


@contextlib.contextmanager
def trace(path):
    """Records a timeline of what Weft does inside the `with` statement and writes it to `path` as
    JSON for Perfetto (ui.perfetto.dev). WEFT_TRACE=path records the whole process."""
    from weft import _native

    library = _native.load(library_path())
    number = library.begin_trace(os.path.abspath(path))
    try:
        yield
    finally:
        library.end_trace(number)
