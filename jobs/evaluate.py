"""AUC and report of a model on rows: spark-submit jobs/evaluate.py --config conf/demo.yaml."""

from spark_auc.app.cli import script

if __name__ == "__main__":
    script("evaluate")
