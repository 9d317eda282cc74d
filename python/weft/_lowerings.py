"""Lowering rules: those of `cpu`, donation, memory kinds inside jit."""

from weft import PLATFORM

# Primitives whose rule for cpu works around XLA:CPU or suits it only: their common rule is used.
#   threefry2x32          a rolled loop; the common rule is straight-line code in a function
#   random_gamma          one element at a time; the common rule is vectorized
#   select_and_scatter_add  pads by hand because of a crash
_COMMON_RULE = frozenset({"threefry2x32", "random_gamma", "select_and_scatter_add"})


class SharedRules(dict):
    """The rules of another platform, also those that are registered later, with rules of its own."""

    def __init__(self, source):
        super().__init__()
        self._source = source

    def __contains__(self, primitive):
        if super().__contains__(primitive):
            return True
        return primitive.name not in _COMMON_RULE and primitive in self._source

    def __missing__(self, primitive):
        if primitive.name in _COMMON_RULE:
            raise KeyError(primitive)
        return self._source[primitive]

    def get(self, primitive, default=None):
        return self[primitive] if primitive in self else default


def install(library, c_api):
    del library, c_api
    from jax._src import dispatch
    from jax._src.interpreters import mlir

    if PLATFORM not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(PLATFORM)
    rules = SharedRules(mlir._platform_specific_lowerings["cpu"])
    rules.update(mlir._platform_specific_lowerings.get(PLATFORM, {}))
    mlir._platform_specific_lowerings[PLATFORM] = rules
    mlir.register_lowering(
        dispatch.device_put_p, dispatch._tpu_gpu_device_put_lowering, platform=PLATFORM)
    _share_branches_of_cpu()
    _compute_custom_partitioning_whole()
    _prepare_lapack_for_exported_programs()
    _accept_buffers_without_copy()


def with_weft(branches):
    """The platforms of lax.platform_dependent's branches: where neither a default nor a branch of
    its own suits this platform, it takes the one of cpu."""
    if branches is None or any(ps is None or PLATFORM in ps for ps in branches):
        return branches
    return tuple((*ps, PLATFORM) if "cpu" in ps else ps for ps in branches)


def _share_branches_of_cpu():
    from jax._src.interpreters import mlir
    from jax._src.lax.control_flow import conditionals

    def wrap(primitive, parameter):
        rule = mlir._lowerings[primitive].rule

        def lower(ctx, *args, **params):
            if parameter in params:
                params[parameter] = with_weft(params[parameter])
            return rule(ctx, *args, **params)

        mlir.register_lowering(primitive, lower)

    wrap(conditionals.platform_index_p, "platforms")
    wrap(conditionals.cond_p, "branches_platforms")


def _compute_custom_partitioning_whole():
    """Programs on several devices are evaluated in whole shapes: what stands in the function that
    `custom_partitioning` decorates is what is computed, and its partitioner is never asked."""
    from jax._src import core, custom_partitioning
    from jax._src.interpreters import mlir

    def lower(ctx, *values, call, **_):
        whole = mlir.lower_fun(core.jaxpr_as_fun(call), multiple_results=True)
        return whole(ctx, *values)

    mlir.register_lowering(custom_partitioning.custom_partitioning_p, lower, platform=PLATFORM)


def _prepare_lapack_for_exported_programs():
    """LAPACK is set up when a call of it is lowered, which a program read from a file never is."""
    from jax._src.export import _export
    from jax._src.lax import linalg

    original = _export._ensure_backends_initialized

    def ensure(platforms):
        original(platforms)
        if PLATFORM in platforms:
            linalg.initialize_lapack()

    _export._ensure_backends_initialized = ensure


def _accept_buffers_without_copy():
    """jnp.asarray(numpy_array, copy=False) is refused on platforms that are not `cpu`."""
    from jax._src.numpy import array_constructors

    original = array_constructors._get_platform

    def get_platform(device_or_sharding):
        platform = original(device_or_sharding)
        return "cpu" if platform == PLATFORM else platform

    array_constructors._get_platform = get_platform
