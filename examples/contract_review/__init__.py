"""An agent that reviews contracts and remembers where in them things stand."""
