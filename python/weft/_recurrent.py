"""jax.experimental.rnn: its LSTM is two primitives with rules for cuDNN alone. Here they are a product of all
steps with the input's weights, and a scan."""

import dataclasses

from weft import PLATFORMS

_PRIMITIVES = ("rnn_fwd", "rnn_bwd")


def _direction(x, h, c, w_input, w_state, bias, valid, precision, reverse):
    """One direction of one layer, by steps of [time, batch, ...]: (outputs, last h, last c). Steps behind
    the end of a sequence leave the state as it is."""
    import jax
    from jax import numpy as jnp

    ahead = jnp.einsum("tbi,gi->tbg", x, w_input, precision=precision) + bias[None, None]

    def step(state, at):
        h, c = state
        gates, inside = at
        gates = gates + jnp.einsum("bh,gh->bg", h, w_state, precision=precision)
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        new_c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        new_h = jax.nn.sigmoid(o) * jnp.tanh(new_c)
        inside = inside[:, None]
        state = jnp.where(inside, new_h, h), jnp.where(inside, new_c, c)
        return state, jnp.where(inside, new_h, 0)

    (h, c), y = jax.lax.scan(step, (h, c), (ahead, valid), reverse=reverse)
    return y, h, c


def _lstm(x, h_0, c_0, weights, seq_lengths, *, input_size, hidden_size, num_layers, dropout,
          bidirectional, cudnn_allow_tf32):
    from jax import lax, numpy as jnp
    from jax.experimental import rnn

    if dropout:
        raise NotImplementedError(f"rnn: dropout {dropout} between layers: Weft has no rule for it\n"
                                  "  hint: lstm(..., dropout=0.0) layer by layer, and jax.random for the mask")
    precision = lax.Precision.DEFAULT if cudnn_allow_tf32 else lax.Precision.HIGHEST
    w_input, w_state, b_input, b_state = rnn.unpack_lstm_weights(
        weights, input_size, hidden_size, num_layers, bidirectional)
    y = x.transpose(1, 0, 2)
    valid = jnp.arange(y.shape[0], dtype=seq_lengths.dtype)[:, None] < seq_lengths[None]
    directions = 2 if bidirectional else 1
    last_h, last_c = [], []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            out, h, c = _direction(y, h_0[k], c_0[k], w_input[k], w_state[k], b_input[k] + b_state[k],
                                   valid, precision, reverse=direction == 1)
            outputs.append(out)
            last_h.append(h)
            last_c.append(c)
        y = jnp.concatenate(outputs, axis=-1)
    return y.transpose(1, 0, 2), jnp.stack(last_h), jnp.stack(last_c)


def _forward(avals_out):
    """cuDNN keeps what the gradient needs in a fourth result; here it is computed again."""

    def run(*args, **params):
        from jax import numpy as jnp
        return (*_lstm(*args, **params), jnp.zeros(avals_out[3].shape, avals_out[3].dtype))

    return run


def _backward(dy, dh, dc, x, h_0, c_0, weights, y, reserve, seq_lengths, **params):
    import jax

    del y, reserve
    _, pull = jax.vjp(lambda *args: _lstm(*args, seq_lengths, **params), x, h_0, c_0, weights)
    return pull((dy, dh, dc))


def _repeat(library):
    del library
    from jax._src.interpreters import mlir

    def rule(primitive):
        tables = mlir._platform_specific_lowerings

        def lower(ctx, *args, **params):
            function = _forward(ctx.avals_out) if primitive.name == "rnn_fwd" else _backward
            return mlir.lower_fun(function, multiple_results=True)(ctx, *args, **params)

        return dataclasses.replace(tables["cuda"][primitive], rule=lower)

    for platform in PLATFORMS:
        for name in _PRIMITIVES:
            mlir._platform_specific_lowerings[platform].by_name[name] = rule
    _size_without_cudnn()


def _size_without_cudnn():
    """How much the gradient needs is asked of cuDNN, by JAX's plugin for CUDA; nothing where there is none."""
    from jax._src.lib import gpu_rnn

    name = "compute_rnn_workspace_reserve_space_sizes"
    if gpu_rnn is not None and not hasattr(gpu_rnn, name):
        setattr(gpu_rnn, name, lambda *args: (0, 0))


FEATURES = {"recurrent networks of cuDNN": _repeat}
