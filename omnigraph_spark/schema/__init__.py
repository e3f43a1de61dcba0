"""The schema language: `.pg` text, the model it describes, its compiled IR and hash, Arrow types."""
