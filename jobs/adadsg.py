"""Train in doubling stages: spark-submit jobs/adadsg.py --config conf/adadsg.yaml."""

from spark_auc.app.cli import script

if __name__ == "__main__":
    script("adadsg")
