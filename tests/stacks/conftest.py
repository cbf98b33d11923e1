"""Picks the Node for jsii before any test module loads aws_cdk."""

import stacks  # noqa: F401 - imported for what it does
