"""Builds a kustomization like `kubectl kustomize`, as far as launch/kubernetes needs it: resources, JSON 6902 patches,
images, nameSuffix. It is stricter: a patch that selects nothing is an error. tests/kubernetes/kubectl_test.py compares the two
where there is a kubectl."""

import copy
import pathlib
import re

import jsonpatch
import jsonpointer
import yaml

FILE = "kustomization.yaml"
API = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
# The fields of a Kustomization that are not deprecated (kustomize 5), its patches and its images.
FIELDS = set(
    """apiVersion kind metadata openapi namePrefix nameSuffix namespace labels commonAnnotations patches images
    replacements replicas sortOptions resources components crds configMapGenerator secretGenerator helmGlobals helmCharts
    generatorOptions configurations generators transformers validators buildMetadata""".split()
)
HANDLED = {"apiVersion", "kind", "resources", "patches", "images", "nameSuffix"}
PATCH_FIELDS = {"path", "patch", "target", "options"}
TARGET_FIELDS = {"group", "version", "kind", "name", "namespace", "annotationSelector", "labelSelector"}
IMAGE_FIELDS = {"name", "newName", "newTag", "tagSuffix", "digest"}
OPERATION_FIELDS = {
    "add": {"op", "path", "value"},
    "replace": {"op", "path", "value"},
    "test": {"op", "path", "value"},
    "remove": {"op", "path"},
    "move": {"op", "path", "from"},
    "copy": {"op", "path", "from"},
}


class Error(Exception):
    """Says in which file what is wrong."""


def documents(path):
    """The objects of a YAML file."""
    try:
        return [item for item in yaml.safe_load_all(path.read_text(encoding="utf-8")) if item is not None]
    except (OSError, yaml.YAMLError) as error:
        raise Error(f"{path}: {error}") from error


def known(where, found, fields):
    for field in found:
        if field not in fields:
            raise Error(f"{where}: no such field: {field}")


def identity(item):
    return (
        item.get("apiVersion"),
        item.get("kind"),
        item.get("metadata", {}).get("namespace"),
        item.get("metadata", {}).get("name"),
    )


def read(folder):
    """The Kustomization of a folder, after its fields are checked."""
    path = folder / FILE
    found = documents(path)
    if len(found) != 1 or not isinstance(found[0], dict):
        raise Error(f"{path}: not one Kustomization")
    kustomization = found[0]
    known(path, kustomization, FIELDS)
    for field in kustomization:
        if field not in HANDLED:
            raise Error(f"{path}: {field} exists, but tests/support/kustomize.py does not know what it does")
    for field, value in API.items():
        if kustomization.get(field) != value:
            raise Error(f"{path}: {field} is not {value}")
    for patch in kustomization.get("patches", []):
        known(f"{path}: patches", patch, PATCH_FIELDS)
        known(f"{path}: target", patch.get("target", {}), TARGET_FIELDS)
    for image in kustomization.get("images", []):
        known(f"{path}: images", image, IMAGE_FIELDS)
    return kustomization


def inside(folder, name):
    """The path of a file that a kustomization names. kustomize opens none outside of its folder."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise Error(f"{folder / FILE}: {name} is not in or below its folder")
    return path


def resources(folder, kustomization):
    found = []
    for name in kustomization.get("resources", []):
        path = (folder / name).resolve()
        found += build(path) if path.is_dir() else documents(inside(folder, name))
    names = [identity(item) for item in found]
    for name in names:
        if names.count(name) > 1:
            raise Error(f"{folder / FILE}: {name} is there twice")
    return found


def selects(target, item):
    group, _, version = item["apiVersion"].rpartition("/")
    has = {"group": group, "version": version, "kind": item["kind"], "name": item["metadata"]["name"]}
    for field, wanted in target.items():
        if field not in has:
            raise Error(f"a target's {field} exists, but tests/support/kustomize.py does not know what it does")
        if not re.fullmatch(wanted, has[field]):
            return False
    return True


def applied(where, operations, item):
    """The item with the operations of a JSON 6902 patch applied one by one: an error names the one that failed."""
    if not isinstance(operations, list):
        raise Error(f"{where}: not a list of JSON 6902 operations")
    for operation in operations:
        if operation.get("op") not in OPERATION_FIELDS:
            raise Error(f"{where}: no such operation: {operation.get('op')}")
        known(f"{where}: {operation['op']}", operation, OPERATION_FIELDS[operation["op"]])
        try:
            item = jsonpatch.apply_patch(item, [operation])
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
            raise Error(f"{where}: {operation['op']} {operation.get('path')}: {error}") from error
    return item


def patched(folder, patch, items):
    where = folder / patch["path"] if "path" in patch else f"{folder / FILE}: patch"
    if "path" in patch:
        found = documents(inside(folder, patch["path"]))
    else:
        found = list(yaml.safe_load_all(patch["patch"]))
    if len(found) != 1:
        raise Error(f"{where}: not one patch")
    chosen = [selects(patch.get("target", {}), item) for item in items]
    if not any(chosen):
        raise Error(f"{where}: its target selects no resource")
    return [applied(where, found[0], item) if yes else item for yes, item in zip(chosen, items)]


def name_images(images, node):
    """Sets names and tags of images in every list of containers."""
    if isinstance(node, list):
        for item in node:
            name_images(images, item)
    elif isinstance(node, dict):
        for container in node.get("containers", []) + node.get("initContainers", []):
            for image in images:
                name, end = re.fullmatch(r"(.+?)((?::[\w.-]+)?(?:@sha256:\w+)?)", container["image"]).groups()
                if name == image["name"]:
                    if "digest" in image or "newTag" in image:
                        end = "@" + image["digest"] if "digest" in image else ":" + image["newTag"]
                    container["image"] = image.get("newName", name) + end
        for item in node.values():
            name_images(images, item)


def build(folder):
    """The objects that `kubectl apply -k FOLDER` would send."""
    folder = pathlib.Path(folder)
    kustomization = read(folder)
    items = copy.deepcopy(resources(folder, kustomization))
    for patch in kustomization.get("patches", []):
        items = patched(folder, patch, items)
    for item in items:
        item["metadata"]["name"] += kustomization.get("nameSuffix", "")
        name_images(kustomization.get("images", []), item)
    return items
