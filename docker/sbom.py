#!/usr/bin/env python3
"""Writes what an image of docker/Dockerfile consists of, as SPDX 2.3 JSON: its Debian packages, the wheels whose libraries it has,
and, as what it was built with, the other pinned wheels. Wheels are those of launch/requirements/, with their SHA-256.

  docker run --rm --entrypoint cat dtrain:latest /var/lib/dpkg/status | docker/sbom.py - --image dtrain:latest >dtrain.spdx.json
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import sys
import urllib.parse
import uuid

TOP = pathlib.Path(__file__).resolve().parents[1]
UNSAID = {"downloadLocation": "NOASSERTION", "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION"}


def spdx_id(*words):
    return "SPDXRef-" + "-".join(re.sub(r"[^A-Za-z0-9.]+", "-", word) for word in words)


def package(kind, name, version, purl, **more):
    reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
    return {"SPDXID": spdx_id(kind, name, version), "name": name, "versionInfo": version, "filesAnalyzed": False, **UNSAID,
            "externalRefs": [reference], **more}


def debian_packages(status):
    """The installed packages of a dpkg status file."""
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").split()[-1:] != ["installed"]:
            continue
        name, version, architecture = fields["Package"], fields["Version"], fields["Architecture"]
        source = re.fullmatch(r"(\S+)(?: \((\S+)\))?", fields.get("Source", name))
        quoted = urllib.parse.quote(version, safe="")
        yield package("deb", name, version, f"pkg:deb/debian/{name}@{quoted}?arch={architecture}&distro=bookworm",
                      SPDXID=spdx_id("deb", name, architecture, version), sourceInfo=f"built from {source[1]} {source[2] or version}")


def wheels(requirements):
    """The pinned wheels of a requirements file, with the hash of each; several hashes are those of several versions of Python."""
    joined = requirements.replace("\\\n", " ")
    for name, version, hashes in re.findall(r"^([\w.-]+)==(\S+)((?:\s+--hash=sha256:[0-9a-f]{64})+)", joined, re.MULTILINE):
        sums = re.findall(r"[0-9a-f]{64}", hashes)
        comment = {} if len(sums) == 1 else {"comment": "One wheel for each version of Python: the one used has one of these checksums."}
        yield package("pypi", name, version, f"pkg:pypi/{name.lower().replace('_', '-')}@{urllib.parse.quote(version)}",
                      checksums=[{"algorithm": "SHA256", "checksumValue": value} for value in sums], **comment)


def has_libraries_in_the_image(name):
    return name == "torch" or (name.startswith("nvidia-") and not name.endswith("-dev"))


def relation(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def document(status, image, created):
    version = re.search(r"project\(dtrain VERSION (\S+)", (TOP / "CMakeLists.txt").read_text())[1]
    whole = {"SPDXID": "SPDXRef-Image", "name": image, "versionInfo": version, "filesAnalyzed": False, **UNSAID, "primaryPackagePurpose": "CONTAINER"}
    program = {"SPDXID": "SPDXRef-Program", "name": "dtrain", "versionInfo": version, "filesAnalyzed": False, **UNSAID, "licenseDeclared": "MIT",
               "primaryPackagePurpose": "APPLICATION"}
    packages = [whole, program]
    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image"), relation("SPDXRef-Image", "CONTAINS", "SPDXRef-Program")]
    for each in debian_packages(status):
        packages.append(each)
        relations.append(relation("SPDXRef-Image", "CONTAINS", each["SPDXID"]))
    for name, use in [("torch", "BUILD_DEPENDENCY_OF"), ("cuda", "BUILD_TOOL_OF")]:
        for each in wheels((TOP / f"launch/requirements/{name}.txt").read_text()):
            packages.append(each)
            if name == "torch" and has_libraries_in_the_image(each["name"]):
                relations.append(relation("SPDXRef-Image", "CONTAINS", each["SPDXID"]))
            else:
                relations.append(relation(each["SPDXID"], use, "SPDXRef-Program"))
    content = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([packages, relations, created]))
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": image,
            "documentNamespace": f"https://spdx.org/spdxdocs/dtrain-{version}-{content}",
            "creationInfo": {"created": created, "creators": ["Tool: dtrain-docker-sbom"]}, "packages": packages, "relationships": relations}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("status", help="/var/lib/dpkg/status of the image, or - for the standard input")
    parser.add_argument("--image", default="dtrain:latest", help="its name (%(default)s)")
    arguments = parser.parse_args()
    status = sys.stdin.read() if arguments.status == "-" else pathlib.Path(arguments.status).read_text(encoding="utf-8")
    if not re.search(r"^Status: .* installed$", status, re.MULTILINE):
        sys.exit(f"sbom.py: {arguments.status} lists no installed package; expected /var/lib/dpkg/status of the image")
    when = int(os.environ["SOURCE_DATE_EPOCH"]) if "SOURCE_DATE_EPOCH" in os.environ else datetime.datetime.now().timestamp()
    created = datetime.datetime.fromtimestamp(when, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    json.dump(document(status, arguments.image, created), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
