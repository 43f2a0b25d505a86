"""The jobs of the command line, one module for each.

A job reads its section of the configuration, calls the rooms below, and publishes the result.
`spark_auc.app.known` imports a job by its name. Its ``check`` raises `ConfigError` before work
begins if a setting, a path or an output location is invalid. Its ``run`` returns the result for
standard output; if it raises an error, nothing is published. Begin with `spark_auc.app.jobs.train`.
"""
