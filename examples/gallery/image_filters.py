"""Six filters of one picture: Gaussian blur, Sobel edges, median, bilateral, unsharp mask, histogram equalisation."""

import show  # first: it chooses the platform

import jax
import jax.numpy as jnp
import numpy as np


# ---- the program


def convolve(image, kernel):
    kernel = jnp.asarray(kernel, image.dtype)
    return jax.scipy.signal.convolve2d(jnp.pad(image, kernel.shape[0] // 2, mode="edge"), kernel, mode="valid")


def gaussian(image, sigma):
    """Separable: a column, then a row."""
    line = jnp.exp(-(jnp.arange(-3 * sigma, 3 * sigma + 1) ** 2) / (2 * sigma**2))
    line = line / line.sum()
    padded = jnp.pad(image, 3 * sigma, mode="edge")
    rows = jax.vmap(lambda row: jnp.convolve(row, line, mode="valid"))
    return rows(rows(padded).T).T


def sobel(image):
    slope = jnp.array([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]])
    return jnp.hypot(convolve(image, slope), convolve(image, slope.T))


def windows(image, radius):
    """The shifted copies of the image in which a pixel sees its neighbours."""
    height, width = image.shape
    padded = jnp.pad(image, radius, mode="edge")
    return jnp.stack([padded[i:i + height, j:j + width] for i in range(2 * radius + 1) for j in range(2 * radius + 1)])


def median(image):
    return jnp.median(windows(image, 2), axis=0)


def bilateral(image, radius=4, near=2.5, alike=0.12):
    """Averages over neighbours that are near and alike, which keeps edges."""
    offsets = jnp.arange(-radius, radius + 1)
    far = (offsets[:, None] ** 2 + offsets[None, :] ** 2).reshape(-1, 1, 1) / (2 * near**2)
    seen = windows(image, radius)
    weights = jnp.exp(-far - (seen - image) ** 2 / (2 * alike**2))
    return (weights * seen).sum(0) / weights.sum(0)


def equalise(image):
    counts, edges = jnp.histogram(image, bins=256, range=(0.0, 1.0))
    return jnp.interp(image, edges[1:], jnp.cumsum(counts) / image.size)


def filters(image):
    return dict(gaussian=gaussian(image, 3), sobel=sobel(image), median=median(image), bilateral=bilateral(image),
                unsharp=jnp.clip(image + 1.5 * (image - gaussian(image, 2)), 0, 1), equalised=equalise(image))


# ---- the picture


def scene(size):
    """Hills, a moon, and noise."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:1:size * 1j, 0:1:size * 1j]
    image = 0.45 - 0.3 * y
    image[np.hypot(x - 0.7, y - 0.25) < 0.13] = 0.9
    for k, shade in enumerate((0.35, 0.22, 0.1)):
        ridge = 0.55 + 0.12 * k + sum(rng.normal() * 0.05 / f * np.sin(f * (6 * x + 6 * rng.random())) for f in (1, 2, 4, 8, 16))
        image[y > ridge] = shade
    image += 0.05 * rng.standard_normal(image.shape)
    image[rng.random(image.shape) < 0.02] = 1.0
    return np.clip(image, 0, 1).astype(np.float32)


def draw(result):
    import matplotlib.pyplot as plt

    size = len(result["median"])
    figure, axes = plt.subplots(2, 4, figsize=(6, 3.3), layout="constrained")
    for place, (name, image) in zip(axes.flat, {"image": scene(size), **result}.items()):
        place.imshow(image, cmap="gray", vmin=0, vmax=1 if name != "sobel" else 2)
        place.set_title(name, fontsize=9)
    for place in axes.flat:
        place.axis("off")
    return figure


def program(quick):
    return filters, (scene(64 if quick else 256),)


if __name__ == "__main__":
    show.main(program, draw, colours=16)
