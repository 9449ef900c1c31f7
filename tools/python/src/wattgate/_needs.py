"""Imports the packages that only an adapter needs."""

from importlib import import_module
from types import ModuleType


def needs(module: str, adapter: str) -> ModuleType:
    """Imports ``module`` for ``wattgate.<adapter>``."""
    package = module.split(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        message = (
            f"wattgate.{adapter} needs {package}, which cannot be imported: {error}; "
            f"install {package}, or run the Python that has it"
        )
        raise ImportError(message, name=error.name, path=error.path) from error
