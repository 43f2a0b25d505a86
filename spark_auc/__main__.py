"""The command line: ``python -m spark_auc`` is ``spark-auc``."""

from spark_auc.app.cli import main

if __name__ == "__main__":
    main()
