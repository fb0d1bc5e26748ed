"""launch/kubernetes: every kustomization can be built, its patches apply, and every field is valid under strict schemas.
Built by tests/support/kustomize.py with PyPI's jsonpatch, so that neither kubectl nor a cluster is needed."""

import copy
import os
import pathlib
import shutil
import tempfile
import unittest

import jsonpatch
import kustomize
import validation
import yaml

LAUNCH = pathlib.Path(os.environ["DTRAIN_SOURCE"]) / "launch/kubernetes"
OVERLAYS = sorted(path.parent for path in LAUNCH.glob("overlays/*/" + kustomize.FILE))
POD = "/spec/mpiReplicaSpecs/Worker/template/spec"
WORKER = POD + "/containers/0"


def files():
    """Every YAML file that is an object by itself."""
    return [
        path
        for path in sorted(LAUNCH.rglob("*.yaml"))
        if path.name != kustomize.FILE and isinstance(kustomize.documents(path)[0], dict)
    ]


class Build(unittest.TestCase):
    def test_there_are_overlays(self):
        self.assertGreaterEqual({path.name for path in OVERLAYS}, {"cpu", "gpu", "supervised"})

    def test_every_file_is_used(self):
        """A patch that no kustomization names would be forgotten, and so would a file that is not applied by itself."""
        named = set()
        for path in LAUNCH.rglob(kustomize.FILE):
            kustomization = kustomize.read(path.parent)
            names = kustomization.get("resources", []) + [patch["path"] for patch in kustomization.get("patches", [])]
            named |= {(path.parent / name).resolve() for name in names}
        for path in LAUNCH.rglob("*"):
            if path.is_file() and path.name != kustomize.FILE and path.resolve() not in named:
                self.assertIn(
                    f"kubectl apply -f launch/kubernetes/{path.relative_to(LAUNCH)}", path.read_text(encoding="utf-8")
                )

    def test_overlays_have_names_of_their_own(self):
        names = [kustomize.identity(item) for folder in OVERLAYS for item in kustomize.build(folder)]
        self.assertEqual(len(set(names)), len(names), "two overlays in one namespace would overwrite each other")

    def test_deleting_a_job_deletes_no_data(self):
        for folder in OVERLAYS:
            self.assertEqual(
                {item["kind"] for item in kustomize.build(folder)},
                {"MPIJob"},
                "kubectl delete -k would delete the others too",
            )

    def test_images_are_set(self):
        for folder in OVERLAYS:
            for job in kustomize.build(folder):
                for pod in validation.pods(job).values():
                    self.assertEqual([c["image"] for c in pod["spec"]["containers"]], ["dtrain:latest"])


class Valid(unittest.TestCase):
    def test_files(self):
        found = files()
        self.assertGreaterEqual({path.name for path in found}, {"data.yaml", "mpijob.yaml", "podmonitor.yaml", "volumeclaim.yaml"})
        for path in found:
            for item in kustomize.documents(path):
                for version in (validation.OLDEST, validation.NEWEST):
                    self.assertEqual(validation.problems(item, version), [], f"{path}, Kubernetes {version}")

    def test_overlays(self):
        for folder in OVERLAYS:
            for item in kustomize.build(folder):
                for version in (validation.OLDEST, validation.NEWEST):
                    self.assertEqual(validation.problems(item, version), [], f"{folder}, Kubernetes {version}")


class Data(unittest.TestCase):
    def test_the_pod_for_copying_sees_what_the_jobs_see(self):
        """The same claim, at the same place, for the same user."""
        copying = kustomize.documents(LAUNCH / "data.yaml")[0]["spec"]
        for folder in OVERLAYS:
            for job in kustomize.build(folder):
                for pod in validation.pods(job).values():
                    self.assertEqual(copying["securityContext"], pod["spec"]["securityContext"])
                    self.assertEqual(copying["volumes"][0], next(v for v in pod["spec"]["volumes"] if v["name"] == "work"))
                    (ours,), (theirs,) = copying["containers"], pod["spec"]["containers"]
                    self.assertIn(ours["volumeMounts"][0], theirs["volumeMounts"])
                    for field in ("image", "workingDir", "securityContext"):
                        self.assertEqual(ours[field], theirs[field])


class Faults(unittest.TestCase):
    """The checks can fail: each planted fault is found, and named by its place."""

    def expect(self, item, operations, *texts):
        changed = jsonpatch.apply_patch(copy.deepcopy(item), operations)
        found = "\n".join(validation.problems(changed))
        for text in texts:
            self.assertIn(text, found, operations)

    def test_misspelled_fields(self):
        job = kustomize.build(LAUNCH / "overlays/gpu")[0]
        for path, text in [
            ("/spec/slotPerWorker", "slotPerWorker"),
            ("/spec/runPolicy/backOffLimit", "backOffLimit"),
            ("/spec/mpiReplicaSpecs/Worker/restartpolicy", "restartpolicy"),
            (WORKER + "/imagePullPolcy", "imagePullPolcy"),
            (WORKER + "/resources/limit", "limit"),
            (POD + "/securityContext/runAsNonroot", "runAsNonroot"),
            ("/metadata/label", "label"),
            ("/specs", "specs"),
        ]:
            self.expect(job, [{"op": "add", "path": path, "value": {}}], f"'{text}' was unexpected")
        monitor, claim = (kustomize.documents(LAUNCH / name)[0] for name in ("podmonitor.yaml", "volumeclaim.yaml"))
        for item, path, text in [
            (monitor, "/spec/podMetricsEndpoints/0/honourLabels", "honourLabels"),
            (monitor, "/spec/podMetricsEndpoints/0/relabelings/0/targetlabel", "targetlabel"),
            (monitor, "/spec/selector/matchLabel", "matchLabel"),
            (claim, "/spec/accessMode", "accessMode"),
        ]:
            self.expect(item, [{"op": "add", "path": path, "value": "x"}], f"'{text}' was unexpected")

    def test_wrong_types_and_values(self):
        job = kustomize.build(LAUNCH / "overlays/gpu")[0]
        for path, value, place in [
            ("/spec/slotsPerWorker", "4", "spec.slotsPerWorker"),
            ("/spec/slotsPerWorker", 2**31, "spec.slotsPerWorker"),
            ("/spec/slotsPerWorker", True, "spec.slotsPerWorker"),
            ("/spec/mpiImplementation", "MPI", "spec.mpiImplementation"),
            ("/spec/mpiReplicaSpecs/Worker/replicas", 0, "Worker.replicas"),
            ("/spec/mpiReplicaSpecs/Worker/restartPolicy", "Always", "Worker.restartPolicy"),
            (WORKER + "/ports/0/containerPort", "2222", "Worker.template.spec.containers.0.ports.0.containerPort"),
            (WORKER + "/args", "sshd", "Worker.template.spec.containers.0.args"),
            (POD + "/terminationGracePeriodSeconds", "3m", "Worker.template.spec.terminationGracePeriodSeconds"),
            (POD + "/volumes/0", "work", "Worker.template.spec.volumes.0"),
        ]:
            self.expect(job, [{"op": "replace", "path": path, "value": value}], place + ": ")
        monitor, claim = (kustomize.documents(LAUNCH / name)[0] for name in ("podmonitor.yaml", "volumeclaim.yaml"))
        for item, path, value, place in [
            (monitor, "/spec/podMetricsEndpoints/0/interval", "15 s", "interval"),
            (monitor, "/spec/podMetricsEndpoints/0/relabelings/0/sourceLabels", "port_name", "sourceLabels"),
            (claim, "/spec/accessModes", "ReadWriteMany", "spec.accessModes"),
        ]:
            self.expect(item, [{"op": "replace", "path": path, "value": value}], place + ": ")

    def test_missing_fields(self):
        job = kustomize.build(LAUNCH / "overlays/gpu")[0]
        for path, text in [
            ("/spec/mpiReplicaSpecs", "'mpiReplicaSpecs' is a required"),
            ("/spec/mpiReplicaSpecs/Worker/template", "'template' is a required"),
            (POD + "/containers", "'containers' is a required"),
            (WORKER + "/name", "'name' is a required"),
        ]:
            self.expect(job, [{"op": "remove", "path": path}], text)

    def test_unknown_kinds(self):
        for version, kind in [("kubeflow.org/v1", "MPIJob"), ("v1", "PersistentVolumeClam")]:
            self.assertIn(
                kind.lower(),
                "".join(validation.problems({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}})).lower(),
            )


class Kustomizations(unittest.TestCase):
    """Faults of a kustomization, planted in a copy."""

    def expect(self, changes, text, overlay="gpu"):
        """changes: {file: function of its parsed text}"""
        with tempfile.TemporaryDirectory() as name:
            copied = pathlib.Path(shutil.copytree(LAUNCH, pathlib.Path(name) / "kubernetes")) / "overlays" / overlay
            kustomize.build(copied)
            for file, change in changes.items():
                value = kustomize.documents(copied / file)[0]
                (copied / file).write_text(yaml.safe_dump(change(value) or value), encoding="utf-8")
            with self.assertRaises(kustomize.Error) as caught:
                kustomize.build(copied)
            self.assertIn(text, str(caught.exception))

    def test_fields(self):
        file = kustomize.FILE
        self.expect({file: lambda k: k.update(resource=k.pop("resources"))}, "no such field: resource")
        self.expect({file: lambda k: k.update(bases=["../../base"])}, "no such field: bases")
        self.expect({file: lambda k: k.update(namePrefix="a-")}, "namePrefix exists, but")
        self.expect({file: lambda k: k["patches"][0].update(file="ranks.yaml")}, "no such field: file")
        self.expect({file: lambda k: k["patches"][0]["target"].update(knd="MPIJob")}, "no such field: knd")
        self.expect({file: lambda k: k["images"][0].update(tag="1.0")}, "no such field: tag")
        self.expect({file: lambda k: k.update(kind="Kustomisation")}, "kind is not Kustomization")

    def test_files(self):
        file = kustomize.FILE
        self.expect({file: lambda k: k["patches"][0].update(path="rank.yaml")}, "rank.yaml: ")
        self.expect({file: lambda k: k.update(resources=["../../bas"])}, "is not in or below its folder")
        self.expect(
            {file: lambda k: k["patches"][0].update(path="../gpu/ranks.yaml")},
            "../gpu/ranks.yaml is not in or below",
            "cpu",
        )
        self.expect({file: lambda k: k.update(resources=["../../base", "../gpu/../../base"])}, "is there twice")

    def test_targets(self):
        self.expect(
            {kustomize.FILE: lambda k: k["patches"][0]["target"].update(kind="Job")}, "its target selects no resource"
        )
        self.expect(
            {kustomize.FILE: lambda k: k["patches"][0]["target"].update(name="dtrain-gpu")},
            "its target selects no resource",
        )

    def test_operations(self):
        def first(**fields):
            return {"ranks.yaml": lambda operations: operations[0].update(fields)}

        self.expect(first(path="/spec/slotPerWorker"), "ranks.yaml: replace /spec/slotPerWorker: ")
        self.expect(
            {"ranks.yaml": lambda o: o + [{"op": "remove", "path": WORKER + "/ports/9"}]}, f"remove {WORKER}/ports/9: "
        )
        self.expect(
            {"ranks.yaml": lambda o: o + [{"op": "add", "path": WORKER + "/env/-", "value": {}}]},
            f"add {WORKER}/env/-: ",
        )
        self.expect(
            {"ranks.yaml": lambda o: o + [{"op": "test", "path": "/spec/slotsPerWorker", "value": 2}]},
            "test /spec/slotsPerWorker: ",
        )
        self.expect(first(op="set"), "no such operation: set")
        self.expect(first(values=1), "no such field: values")
        self.expect({"ranks.yaml": lambda o: {"spec": {"slotsPerWorker": 4}}}, "not a list of JSON 6902 operations")


class Structural(unittest.TestCase):
    """validation.against() on the forms of a CustomResourceDefinition that the files in schemas/ do not all use."""

    SCHEMA = yaml.safe_load("""
        type: object
        required: [name]
        properties:
          name: {type: string, pattern: "^[a-z]+$"}
          port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
          count: {type: integer, format: int32, minimum: 1}
          note: {type: string, nullable: true}
          labels: {type: object, additionalProperties: {type: string}}
          any: {type: object, x-kubernetes-preserve-unknown-fields: true}
          none: {type: object}
          list: {type: array, items: {type: object, properties: {a: {type: boolean}}}}
    """)

    def test_valid(self):
        for text in (
            "name: a",
            "{name: a, port: 1}",
            "{name: a, port: http}",
            "{name: a, note: null}",
            "{name: a, labels: {b: c}}",
            "{name: a, any: {b: [1, {c: d}]}}",
            "{name: a, list: [{a: true}, {}]}",
            "{name: a, none: {}}",
            "{name: a, count: 2147483647}",
        ):
            self.assertEqual(validation.against(self.SCHEMA, yaml.safe_load(text)), [], text)

    def test_invalid(self):
        for text, problem in [
            ("{}", ": 'name' is a required"),
            ("{name: A}", "name: "),
            ("{name: a, port: 1.5}", "port: "),
            ("{name: a, port: [1]}", "port: "),
            ("{name: a, count: 0}", "count: "),
            ("{name: a, count: 2147483648}", "count: "),
            ("{name: a, count: '1'}", "count: "),
            ("{name: null}", "name: "),
            ("{name: a, labels: {b: 1}}", "labels.b: "),
            ("{name: a, none: {b: 1}}", "none: "),
            ("{name: a, list: [{b: true}]}", "list.0: "),
            ("{name: a, list: {a: true}}", "list: "),
            ("{name: a, x: 1}", ": "),
        ]:
            found = validation.against(self.SCHEMA, yaml.safe_load(text))
            self.assertTrue(found and found[0].startswith(problem), f"{text}: {found}")


if __name__ == "__main__":
    unittest.main()
