"""One transaction from rows to commit: take in, stage, inspect, prepare, land."""
