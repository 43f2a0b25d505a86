"""The jobs of the command line, one module for each.

A job reads its section of the configuration, calls the rooms below, and publishes the result.
`spark_auc.app.known` imports a job by its name. Begin with `spark_auc.app.jobs.train`.
"""
