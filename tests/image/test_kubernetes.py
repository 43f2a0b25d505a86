"""The examples of Kubernetes: their fields, their security, and the jobs that they start."""

import copy
import re

import pytest
import yaml

from spark_auc.app import cli, running
from spark_auc.app.config.load import load
from tests.image.kubernetes import EXAMPLES, NAMES, ROOT, documents, pod_of

JOBS = ("retrain", "train")
GIB = {"g": 1.0, "Gi": 1.0, "m": 1 / 1024, "Mi": 1 / 1024}


def gib(quantity):
    number, unit = re.fullmatch(r"(\d+)(\w+)", quantity).groups()
    return int(number) * GIB[unit]


def test_all_examples_are_known():
    assert sorted(path.stem for path in EXAMPLES.iterdir()) == list(NAMES)


def schema_errors(document, version):
    kubernetes_validate = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate is not installed"
    )
    try:
        kubernetes_validate.validate(document, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return error.message
    return None


# podFailurePolicy is stable since 1.31.
@pytest.mark.parametrize("version", ["1.31", "1.34"])
@pytest.mark.parametrize("name", NAMES)
def test_documents_are_valid_by_kubernetes_schemas(name, version):
    for kind, document in documents(name).items():
        if kind != "SparkApplication":
            assert schema_errors(document, version) is None


def test_the_schemas_refuse_what_is_wrong():
    job = documents("train")["Job"]
    wrong = copy.deepcopy(job)
    wrong["spec"]["template"]["spec"]["containers"][0]["arg"] = []
    assert "arg" in schema_errors(wrong, "1.34")
    wrong = copy.deepcopy(job)
    wrong["spec"]["backoffLimit"] = "2"
    assert "'2'" in schema_errors(wrong, "1.34")


def by_the_operator(document):
    """The document as the operator's API reads it: unknown fields are gone, types are checked."""
    module = pytest.importorskip(
        "kubeflow_spark_api.models.spark_v1beta2_spark_application",
        reason="kubeflow-spark-api is not installed",
    )
    return module.SparkV1beta2SparkApplication.from_dict(document).to_dict()


def test_every_field_of_the_spark_application_is_one_of_the_operator():
    document = documents("spark_application")["SparkApplication"]
    assert by_the_operator(document) == document
    for section in ("driver", "executor"):
        wrong = copy.deepcopy(document)
        wrong["spec"][section]["memoryoverhead"] = "1g"
        assert by_the_operator(wrong) != wrong
        wrong["spec"][section]["cores"] = "2"
        with pytest.raises(ValueError, match="cores"):
            by_the_operator(wrong)


def test_the_spark_application_by_what_its_fields_mean():
    """Against the operator's reference of v1beta2, in words of this test."""
    document = documents("spark_application")["SparkApplication"]
    assert document["apiVersion"] == "sparkoperator.k8s.io/v1beta2"
    spec = document["spec"]
    assert set(spec) == {
        # What runs: the kind of program, where the driver runs, and the versions.
        "type", "pythonVersion", "mode", "image", "imagePullPolicy", "sparkVersion",
        # The program of the image, and its arguments.
        "mainApplicationFile", "arguments",
        # After the end: retries, and seconds until the object is deleted.
        "restartPolicy", "timeToLiveSeconds",
        # Options of spark-submit, volumes of both kinds of pods, and these.
        "sparkConf", "volumes", "driver", "executor",
    }  # fmt: skip
    assert (spec["type"], spec["mode"], spec["pythonVersion"]) == ("Python", "cluster", "3")
    assert spec["restartPolicy"] == {"type": "Never"}
    constraints = (ROOT / "constraints.txt").read_text()
    assert f"\npyspark=={spec['sparkVersion']}\n" in constraints
    both = {"cores", "memory", "memoryOverhead", "env", "volumeMounts", "securityContext"}
    both |= {"podSecurityContext", "terminationGracePeriodSeconds"}
    assert set(spec["driver"]) == both | {"serviceAccount"}
    assert set(spec["executor"]) == both | {"instances"}
    for pod in (spec["driver"], spec["executor"]):
        # The operator sets the heap to `memory`, and the pod's limit to the sum.
        assert gib(pod["memoryOverhead"]) >= max(0.384, 0.4 * gib(pod["memory"]))
    # The driver's heap and result size are those of a job of 4 GiB.
    assert gib(spec["sparkConf"]["spark.driver.maxResultSize"]) < gib(spec["driver"]["memory"])
    # sparkConf has no setting that a field of the application sets.
    assert not {key for key in spec["sparkConf"] if re.search(r"memory|cores|kubernetes", key)}


def pods(name):
    """Of each pod of an example: its security, container, mounts, and volumes."""
    if name != "spark_application":
        pod = pod_of(name)
        (container,) = pod["containers"]
        return [(pod["securityContext"], container, pod["volumes"])]
    spec = documents(name)["SparkApplication"]["spec"]
    made = (spec["driver"], spec["executor"])
    return [(pod["podSecurityContext"], pod, spec["volumes"]) for pod in made]


@pytest.mark.parametrize("name", NAMES)
def test_pods_are_those_of_the_restricted_standard(name):
    uid = re.search(r"^ARG UID=(\d+)$", (ROOT / "docker/Dockerfile").read_text(), re.M)[1]
    for security, container, _ in pods(name):
        assert security["runAsNonRoot"] is True
        assert {security[key] for key in ("runAsUser", "runAsGroup", "fsGroup")} == {int(uid)}
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("name", NAMES)
def test_volumes_are_mounted_and_caches_lie_on_one(name):
    used = set()
    for _, container, volumes in pods(name):
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        used |= {mount["name"] for mount in mounts.values()}
        assert used <= {volume["name"] for volume in volumes}
        assert len(mounts) == len(container["volumeMounts"])
        (temporary,) = [v for v in volumes if v["name"] == mounts["/tmp"]["name"]]
        assert "emptyDir" in temporary
        environment = {variable["name"]: variable["value"] for variable in container["env"]}
        assert set(environment) == {"NUMBA_CACHE_DIR", "MPLCONFIGDIR"}
        assert all(value.startswith("/tmp/") for value in environment.values())
        (claim,) = [v for v in volumes if v["name"] == mounts["/srv/ranker"]["name"]]
        assert claim["persistentVolumeClaim"] == {"claimName": "ranker"}
    assert used == {volume["name"] for volume in volumes}


@pytest.fixture
def started(monkeypatch):
    """The job and configuration that a command line of spark-auc, or of a script, starts."""
    calls = []
    monkeypatch.setattr(running, "run", lambda *arguments, **_: calls.append(arguments) or 0)

    def parsed(arguments, script=None):
        monkeypatch.setattr("sys.argv", ["spark-auc", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.script(script) if script else cli.main()
        assert end.value.code == 0
        return calls.pop()[:2]

    return parsed


def configuration(name, path, volumes, mounts, tmp_path):
    """The configuration at a path of a pod, where a ConfigMap of the example puts it."""
    directory, file = path.rsplit("/", 1)
    (mount,) = [mount for mount in mounts if mount["mountPath"] == directory]
    (volume,) = [volume for volume in volumes if volume["name"] == mount["name"]]
    config_map = documents(name)["ConfigMap"]
    assert volume["configMap"] == {"name": config_map["metadata"]["name"]}
    (tmp_path / file).write_text(config_map["data"][file])
    return load(str(tmp_path / file))


@pytest.mark.parametrize("name", JOBS)
def test_jobs_start_with_arguments_and_configuration(name, started, tmp_path):
    pod = pod_of(name)
    (container,) = pod["containers"]
    # No command, so that the image's entrypoint gets the arguments.
    assert "command" not in container
    job, path = started(container["args"])
    assert job == name
    config = configuration(name, path, pod["volumes"], container["volumeMounts"], tmp_path)
    section = getattr(config, job)
    written = [section.output.path]
    written += [section.store, section.history] if job == "retrain" else []
    # Nothing else but /tmp can be written to.
    assert all(path.startswith("/srv/ranker/") for path in [*written, section.data.path])

    settings = config.spark.settings()
    resources = container["resources"]
    # Tasks are as many as requested processors, and memory has no overcommitment.
    assert settings["spark.master"] == f"local[{resources['requests']['cpu']}]"
    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    # The JVM needs a tenth beside its heap, and Python as much again.
    heap = gib(settings["spark.driver.memory"])
    assert gib(resources["limits"]["memory"]) >= 1.1 * heap + 1.5
    # The heap is the larger part of what the job needs, and is not wasted on the page cache.
    assert heap >= 0.4 * gib(resources["limits"]["memory"])


def test_the_spark_application_starts_with_arguments_and_configuration(started, tmp_path):
    spec = documents("spark_application")["SparkApplication"]["spec"]
    script = spec["mainApplicationFile"].removeprefix("local:///home/spark/")
    assert (ROOT / script).is_file()
    copied = [line.split() for line in (ROOT / "docker/Dockerfile").read_text().splitlines()]
    assert ["COPY", "jobs", "jobs"] in copied
    assert ["WORKDIR", "/home/spark"] in copied
    job, path = started(spec["arguments"], script.removeprefix("jobs/").removesuffix(".py"))
    assert job == "train"
    mounts = spec["driver"]["volumeMounts"]
    config = configuration("spark_application", path, spec["volumes"], mounts, tmp_path)
    assert config.train.output.path.startswith("/srv/ranker/")
    # The running JVM takes none of them.
    assert config.spark.settings() == {}


def test_a_run_ends_before_the_next_day():
    spec = documents("retrain")["CronJob"]["spec"]
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] < 24 * 3600


def test_no_example_writes_over_the_output_of_another():
    outputs = []
    for name in NAMES:
        (text,) = documents(name)["ConfigMap"]["data"].values()
        (section,) = (part for job, part in yaml.safe_load(text).items() if job != "spark")
        outputs.append(section["output"]["path"])
    assert len(outputs) == len(set(outputs)) == 3


def test_applying_all_examples_replaces_nothing():
    named = [
        (kind, document["metadata"]["name"])
        for name in NAMES
        for kind, document in documents(name).items()
    ]
    assert len(named) == len(set(named)) == 6
