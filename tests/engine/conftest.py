"""The engine's own tests run where `INTEGRITY_ENGINE_DIR` names a built engine (`make engine-test`), and only there."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("INTEGRITY_ENGINE_DIR") else ["test_engine.py"]
