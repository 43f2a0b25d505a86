"""Learn from CSV files as they arrive.

Each day a file of 500 clicks arrives, and the job opauc runs once. The second run continues from
the checkpoint of the first and reads only the new file. The program prints the JSON object of each
run: the model of the second run has learned 1,000 rows in 2 batches.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from spark_auc.app.running import run

CONFIG = """
opauc:
  data: {{path: {at}/arriving, format: csv, options: {{header: true}}}}
  columns: {{features: [position, age]}}
  training: {{regParam: 0.01}}
  stream: {{checkpoint: {at}/checkpoint, schema: "position double, age double, label double"}}
  output: {{path: {at}/model, replace: true}}
"""


def clicks(seed: int) -> pd.DataFrame:
    """Synthetic clicks, more frequent at the top of the page."""
    rng = np.random.default_rng(seed)
    position, age = rng.integers(1, 11, 500), rng.integers(18, 70, 500)
    clicked = rng.normal(size=500) - 0.3 * position > 0.0
    return pd.DataFrame({"position": position, "age": age, "label": clicked.astype(float)})


def main() -> None:
    """Run the example."""
    SparkSession.builder.getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        at = Path(name)
        (at / "arriving").mkdir()
        (at / "opauc.yaml").write_text(CONFIG.format(at=at))
        for day in (1, 2):
            clicks(seed=day).to_csv(at / f"arriving/day{day}.csv", index=False)
            # On the command line: spark-auc opauc --config opauc.yaml --stream
            code = run("opauc", str(at / "opauc.yaml"), parts=["stream"])
            if code:
                raise SystemExit(code)


if __name__ == "__main__":
    main()
