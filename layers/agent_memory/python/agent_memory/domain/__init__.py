"""Rules of memory as functions of values: no I/O, no clock, no environment."""
