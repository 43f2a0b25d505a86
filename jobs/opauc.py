"""Learn for AUC in one pass, of a batch or a stream: jobs/opauc.py --config conf/opauc.yaml."""

from spark_auc.app.cli import script

if __name__ == "__main__":
    script("opauc")
