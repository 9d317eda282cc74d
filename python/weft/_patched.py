"""A module with some of its attributes replaced, for those of JAX's modules that shall see others."""


class Module:

    def __init__(self, module, **replaced):
        self._module = module
        self.__dict__.update(replaced)

    def __getattr__(self, name):
        return getattr(self._module, name)
