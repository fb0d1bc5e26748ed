"""launch/kubernetes and schemas/ against the definitions of MPIJob and PodMonitor that a cluster has, or that their
projects publish:
    kubectl get crd mpijobs.kubeflow.org podmonitors.monitoring.coreos.com -o yaml >crds.yaml
    DTRAIN_CRDS=$PWD/crds.yaml ctest --test-dir build -R kubernetes.published --output-on-failure
DTRAIN_CRDS names a file or a folder of files; without it, the test is skipped."""

import os
import pathlib
import sys
import unittest

import kustomize
import validation

LAUNCH = pathlib.Path(os.environ["DTRAIN_SOURCE"]) / "launch/kubernetes"


def definitions(place):
    """{(apiVersion, kind): schema} of all CustomResourceDefinitions in a file or a folder."""
    found = {}
    for path in sorted(place.rglob("*.yaml")) if place.is_dir() else [place]:
        for document in kustomize.documents(path):
            for item in document.get("items", [document]):
                if item.get("kind") == "CustomResourceDefinition":
                    for version in item["spec"]["versions"]:
                        key = f"{item['spec']['group']}/{version['name']}", item["spec"]["names"]["kind"]
                        schema = version["schema"]["openAPIV3Schema"]
                        schema["properties"]["metadata"] = {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                        found[key] = schema
    return found


def differences(ours, theirs, place=""):
    """["place: how our schema allows what theirs does not", ...]"""
    if ours.get("x-kubernetes-preserve-unknown-fields"):
        return []
    found = []
    for name, value in ours.get("properties", {}).items():
        there = theirs.get("properties", {}).get(name)
        found += differences(value, there, f"{place}.{name}") if there else [f"{place}.{name}: no such field"]
    for part in ("items", "additionalProperties"):
        if isinstance(ours.get(part), dict):
            there = theirs.get(part)
            found += (
                differences(ours[part], there, f"{place}[]") if isinstance(there, dict) else [f"{place}: no {part}"]
            )
    if ours.get("x-kubernetes-int-or-string", False) != theirs.get("x-kubernetes-int-or-string", False) or ours.get(
        "type"
    ) != theirs.get("type"):
        found.append(f"{place}: another type: {theirs.get('type')}")
    for value in ours.get("enum", []):
        if value not in theirs.get("enum", [value]):
            found.append(f"{place}: {value} is not allowed")
    for name in theirs.get("required", []):
        if name not in ours.get("required", []):
            found.append(f"{place}: {name} is required")
    return found


class Published(unittest.TestCase):
    def setUp(self):
        self.definitions = definitions(pathlib.Path(os.environ["DTRAIN_CRDS"]))
        self.assertGreaterEqual(self.definitions.keys(), validation.CUSTOM.keys(), "DTRAIN_CRDS lacks a definition")

    def test_manifests_are_valid(self):
        items = [item for path in LAUNCH.glob("overlays/*/" + kustomize.FILE) for item in kustomize.build(path.parent)]
        items += kustomize.documents(LAUNCH / "podmonitor.yaml")
        self.assertGreaterEqual(len(items), 4)
        for item in items:
            key = item["apiVersion"], item["kind"]
            self.assertEqual(validation.against(self.definitions[key], item), [], item["metadata"]["name"])

    def test_our_schemas_allow_nothing_else(self):
        for key in validation.CUSTOM:
            self.assertEqual(differences(validation.own(key), self.definitions[key]), [], key)

    def test_a_misspelled_field_is_found(self):
        job = kustomize.build(LAUNCH / "overlays/gpu")[0]
        job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["imagePullPolcy"] = "Always"
        self.assertIn(
            "imagePullPolcy", "".join(validation.against(self.definitions[job["apiVersion"], job["kind"]], job))
        )


class Differences(unittest.TestCase):
    def test_they_are_found(self):
        theirs = {
            "type": "object",
            "required": ["b"],
            "properties": {"a": {"type": "string", "enum": ["x"]}, "b": {"type": "integer"}},
        }
        for ours, wanted in [
            ({"type": "object", "required": ["b"], "properties": {"a": {"type": "string", "enum": ["x"]}}}, []),
            ({"type": "object", "required": ["b"], "properties": {"c": {"type": "string"}}}, [".c: no such field"]),
            (
                {"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}},
                [".b: another type: integer"],
            ),
            (
                {"type": "object", "required": ["b"], "properties": {"a": {"type": "string", "enum": ["y"]}}},
                [".a: y is not allowed"],
            ),
            ({"type": "object"}, [": b is required"]),
        ]:
            self.assertEqual(differences(ours, theirs), wanted)


if __name__ == "__main__":
    if not os.environ.get("DTRAIN_CRDS"):
        print(
            "skipped: DTRAIN_CRDS names no definitions (the output of"
            " kubectl get crd mpijobs.kubeflow.org podmonitors.monitoring.coreos.com -o yaml)"
        )
        sys.exit(77)
    unittest.main()
