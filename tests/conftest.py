"""Settings of the whole suite: hypothesis profiles only. `HYPOTHESIS_PROFILE=deep` is the nightly run."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("quick", max_examples=50, deadline=None)
settings.register_profile("deep", max_examples=2_000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
