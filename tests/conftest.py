"""One Spark session for the whole run."""

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from spark_auc.spark.session import session

    conf = {
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.showConsoleProgress": "false",
    }
    with session("tests", conf) as made:
        yield made
