"""What JAX calls in every process of a machine where Weft is installed (entry point `jax_plugins`).

It does nothing unless the platform was asked for, and what goes wrong here stays here: JAX goes on
without Weft after one warning, or, where Weft alone was asked for, says why it cannot be had.
"""

import dataclasses
import importlib
import logging
import os
import re

from weft import CPU, HAS_GPU, NAME, PLATFORM, TESTED_JAX, library_path

_logger = logging.getLogger("weft")
_state = {"registered": False}

# Modules with FEATURES: what JAX decides by a platform's name, and the function that makes it serve
# this one. Each is left out, with a warning, where JAX is not as it expects.
_MODULES = ("_lowerings", "_callbacks", "_partitioning", "_ffi", "_cache", "_dlpack", "_guards", "_interrupts",
            "_libraries", "_recurrent")

_NOT_ASKED_FOR = ("it is installed and was not asked for; set JAX_PLATFORMS=weft (or weft,cpu) or "
                  "WEFT_DEFAULT=1 before JAX is first used")


def _platforms_wanted():
    import jax

    return [name.strip() for name in (jax.config.jax_platforms or "").split(",") if name.strip()]


def asked_for():
    """`alone`, `beside others`, `by default` or None."""
    names = _platforms_wanted()
    if names:
        ours = {NAME, PLATFORM, CPU}.intersection(names)
        if not ours:
            return None
        return "alone" if ours.issuperset(names) else "beside others"
    default = os.environ.get("WEFT_DEFAULT", "")
    if default not in ("", "0", "1"):
        raise ValueError(f"WEFT_DEFAULT: wrong value: {default}: expected 0 or 1")
    return "by default" if default == "1" or PLATFORM != NAME else None


def initialize():
    """JAX's entry point."""
    if _state["registered"]:
        return
    how = asked_for()
    if how is None:
        _leave_a_hint()
        return
    try:
        register()
    except Exception as error:  # pylint: disable=broad-except
        _give_up(how, error)


def register():
    """Loads the plugin, makes the platform known to JAX and gives it what JAX keeps for its own."""
    if _state["registered"]:
        return
    from jax._src import xla_bridge

    from weft import _native

    wanted = os.environ.get("WEFT_AS", "")
    if wanted not in ("", NAME, PLATFORM):
        raise ValueError(f"WEFT_AS={wanted}: Weft can take the place of cpu only")
    library = _native.load(library_path())
    _warn_of_untested_versions()
    getattr(xla_bridge, "_nonexperimental_plugins", set()).add(NAME)
    api = xla_bridge.register_plugin(NAME, priority=600, library_path=library.path,
                                     options=_client_options)
    if PLATFORM != NAME:
        _take_the_place(xla_bridge)
    elif HAS_GPU:
        _keep_the_processor(xla_bridge, api)
        _answer_to_gpu(xla_bridge)
    _state["registered"] = True
    _fail_quietly(xla_bridge)
    for module in _MODULES:
        _install(module, library)


def _leave_a_hint():
    """For jax.devices("weft") in a program that did not ask for it: JAX's error says why."""
    from jax._src import xla_bridge

    errors = getattr(xla_bridge, "_backend_errors", None)
    if isinstance(errors, dict):
        errors.setdefault(NAME, _NOT_ASKED_FOR)


def _release(version):
    """(0, 10, 1) of "0.10.1.dev3"."""
    return tuple(int(part) for part in re.match(r"\d+(\.\d+)*", version)[0].split("."))


def _warn_of_untested_versions():
    import jax

    first, last = map(_release, TESTED_JAX)
    used = _release(jax.__version__)
    if used < first or used[:len(last)] > last:
        _logger.warning("weft: jax %s is outside of what Weft was tested with (%s to %s); what does "
                        "not work with it is left out with a warning", jax.__version__, *TESTED_JAX)


def _take_the_place(xla_bridge):
    """WEFT_AS=cpu: the platform `cpu` is Weft, XLA's own client of that name is not made, and `weft`
    is another name of it."""
    import functools

    import jax

    factories = xla_bridge._backend_factories
    ours, theirs = factories.pop(NAME), factories[PLATFORM]
    first = os.environ.get("WEFT_DEFAULT", "") not in ("", "0")
    factories[PLATFORM] = ours if first else dataclasses.replace(ours, priority=theirs.priority)
    topologies = getattr(xla_bridge, "_topology_factories", {})
    if NAME in topologies:
        topologies[PLATFORM] = functools.partial(topologies.pop(NAME), platform_name=PLATFORM)
    xla_bridge._alias_to_platforms[NAME] = [PLATFORM]
    names = _platforms_wanted()
    if NAME in names and PLATFORM in names:  # else JAX would make the client twice
        names = [PLATFORM if name == NAME else name for name in names]
        jax.config.update("jax_platforms", ",".join(dict.fromkeys(names)))


def _keep_the_processor(xla_bridge, api):
    """`weft` is a GPU: the processor is a platform beside it, by the same plugin."""
    getattr(xla_bridge, "_nonexperimental_plugins", set()).add(CPU)
    xla_bridge.register_plugin(
        CPU, priority=-100, c_api=api,
        options=lambda: {"platform": "cpu", "platform_name": CPU, **_device_options()})


def _answer_to_gpu(xla_bridge):
    """jax.devices("gpu") is Weft's where none of JAX's own GPU platforms is in use. Rules that are
    registered for `gpu` are not: they may call what only XLA has."""
    original = getattr(xla_bridge, "canonicalize_platform", None)
    if original is None:
        return

    def canonicalize_platform(platform):
        try:
            return original(platform)
        except RuntimeError:
            if platform != "gpu" or PLATFORM not in xla_bridge.backends():
                raise
            return PLATFORM

    xla_bridge.canonicalize_platform = canonicalize_platform


def _client_options():
    options = {"platform_name": PLATFORM} if PLATFORM != NAME else {}
    return {**options, **_device_options()}


def _device_options():
    """As many devices as XLA's CPU would have: libraries and tests ask for several of that one.
    WEFT_CPU_DEVICES, which the plugin reads itself, decides where it is set."""
    if os.environ.get("WEFT_CPU_DEVICES"):
        return {}
    from jax._src import xla_bridge

    setting = getattr(xla_bridge, "num_cpu_devices", None)
    count = setting.value if setting is not None else -1
    if count < 0:
        found = re.findall(r"xla_force_host_platform_device_count=(\d+)",
                           os.environ.get("XLA_FLAGS", ""))
        count = int(found[-1]) if found else 1
    return {"cpu_devices": count} if count > 1 else {}


def _install(module, library):
    try:
        features = importlib.import_module("weft." + module).FEATURES
    except Exception as error:  # pylint: disable=broad-except
        _leave_out(module.lstrip("_"), error)
        return
    for name, install in features.items():
        try:
            install(library)
        except Exception as error:  # pylint: disable=broad-except
            _leave_out(name, error)


def _leave_out(feature, error):
    """Private parts of JAX move between its releases; the rest goes on without this feature."""
    import jax

    _logger.warning("weft: %s is not available with jax %s: %s: %s", feature, jax.__version__,
                    type(error).__name__, error)


def _fail_quietly(xla_bridge):
    """A client that cannot be made must not stop a program that would run on other platforms."""
    factories = getattr(xla_bridge, "_backend_factories", {})
    if PLATFORM in factories:
        try:
            factories[PLATFORM] = dataclasses.replace(factories[PLATFORM], fail_quietly=True)
        except TypeError:
            pass  # no longer a dataclass: JAX's own choice stands


def _give_up(how, error):
    import jax
    from jax._src import xla_bridge

    reason = f"weft is not available: {error}"
    if how != "alone":
        _logger.warning("%s; going on without it", reason)
        if how == "beside others":
            names = [name for name in _platforms_wanted() if name != NAME]
            jax.config.update("jax_platforms", ",".join(names))
        return

    def factory():
        raise RuntimeError(reason)

    xla_bridge._backend_factories.pop(PLATFORM, None)  # XLA's own must not answer in its place
    for name in {NAME, PLATFORM}:
        xla_bridge.register_backend_factory(name, factory, priority=0, fail_quietly=True)
