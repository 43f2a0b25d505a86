"""The commands of the command line that are no jobs, one module for each.

A command has ``add_arguments(parser)`` and ``run(arguments)``, whose result is the last line of
standard output. Begin with `spark_auc.app.commands.init`.
"""
