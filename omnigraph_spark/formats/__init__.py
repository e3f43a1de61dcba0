"""On-disk formats, one package each with the same file names; the stamp decides which one holds."""
