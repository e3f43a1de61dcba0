"""The schema language: `.pg` text, the model it describes, its IR and hash, Arrow types."""
