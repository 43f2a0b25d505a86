"""The plots and the HTML page of a job's results.

Jobs and experiments import from here. Begin with `spark_auc.app.report.page`.
"""
