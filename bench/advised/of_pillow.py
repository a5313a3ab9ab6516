"""Functions of Pillow for bench/advise_corpus.py."""

import io

from PIL import Image, ImageFilter

_IMAGE = Image.effect_mandelbrot((900, 700), (-2, -1.2, 1, 1.2), 60).convert("RGB")


def resize():
    return _IMAGE.resize((300, 240), Image.Resampling.LANCZOS).size


def blur():
    return _IMAGE.filter(ImageFilter.GaussianBlur(4)).size


def jpeg():
    out = io.BytesIO()
    _IMAGE.save(out, "JPEG", quality=85)
    return len(out.getvalue())
