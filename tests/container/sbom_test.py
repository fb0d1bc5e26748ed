"""docker/sbom.py: an SPDX 2.3 document of the packages of this machine (an image has the same file) and of the pinned wheels.
What SPDX 2.3 requires is asked for by hand here; PyPI's spdx-tools, a validator, finds no fault in the same document."""

import json
import pathlib
import re
import subprocess
import sys

import runner

SBOM = runner.SOURCE / "docker/sbom.py"
STATUS = pathlib.Path("/var/lib/dpkg/status")
ID = re.compile(r"SPDXRef-[A-Za-z0-9.-]+")


def sbom(*words, **options):
    return subprocess.run([sys.executable, SBOM, *map(str, words)], capture_output=True, text=True, **options)


def document(status=STATUS):
    done = sbom(status, "--image", "dtrain:test")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def it_has_what_spdx_requires(_):
    made = document()
    assert (made["spdxVersion"], made["dataLicense"], made["SPDXID"]) == ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT")
    assert made["name"] and re.fullmatch(r"https://[^#\s]+", made["documentNamespace"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["creationInfo"]["created"])
    assert all(re.fullmatch(r"(Tool|Organization|Person): .+", creator) for creator in made["creationInfo"]["creators"])
    names = [each["SPDXID"] for each in made["packages"]]
    assert len(names) == len(set(names)) and all(map(ID.fullmatch, names))
    for each in made["packages"]:
        assert each["name"] and each["versionInfo"] and each["downloadLocation"] and each["filesAnalyzed"] is False, each
        for reference in each.get("externalRefs", []):
            assert (reference["referenceCategory"], reference["referenceType"]) == ("PACKAGE-MANAGER", "purl")
            assert re.fullmatch(r"pkg:(deb/debian|pypi)/[\w.+-]+@[^\s:+@]+", reference["referenceLocator"]), reference
    known = {"SPDXRef-DOCUMENT", *names}
    for each in made["relationships"]:
        assert {each["spdxElementId"], each["relatedSpdxElement"]} <= known, each
        assert each["relationshipType"] in ("DESCRIBES", "CONTAINS", "BUILD_DEPENDENCY_OF", "BUILD_TOOL_OF"), each
    related = {each[end] for each in made["relationships"] for end in ("spdxElementId", "relatedSpdxElement")}
    assert related == known, known - related


def it_lists_every_package_and_every_wheel(_):
    made = document()
    listed = {(each["name"], each["versionInfo"]) for each in made["packages"] if each["SPDXID"].startswith("SPDXRef-deb-")}
    installed = subprocess.check_output(["dpkg-query", "-W", "-f", "${db:Status-Status}\t${Package}\t${Version}\n"], text=True)
    assert listed == {tuple(line.split("\t")[1:]) for line in installed.splitlines() if line.startswith("installed\t")}
    sums = {each["name"]: [check["checksumValue"] for check in each["checksums"]] for each in made["packages"]
            if each["SPDXID"].startswith("SPDXRef-pypi-")}
    for name in ("torch", "cuda"):
        text = (runner.SOURCE / f"launch/requirements/{name}.txt").read_text()
        for pinned in re.split(r"\n(?=\w)", text):
            if "==" in pinned:
                assert sums.pop(pinned.split("==")[0]) == re.findall(r"sha256:(\w+)", pinned), pinned
    assert sums == {}, sums
    inside = {each["relatedSpdxElement"] for each in made["relationships"] if each["spdxElementId"] == "SPDXRef-Image"}
    assert any(name.startswith("SPDXRef-pypi-torch-") for name in inside), inside
    assert not any(name.startswith("SPDXRef-pypi-jinja2-") for name in inside), inside


def it_reads_a_pipe_and_refuses_another_file(folder):
    status = "Package: a\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:2+b1~c\nSource: src (2)\n\n" \
             "Package: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n"
    done = sbom("-", input=status, env={"SOURCE_DATE_EPOCH": "86400"})
    made = json.loads(done.stdout)
    assert made["creationInfo"]["created"] == "1970-01-02T00:00:00Z"
    (package,) = [each for each in made["packages"] if each["SPDXID"].startswith("SPDXRef-deb-")]
    assert package["externalRefs"][0]["referenceLocator"] == "pkg:deb/debian/a@1%3A2%2Bb1~c?arch=amd64&distro=bookworm"
    assert package["sourceInfo"] == "built from src 2"
    assert sbom("-", input=status, env={"SOURCE_DATE_EPOCH": "86400"}).stdout == done.stdout
    (folder / "other").write_text("Package: a\n")
    refused = sbom(folder / "other")
    assert refused.returncode == 1 and "expected /var/lib/dpkg/status" in refused.stderr, refused


runner.main([it_has_what_spdx_requires, it_lists_every_package_and_every_wheel, it_reads_a_pipe_and_refuses_another_file])
