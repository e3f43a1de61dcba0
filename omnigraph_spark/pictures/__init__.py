"""Pictures of a graph as SVG: its history and its schema, drawn without any other program."""
