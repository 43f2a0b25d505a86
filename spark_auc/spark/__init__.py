"""Where DataFrames become arrays and back: the only room that imports pyspark and pyarrow."""
