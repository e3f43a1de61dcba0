"""Lance datasets and control files, on local disk or S3. The only folder that imports lance."""

import os

# Lance reads this once, when it is first imported. Its warnings are about races that are settled
# here and reported as errors; whoever wants to see them sets the variable.
os.environ.setdefault("LANCE_LOG", "error")
