"""The papers' experiments again: spark-submit jobs/reproduce.py --config conf/reproduce.yaml."""

from spark_auc.app.cli import script

if __name__ == "__main__":
    script("reproduce")
