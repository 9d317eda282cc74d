"""Lowering rules: those of `cpu`, donation, memory kinds inside jit, Pallas; what a lowered program
costs."""

import dataclasses

from weft import HAS_GPU, PLATFORM, PLATFORMS, _patched, is_on_cpu

# Primitives whose rule for cpu works around XLA:CPU or suits it only: their common rule is used.
#   threefry2x32          a rolled loop; the common rule is straight-line code in a function
#   random_gamma          one element at a time; the common rule is vectorized
#   select_and_scatter_add  pads by hand because of a crash
_COMMON_RULE = frozenset({"threefry2x32", "random_gamma", "select_and_scatter_add"})
# On a GPU also:
#   dot_general           refuses algorithms that XLA:CPU would ignore; here matrix units have them
_COMMON_RULE_ON_GPU = _COMMON_RULE | {"dot_general"}
# Algorithms of eigh and svd that LAPACK does not have are those of accelerators: a GPU takes what
# it has, which is as exact.
_ALGORITHMS_OF_LAPACK = {"eigh": ("qr",), "svd": ("default", "QR", "divide_and_conquer")}


class SharedRules(dict):
    """The rules of another platform, also those that are registered later, with rules of its own.
    `by_name` has those of primitives whose modules are imported by few programs."""

    def __init__(self, source, common=_COMMON_RULE):
        super().__init__()
        self._source = source
        self._common = common  # names of primitives whose common rule is used
        self.by_name = {}

    def __contains__(self, primitive):
        if super().__contains__(primitive) or primitive.name in self.by_name:
            return True
        return primitive.name not in self._common and primitive in self._source

    def __missing__(self, primitive):
        if primitive.name in self.by_name:
            return self.by_name[primitive.name](primitive)
        if primitive.name in self._common:
            raise KeyError(primitive)
        return self._source[primitive]

    def get(self, primitive, default=None):
        return self[primitive] if primitive in self else default


def _donate(library):
    del library
    from jax._src.interpreters import mlir

    for platform in PLATFORMS:
        if platform not in mlir._platforms_with_donation:
            mlir._platforms_with_donation.append(platform)


def _share_rules_of_cpu(library):
    del library
    from jax._src.interpreters import mlir

    tables = mlir._platform_specific_lowerings
    for platform in PLATFORMS:
        rules = SharedRules(tables["cpu"],
                            _COMMON_RULE if is_on_cpu(platform) else _COMMON_RULE_ON_GPU)
        if platform != "cpu":
            rules.update(tables.get(platform, {}))
        tables[platform] = rules


def _place_in_memories(library):
    del library
    from jax._src import dispatch
    from jax._src.interpreters import mlir

    for platform in PLATFORMS:
        mlir.register_lowering(
            dispatch.device_put_p, dispatch._tpu_gpu_device_put_lowering, platform=platform)


def _interpret_pallas(library):
    """pallas_call without `interpret=True`: as with it, which makes HLO of the kernel and its grid."""
    del library
    from jax._src.interpreters import mlir

    def rule(primitive):
        entry = mlir._lowerings[primitive]

        def lower(ctx, *args, interpret=False, **params):
            return entry.rule(ctx, *args, interpret=interpret or True, **params)

        return dataclasses.replace(entry, rule=lower)

    mlir.LoweringRuleEntry  # an entry has a rule and more
    for platform in PLATFORMS:
        mlir._platform_specific_lowerings[platform].by_name["pallas_call"] = rule


def _multiply_scaled_blocks(library):
    """jax.nn.scaled_matmul and scaled_dot_general: the rule of cuda makes a custom call, which Weft
    knows on all of its platforms."""
    del library
    from jax._src.interpreters import mlir

    def rule(primitive):
        return mlir._platform_specific_lowerings["cuda"][primitive]

    for platform in PLATFORMS:
        mlir._platform_specific_lowerings[platform].by_name["scaled_matmul"] = rule


def _spread(rows, columns, count, transpose):
    """(where a product's rows go, where they come from, how many there are) of a sparse matrix's entries."""
    return (columns, rows, count[1]) if transpose else (rows, columns, count[0])


def _multiply_coo(data, rows, columns, x, *, transpose, shape):
    import jax

    to, source, count = _spread(rows, columns, shape, transpose)
    products = data[:, None] * x[source] if x.ndim == 2 else data * x[source]
    return jax.numpy.zeros((count, *x.shape[1:]), x.dtype).at[to].add(products)


def _multiply_csr(data, columns, starts, x, *, transpose, shape):
    import jax

    # The row of an entry: how many rows have begun before it.
    entries = jax.numpy.arange(data.shape[0], dtype=starts.dtype)
    rows = jax.numpy.searchsorted(starts, entries, side="right").astype(starts.dtype) - 1
    return _multiply_coo(data, rows, columns, x, transpose=transpose, shape=shape)


def _multiply_sparse(library):
    """cuSPARSE's primitives of jax.experimental.sparse, and collective-broadcast: rules are there for cuda alone."""
    del library
    from jax._src.interpreters import mlir

    def rule_of(multiply):
        def rule(primitive):
            tables = mlir._platform_specific_lowerings
            of_cpu = tables["cpu"].get(primitive)

            def lower(ctx, *args, **params):
                if of_cpu is not None and not params:
                    return of_cpu.rule(ctx, *args)
                return mlir.lower_fun(multiply, multiple_results=False)(ctx, *args, **params)

            return dataclasses.replace(of_cpu or tables["cuda"][primitive], rule=lower)

        return rule

    for platform in PLATFORMS:
        by_name = mlir._platform_specific_lowerings[platform].by_name
        by_name["coo_spmv"] = by_name["coo_spmm"] = rule_of(_multiply_coo)
        by_name["csr_spmv"] = by_name["csr_spmm"] = rule_of(_multiply_csr)
        by_name["pbroadcast"] = lambda primitive: mlir._platform_specific_lowerings["cuda"][primitive]


def _choose_algorithms(library):
    """Jacobi and the like are refused by the rules of cpu."""
    del library
    from jax._src.interpreters import mlir

    def rule_of(known):
        def rule(primitive):
            entry = mlir._platform_specific_lowerings["cpu"][primitive]

            def lower(ctx, *args, algorithm=None, **params):
                if algorithm is not None and algorithm.value not in known:
                    algorithm = None
                return entry.rule(ctx, *args, algorithm=algorithm, **params)

            return dataclasses.replace(entry, rule=lower)

        return rule

    if HAS_GPU:
        for name, known in _ALGORITHMS_OF_LAPACK.items():
            mlir._platform_specific_lowerings[PLATFORM].by_name[name] = rule_of(known)


def with_weft(branches):
    """The platforms of lax.platform_dependent's branches. Where there is none of its own, the
    processor takes the one of cpu, also where there is a default (None); a GPU the default, then
    that of cpu. The one of cuda is for XLA: it may call what only XLA has."""
    if branches is None:
        return branches
    named = {platform for ps in branches if ps is not None for platform in ps}
    missing = tuple(platform for platform in PLATFORMS if platform not in named and
                    (is_on_cpu(platform) or None not in branches))
    return tuple((*ps, *missing) if ps is not None and "cpu" in ps else ps for ps in branches)


def _share_branches_of_cpu(library):
    del library
    from jax._src.interpreters import mlir
    from jax._src.lax.control_flow import conditionals

    def wrap(primitive, parameter):
        rule = mlir._lowerings[primitive].rule
        _patched.check_parameters(rule, parameter)

        def lower(ctx, *args, **params):
            if parameter in params:
                params[parameter] = with_weft(params[parameter])
            return rule(ctx, *args, **params)

        mlir.register_lowering(primitive, lower)

    wrap(conditionals.platform_index_p, "platforms")
    wrap(conditionals.cond_p, "branches_platforms")


class SharedPlatforms(tuple):
    """The platforms a program was exported for: those that have `cpu` serve this platform too."""

    def __contains__(self, platform):
        return super().__contains__("cpu" if platform in PLATFORMS else platform)

    def index(self, platform, *more):
        return super().index("cpu" if platform in PLATFORMS else platform, *more)


def _call_programs_exported_for_cpu(library):
    """Also prepares LAPACK, which is set up when a call of it is lowered: an exported program's
    never is."""
    del library
    from jax._src.export import _export
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    rule = mlir._lowerings[_export.call_exported_p].rule
    _patched.check_parameters(rule, "exported")

    def lower(ctx, *args, exported):
        ours = [p for p in PLATFORMS if p in ctx.module_context.platforms]
        if ours:
            linalg.initialize_lapack()
            if not set(ours) <= set(exported.platforms) and "cpu" in exported.platforms:
                exported = dataclasses.replace(
                    exported, platforms=SharedPlatforms(exported.platforms))
        return rule(ctx, *args, exported=exported)

    mlir.register_lowering(_export.call_exported_p, lower)


def _accept_buffers_without_copy(library):
    """jnp.asarray(numpy_array, copy=False) is refused on platforms that are not `cpu`."""
    del library
    from jax._src.numpy import array_constructors

    original = array_constructors._get_platform
    _patched.check_unary(original)

    def get_platform(device_or_sharding):
        platform = original(device_or_sharding)
        return "cpu" if is_on_cpu(platform) else platform

    array_constructors._get_platform = get_platform


def _analyse_cost(library):
    """Lowered.cost_analysis() is left out for plugins."""
    from jax._src.interpreters import pxla

    original = pxla.MeshComputation.cost_analysis
    _patched.check_unary(original)

    def cost_analysis(self):
        if self.compile_args["backend"].platform not in PLATFORMS:
            return original(self)
        return library.analyse_cost(self.hlo().as_serialized_hlo_module_proto())

    pxla.MeshComputation.cost_analysis = cost_analysis


FEATURES = {
    "donation": _donate,
    "rules of cpu": _share_rules_of_cpu,
    "algorithms of eigh and svd": _choose_algorithms,
    "memory kinds in jit": _place_in_memories,
    "Pallas": _interpret_pallas,
    "block-scaled products": _multiply_scaled_blocks,
    "sparse products": _multiply_sparse,
    "platform_dependent": _share_branches_of_cpu,
    "programs exported for cpu": _call_programs_exported_for_cpu,
    "asarray without copy": _accept_buffers_without_copy,
    "cost analysis": _analyse_cost,
}
