"""Checks objects strictly: a field that a schema does not name is an error, as with `kubectl apply --validate=strict`.
Core types, pod templates and metadata: PyPI's kubernetes-validate, which has Kubernetes' published OpenAPI schemas.
MPIJob and PodMonitor: the files in schemas/, in the form of a CustomResourceDefinition's openAPIV3Schema.
Rules in CEL are not evaluated."""

import pathlib

import jsonschema
import kubernetes_validate
import yaml

FOLDER = pathlib.Path(__file__).with_name("schemas")
CUSTOM = {
    ("kubeflow.org/v2beta1", "MPIJob"): "mpijob.yaml",
    ("monitoring.coreos.com/v1", "PodMonitor"): "podmonitor.yaml",
}
OLDEST, NEWEST = "1.25", kubernetes_validate.latest_version()  # of the package
INTEGERS = {"int32": 2**31, "int64": 2**63}


def own(key):
    """The schema of schemas/ for an (apiVersion, kind)."""
    return yaml.safe_load((FOLDER / CUSTOM[key]).read_text(encoding="utf-8"))


def strict(schema):
    """JSON Schema of a structural OpenAPI v3 schema. What a server would drop as unknown is an error."""
    kept = {
        key: value
        for key, value in schema.items()
        if key
        in (
            "required",
            "enum",
            "minimum",
            "maximum",
            "pattern",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "anyOf",
            "oneOf",
            "allOf",
            "not",
        )
    }
    if schema.get("x-kubernetes-int-or-string"):
        kept["type"] = ["integer", "string"]
    elif "type" in schema:
        kept["type"] = [schema["type"], "null"] if schema.get("nullable") else schema["type"]
    if schema.get("format") in INTEGERS and schema.get("type") == "integer":
        bound = INTEGERS[schema["format"]]
        kept["minimum"], kept["maximum"] = max(kept.get("minimum", -bound), -bound), min(
            kept.get("maximum", bound - 1), bound - 1
        )
    if "items" in schema:
        kept["items"] = strict(schema["items"])
    if schema.get("type") == "object":
        kept["properties"] = {name: strict(value) for name, value in schema.get("properties", {}).items()}
        others = schema.get("additionalProperties", False)
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            others = True
        kept["additionalProperties"] = strict(others) if isinstance(others, dict) else others
    return kept


def against(schema, item):
    """["path: what is wrong", ...] of an object under a structural schema."""
    validator = jsonschema.Draft202012Validator(strict(schema))
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(item)]


def core(item, version):
    """["path: what is wrong"] of an object of Kubernetes itself; only the first fault is found."""
    try:
        kubernetes_validate.validate(item, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}"]
    except kubernetes_validate.SchemaNotFoundError as error:
        return [error.message]
    return []


def pods(job):
    """The pods that an operator makes of the templates of an MPIJob, by role."""
    made = {}
    for role, replica in job.get("spec", {}).get("mpiReplicaSpecs", {}).items():
        template = replica.get("template", {})
        made[role] = {
            "apiVersion": "v1",
            "kind": "Pod",
            **template,
            "metadata": dict(template.get("metadata", {}), name=role.lower()),
        }
    return made


def problems(item, version=NEWEST):
    """["path: what is wrong", ...]; empty if the object is valid."""
    key = item.get("apiVersion"), item.get("kind")
    if key not in CUSTOM:
        return core(item, version)
    found = against(own(key), item)
    found += core({"apiVersion": "v1", "kind": "ConfigMap", "metadata": item.get("metadata", {})}, version)
    if not found:
        for role, pod in pods(item).items():
            found += [f"{role}.template.{problem}" for problem in core(pod, version)]
    return found
