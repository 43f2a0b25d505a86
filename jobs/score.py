"""Scores of rows by a model: spark-submit jobs/score.py --config conf/demo.yaml."""

from spark_auc.app.cli import script

if __name__ == "__main__":
    script("score")
