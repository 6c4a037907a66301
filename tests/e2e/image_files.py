# SPDX-License-Identifier: Apache-2.0
"""Image files of all common kinds, written by Pillow, and their pixels as Pillow reads them: the reference of
test_images.py and test_pack.py."""

import numpy as np
from PIL import Image, ImageOps


def picture(width, height, seed=0):
    """Smooth and sharp parts, all colours; no two seeds alike."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width] / max(width, height)
    waves = [np.sin(9 * (x * rng.normal() + y * rng.normal() + rng.normal())) for _ in range(3)]
    pixels = 127 + 90 * np.stack(waves, -1)
    pixels[height // 3 : height // 2, width // 4 : width // 2] = rng.integers(0, 256, 3)
    return Image.fromarray(np.clip(pixels + rng.normal(0, 4, pixels.shape), 0, 255).astype(np.uint8))


def exif(orientation):
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


def write_all(folder):
    """Files of each format and form; smooth images, so that decoders of different versions differ little."""
    image = picture(90, 60, 1)
    alpha = image.copy()
    alpha.putalpha(Image.linear_gradient("L").resize(image.size))
    deep = np.asarray(image.convert("L")).astype(np.uint16) * 257
    image.save(folder / "baseline.jpg", quality=95, subsampling=0)
    image.save(folder / "subsampled.JPEG", quality=90, subsampling=2)
    image.save(folder / "progressive.jpg", quality=92, progressive=True)
    image.convert("L").save(folder / "grey.jpg", quality=95)
    image.convert("CMYK").save(folder / "cmyk.jpg", quality=95)
    image.save(folder / "rgb.png")
    image.convert("L").save(folder / "grey.png")
    image.convert("1").save(folder / "bits.png")
    image.quantize(40).save(folder / "palette.png")
    image.quantize(4).save(folder / "palette_2_bits.png", bits=2)
    alpha.save(folder / "alpha.png")
    alpha.convert("LA").save(folder / "grey_alpha.png")
    Image.fromarray(deep).save(folder / "deep.png")
    image.save(folder / "lossy.webp", quality=90)
    image.save(folder / "lossless.webp", lossless=True)
    alpha.save(folder / "alpha.webp", lossless=True, exact=True)
    image.save(
        folder / "animated.webp",
        save_all=True,
        append_images=[image.transpose(Image.Transpose.ROTATE_180)],
        lossless=True,
    )
    for o in range(1, 9):
        image.save(folder / f"turned{o}.jpg", quality=95, subsampling=0, exif=exif(o))
    image.save(folder / "turned.png", exif=exif(6))
    image.save(folder / "turned.webp", exif=exif(8), lossless=True)
    picture(200, 31, 2).save(folder / "wide.png")
    picture(20, 110, 3).save(folder / "tall.png")
    picture(7, 5, 4).save(folder / "tiny.png")


def open_upright(path, mode="RGB"):
    with Image.open(path) as image:
        if image.mode.startswith("I"):  # 16 bits: Pillow's own conversion clips them
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        return ImageOps.exif_transpose(image).convert(mode)


def cover(image, height, width):
    """As small as covers the crop, then its middle."""
    w, h = image.size
    if w * height >= h * width:
        size = (max(width, w * height // h), height)
    else:
        size = (width, max(height, h * width // w))
    return crop(image.resize(size, Image.Resampling.BILINEAR), height, width)


def short_side(image, side):
    """torchvision.transforms.Resize(side)"""
    w, h = image.size
    size = (side, int(side * h / w)) if w <= h else (int(side * w / h), side)
    return image.resize(size, Image.Resampling.BILINEAR)


def crop(image, height, width):
    """torchvision.transforms.CenterCrop"""
    w, h = image.size
    top, left = round((h - height) / 2), round((w - width) / 2)
    return np.asarray(image.crop((left, top, left + width, top + height)))
