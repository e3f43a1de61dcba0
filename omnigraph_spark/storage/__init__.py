"""Lance datasets and control files, on local disk or S3. The only folder that imports lance."""
