"""Mathematics on arrays: no Spark, no Arrow, no files, no configuration."""
