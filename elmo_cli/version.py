"""The version of the package, also read by setuptools and by every file that elmo writes."""

__version__ = "0.1.0"
