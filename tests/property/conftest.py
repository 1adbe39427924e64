"""The library is loaded into Python here, where a sanitizer's runtime cannot come first."""

import os

collect_ignore = []
if os.environ.get("WEIR_PRESET") in ("asan", "tsan"):
    collect_ignore.append("test_core_and_model.py")
