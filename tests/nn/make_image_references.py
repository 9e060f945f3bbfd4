#!/usr/bin/env python3
"""Computes what tests/nn/image_reference_test.cpp compares with, as make_references.py does.

    python3 tests/nn/make_image_references.py
"""

import torch.nn.functional as F

from reference_cases import case, draw, write


def deconv2d(rng):
    for name, x, w, stride, pad, dilation, groups, extra, bias in [
            # name, N I H W, O KH KW, stride, pad, dilation, groups, larger by, bias
            ("basic", (2, 3, 4, 5), (4, 3, 3), (1, 1), (0, 0), (1, 1), 1, (0, 0), True),
            ("dcgan", (2, 16, 4, 4), (8, 4, 4), (2, 2), (1, 1), (1, 1), 1, (0, 0), True),
            ("colours", (2, 8, 5, 5), (3, 3, 3), (1, 1), (1, 1), (1, 1), 1, (0, 0), True),
            ("larger", (1, 3, 4, 3), (2, 3, 3), (3, 2), (1, 0), (1, 1), 1, (2, 1), True),
            ("dilation", (2, 3, 4, 4), (2, 3, 2), (2, 1), (1, 1), (2, 3), 1, (0, 0), False),
            ("groups", (2, 6, 3, 3), (4, 3, 3), (2, 2), (1, 1), (1, 1), 2, (1, 1), True),
            ("many_images", (17, 3, 2, 2), (5, 4, 4), (2, 2), (1, 1), (1, 1), 1, (0, 0), True)]:
        inputs = {"x": draw(rng, *x), "w": draw(rng, x[1], w[0] // groups, w[1], w[2])}
        if bias:
            inputs["b"] = draw(rng, w[0])
        run = lambda x, w, b=None: F.conv_transpose2d(x, w, b, stride, pad, extra, groups, dilation)
        size = list(run(**inputs).shape[2:])
        yield case(name, run, inputs, rng,
                   options={"stride": stride, "pad": pad, "dilation": dilation, "groups": groups,
                            "size": size if any(extra) else []})


def resize_images(rng):
    for mode, corners in [("nearest", False), ("bilinear", False), ("bilinear", True)]:
        for shape, size in [((2, 3, 4, 5), (8, 10)), ((1, 2, 7, 3), (4, 11)), ((1, 1, 1, 6), (1, 2)),
                            ((1, 2, 3, 3), (1, 1)), ((1, 1, 4, 4), (4, 4))]:
            yield case(mode, lambda x: F.interpolate(
                x, size, mode=mode, align_corners=corners if mode == "bilinear" else None),
                {"x": draw(rng, *shape)}, rng, options={"size": size, "corners": corners})


if __name__ == "__main__":
    write([deconv2d, resize_images], first_seed=700)
