"""Raw rows to Parquet: spark-submit jobs/prepare.py --config conf/demo.yaml."""

from spark_auc.app.cli import script

if __name__ == "__main__":
    script("prepare")
