"""Retrain on a store of moments: spark-submit jobs/retrain.py --config conf/retrain.yaml."""

from spark_auc.app.cli import script

if __name__ == "__main__":
    script("retrain")
