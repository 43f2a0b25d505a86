# The jobs that run in one process, without Spark and Java. From the repository's root:
#   docker build -f docker/embedded.Dockerfile -t spark-auc-embedded .
#   mkdir -p output
#   docker run --rm -v "$PWD:/work" -w /work spark-auc-embedded \
#     train --data clicks.csv --label clicked --output output/model

FROM python:3.11-slim-bookworm

# Without tini, the first process of a container, a job would not end on SIGTERM.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini=0.19.* \
    && rm -rf /var/lib/apt/lists/*

# To write to directories mounted from the host, build with --build-arg UID="$(id -u)".
ARG UID=1000
RUN useradd --create-home --uid "$UID" ranker
WORKDIR /home/ranker

# Dependencies have a layer of their own, so that a change of the code does not install them again.
COPY pyproject.toml constraints.txt /tmp/build/
RUN python -c "import tomllib; project = tomllib.load(open('/tmp/build/pyproject.toml', 'rb'))['project']; \
        extras = project['optional-dependencies']; \
        print(*project['dependencies'], *extras['report'], *extras['store'], sep='\n')" \
        > /tmp/build/requirements.txt \
    && pip install --no-cache-dir --constraint /tmp/build/constraints.txt \
        --requirement /tmp/build/requirements.txt

COPY README.md LICENSE /tmp/build/
COPY spark_auc /tmp/build/spark_auc
RUN pip install --no-cache-dir --no-deps /tmp/build && rm -rf /tmp/build

# The directory of the installed code is not writable.
ENV NUMBA_CACHE_DIR=/home/ranker/.cache/numba
USER $UID

# Tests the image, and caches compiled kernels for the builder's kind of processor; other processors
# compile them again in about half a minute.
RUN python -m spark_auc.app.raw_clicks /tmp/demo --rows 2000 \
    && spark-auc train --data /tmp/demo/clicks.csv --label clicked --time time \
        --output /tmp/demo/model \
    && spark-auc score --model /tmp/demo/model --data /tmp/demo/new.csv --output /tmp/demo/scores \
    && rm -rf /tmp/demo

ENTRYPOINT ["tini", "-s", "--", "spark-auc"]
CMD ["--help"]
