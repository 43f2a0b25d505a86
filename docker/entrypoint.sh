#!/bin/bash
# The image's command. Pods that Spark itself starts on Kubernetes have the first argument "driver"
# or "executor", and Spark's names of variables; anything else is a job of spark-auc.
set -euo pipefail

# Where the root is read-only, NUMBA_CACHE_DIR names another directory: numba leaves out a cache that
# it cannot write to.
compiled="${HOME:-}/.cache/numba"
if [ -d "$compiled" ] && [ -n "${NUMBA_CACHE_DIR:-}" ] && [ ! -e "$NUMBA_CACHE_DIR" ]; then
  cp --recursive "$compiled" "$NUMBA_CACHE_DIR"
fi

case "${1:-}" in
  driver)
    exec spark-submit --deploy-mode client \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "${@:2}"
    ;;
  executor)
    jars="$(python -m pyspark.find_spark_home)/jars/*"
    mapfile -t options < <(env | sed -n 's/^SPARK_JAVA_OPT_\([0-9]*\)=/\1 /p' | sort -n | cut -d ' ' -f 2-)
    exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$jars" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" \
      --executor-id "$SPARK_EXECUTOR_ID" \
      --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" \
      --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
      --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec spark-auc "$@"
    ;;
esac
