"""What JAX calls in every process of a machine where Weft is installed (entry point `jax_plugins`).

It does nothing unless the platform was asked for, and what goes wrong here stays here: JAX goes on
without Weft after one warning, or, where Weft alone was asked for, says why it cannot be had.
"""

import importlib
import logging
import os
import re

from weft import PLATFORM, library_path

_logger = logging.getLogger("weft")
_state = {"registered": False}

# Modules with `install(library, c_api)`, each a feature of JAX that goes by the platform's name.
_FEATURES = ("_lowerings", "_callbacks", "_ffi", "_cache", "_dlpack", "_guards", "_interrupts")


def asked_for():
    """`alone`, `beside others`, `by default` or None."""
    import jax

    wanted = jax.config.jax_platforms
    if wanted:
        names = [name.strip() for name in wanted.split(",")]
        if PLATFORM not in names:
            return None
        return "alone" if len(names) == 1 else "beside others"
    default = os.environ.get("WEFT_DEFAULT", "")
    if default not in ("", "0", "1"):
        raise ValueError(f"WEFT_DEFAULT: wrong value: {default}: expected 0 or 1")
    return "by default" if default == "1" else None


def initialize():
    """JAX's entry point."""
    how = asked_for()
    if how is None or _state["registered"]:
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

    library = _native.load(library_path())
    getattr(xla_bridge, "_nonexperimental_plugins", set()).add(PLATFORM)
    c_api = xla_bridge.register_plugin(PLATFORM, priority=600, library_path=library.path,
                                        options=_client_options)
    _state["registered"] = True
    _fail_quietly(xla_bridge)
    for feature in _FEATURES:
        _install(feature, library, c_api)


def _client_options():
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


def _install(feature, library, c_api):
    try:
        importlib.import_module("weft." + feature).install(library, c_api)
    except Exception as error:  # pylint: disable=broad-except
        # Private parts of JAX move between its releases; the rest goes on without this feature.
        import jax

        _logger.warning(
            "weft: %s is not available with jax %s: %s: %s",
            feature.lstrip("_"), jax.__version__, type(error).__name__, error)


def _fail_quietly(xla_bridge):
    """A client that cannot be made must not stop a program that would run on other platforms."""
    import dataclasses

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
            names = [name.strip() for name in jax.config.jax_platforms.split(",")]
            jax.config.update("jax_platforms", ",".join(n for n in names if n != PLATFORM))
        return

    def factory():
        raise RuntimeError(reason)

    xla_bridge.register_backend_factory(PLATFORM, factory, priority=0, fail_quietly=True)
