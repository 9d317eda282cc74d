"""A model that Keras trained on its JAX backend: through jax.export into a folder, asked over HTTP."""

import os
import sys

os.environ["KERAS_BACKEND"] = "jax"

import jax  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
import serve_process  # noqa: E402

import weft.serve  # noqa: E402


def trained():
    """Learns whether two numbers have the same sign."""
    x = np.random.default_rng(0).uniform(-1, 1, (512, 2)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.float32)
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1, activation="sigmoid")])
    model.compile(optimizer=keras.optimizers.Adam(0.05), loss="binary_crossentropy")
    model.fit(x, y, batch_size=64, epochs=12, verbose=0)
    return model


def main(folder):
    model = trained()
    weights = {"trainable": [v.value for v in model.trainable_variables], "others": [v.value for v in model.non_trainable_variables]}

    def apply(params, x):
        return model.stateless_call(params["trainable"], params["others"], x)[0]

    x = np.array([[0.5, 0.6], [0.7, -0.8], [-0.9, -0.4]], np.float32)
    want = np.asarray(model(x))
    assert (want[:, 0] > 0.5).tolist() == [True, False, True], want
    # What jax.export gives back is taken as a function is.
    exported = jax.export.export(jax.jit(apply))(weights, jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 2"), np.float32))
    exported = jax.export.deserialize(exported.serialize())
    weft.serve.export(exported, weights, {"x": x[:1]}, f"{folder}/signs", buckets=(1, 4))
    with serve_process.serving(f"--model=signs={folder}/signs") as server:
        status, answer = server.ask("/v1/models/signs:predict", {"instances": x.tolist()})
        assert status == 200, answer
        np.testing.assert_allclose(answer["predictions"], want, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    main(sys.argv[1])
