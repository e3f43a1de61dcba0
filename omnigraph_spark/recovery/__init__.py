"""Finishing or undoing what a writer that died left half done: this package's or the engine's.

`observe` looks, `classify` decides without touching anything, `sweep` acts. Each step can be
repeated: a crash in the middle, or two processes at once, end in the one effect.
"""
