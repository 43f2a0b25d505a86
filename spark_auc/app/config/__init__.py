"""The configuration: a section for each job, read from YAML and checked before Spark starts.

Each job imports its section from here. Begin with `spark_auc.app.config.jobs`.
"""
