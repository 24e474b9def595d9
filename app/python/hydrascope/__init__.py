"""High-resolution image classification with vision transformers whose attention is linear in pixels.

    import hydrascope
    hydrascope.classify("photo.jpg").label
    hydrascope.explain("photo.jpg").draw()                  # a PIL image
    hydrascope.explain("photo.jpg").maps[0].values          # float32 (rows, columns)

`Model` keeps a model open, `hydrascope.nn` has the attentions as modules of PyTorch.
"""

from .answers import Answer, Map, Prediction
from .conversion import convert, run
from .errors import (DecodeError, EmptyError, Error, HydrascopeWarning, InternalError, InvalidArgumentError, NotFoundError,
                     OutOfMemoryError, TooLargeError, TorchError, UnreadableError, UnsupportedFormatError, UnwritableError)
from .functions import classify, embed, explain, samples
from .model import Model

__version__: str

__all__ = ["Answer", "DecodeError", "EmptyError", "Error", "HydrascopeWarning", "InternalError", "InvalidArgumentError", "Map",
           "Model", "NotFoundError", "OutOfMemoryError", "Prediction", "TooLargeError", "TorchError", "UnreadableError",
           "UnsupportedFormatError", "UnwritableError", "classify", "convert", "embed", "explain", "run", "samples"]


def __getattr__(name: str) -> str:
    """The library's version, where it is asked for: that loads it."""
    if name != "__version__":
        raise AttributeError(f"module 'hydrascope' has no attribute '{name}'")
    from . import _library
    return _library.library().version().decode()
