"""Train a linear ranker for AUC: spark-submit jobs/train.py --config conf/demo.yaml."""

from spark_auc.app.cli import script

if __name__ == "__main__":
    script("train")
