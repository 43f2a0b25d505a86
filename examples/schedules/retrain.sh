#!/bin/sh
# Runs the job retrain, and again after exit code 1 (such as a lost connection) or 75 (another job
# at the same time). Exit codes 2 to 5 need a person: the settings, the data, the solver, or the
# drift of a period.
#   retrain.sh CONFIG [dotted.key=value ...]
config=$1
shift
for pause in 60 600 3600 end; do
    spark-auc retrain --config "$config" "$@"
    code=$?
    case $code in
        1 | 75) [ "$pause" = end ] || sleep "$pause" ;;
        *) exit "$code" ;;
    esac
done
exit "$code"
