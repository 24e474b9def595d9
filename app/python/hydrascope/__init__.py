"""High-resolution image classification with vision transformers whose attention is linear in pixels.

    import hydrascope
    hydrascope.classify("photo.jpg").label
    hydrascope.explain("photo.jpg").maps[0].values          # float32 (rows, columns)

`Model` keeps a model open, `hydrascope.nn` has the attentions as modules of PyTorch.
"""

from .conversion import convert, run
from .errors import (DecodeError, EmptyError, Error, InternalError, InvalidArgumentError, NotFoundError,
                     OutOfMemoryError, TooLargeError, UnreadableError, UnsupportedFormatError, UnwritableError)
from .model import Answer, Map, Model, Prediction, classify, embed, explain

__all__ = ["Answer", "DecodeError", "EmptyError", "Error", "InternalError", "InvalidArgumentError", "Map", "Model",
           "NotFoundError", "OutOfMemoryError", "Prediction", "TooLargeError", "UnreadableError",
           "UnsupportedFormatError", "UnwritableError", "classify", "convert", "embed", "explain", "run"]
