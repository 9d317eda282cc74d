"""Replacing parts of JAX: modules with other attributes, and checks that a part is what it was."""

import inspect


class Module:
    """A module with some of its attributes replaced, for those of JAX's modules that shall see others."""

    def __init__(self, module, **replaced):
        self._module = module
        self.__dict__.update(replaced)

    def __getattr__(self, name):
        return getattr(self._module, name)


def check_parameters(function, *names):
    """Raises TypeError unless `function` can be called with arguments of these names."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    missing = [name for name in names if name not in parameters]
    if missing:
        called = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{called} takes no {', '.join(missing)}, but {', '.join(parameters)}")


def check_unary(function):
    """Raises TypeError unless `function` can be called with one argument by position."""
    inspect.signature(function).bind(None)
