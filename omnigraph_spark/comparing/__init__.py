"""What differs between two versions of a type: which rows, in which columns, and their values."""
