"""The library is loaded into Python here, where a sanitizer's runtime cannot come first."""

import os

# All tests in Python of this folder do that; those in C run under the sanitizers, too.
collect_ignore_glob = ["test_*.py"] if os.environ.get("WEIR_PRESET") in ("asan", "tsan") else []
