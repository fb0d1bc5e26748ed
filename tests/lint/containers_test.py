"""Images, compose files, cluster manifests and job scripts, as far as they can be checked without Docker, Slurm and Kubernetes."""
import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import kustomize
import tree
import yaml

PINNED = re.compile(r"^[\w./-]+:(?!latest)[\w.-]*\d[\w.-]*(@sha256:[0-9a-f]{64})?$")
NAMES_WHAT_TO_TRAIN = {"--task", "--dataset"}
FROM_THE_BASE = {"libc6", "libgcc-s1", "libstdc++6"}  # part of every Debian image


def dockerfile():
    """Returns [(instruction, arguments)] with continuation lines joined and comments removed."""
    text = "\n".join(line for line in tree.read("docker/Dockerfile").splitlines() if not line.lstrip().startswith("#"))
    lines = [line.strip() for line in re.sub(r"\\\n", " ", text).splitlines()]
    return [tuple(line.split(None, 1)) for line in lines if line]


def one(kind, instructions):
    """Returns the arguments of the last instruction of a kind."""
    found = [arguments for name, arguments in instructions if name == kind]
    assert found, f"the Dockerfile has no {kind}"
    return found[-1]


def option(command, name):
    """The value after an option in a list of words."""
    return command[command.index(name) + 1]


def runtime_stage():
    instructions = dockerfile()
    last = max(i for i, (name, _) in enumerate(instructions) if name == "FROM")
    return instructions[last:]


class Dockerfile(unittest.TestCase):
    def test_bases_are_pinned(self):
        arguments = dict(a.split("=", 1) for name, a in dockerfile() if name == "ARG" and "=" in a)
        for name, value in dockerfile():
            if name == "FROM":
                image = re.sub(r"\$\{(\w+)\}", lambda m: arguments[m.group(1)], value.split()[0])
                self.assertRegex(image, PINNED)

    def test_copied_files_exist_and_are_not_ignored(self):
        ignored = [line for line in tree.read(".dockerignore").splitlines() if line and line[0] != "#"]
        stages = {a.split()[-1] for name, a in dockerfile() if name == "FROM" and " AS " in a}
        for name, value in dockerfile():
            if name not in ("COPY", "ADD"):
                continue
            words = [word for word in value.split() if not word.startswith("--")]
            stage = re.search(r"--from=(\S+)", value)
            if stage:
                self.assertIn(stage.group(1), stages)
                continue
            for source in words[:-1]:
                self.assertTrue((tree.ROOT / source).exists(), f"COPY {source}: not in the tree")
                self.assertNotIn(source.split("/")[0], ignored)

    def test_it_runs_without_root_and_saves_when_stopped(self):
        stage = runtime_stage()
        self.assertRegex(one("USER", stage), r"^[1-9]\d*:[1-9]\d*$")
        self.assertEqual(one("STOPSIGNAL", stage), "SIGUSR1")
        self.assertIn("tini", one("ENTRYPOINT", stage))
        copied = [word for name, value in stage if name == "COPY" for word in value.split()]
        self.assertTrue(one("HEALTHCHECK", stage).endswith('CMD ["healthcheck"]'))
        self.assertIn("docker/healthcheck", copied)
        text = " ".join(arguments for name, arguments in stage if name in ("ENV", "RUN"))
        self.assertIn("NVIDIA_DRIVER_CAPABILITIES=compute,utility", text)
        self.assertNotIn("ALLOW_RUN_AS_ROOT", text)

    def test_the_runtime_has_every_library_that_the_binary_needs(self):
        binary = os.environ["DTRAIN"]
        installed = set(" ".join(a for name, a in runtime_stage() if name == "RUN").split())
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", subprocess.check_output(["readelf", "-d", binary], text=True))
        paths = dict(re.findall(r"(\S+) => (/\S+)", subprocess.check_output(["ldd", binary], text=True)))
        self.assertGreater(len(needed), 5)
        missing = []
        for library in needed:
            path = os.path.realpath(paths.get(library, ""))
            if not path.startswith(("/usr/lib", "/lib")):
                continue  # a library of LibTorch or its wheels, which is copied
            both = [path, path.removeprefix("/usr")]  # /lib is a link to /usr/lib; dpkg lists a file under one of the two
            owner = subprocess.run(["dpkg", "-S", *both], capture_output=True, text=True).stdout.split(":")[0]
            if owner not in installed | FROM_THE_BASE:
                missing.append(f"{library} ({owner or 'no package'})")
        self.assertFalse(missing, f"not installed in the runtime stage of docker/Dockerfile: {missing}")

    def test_the_libraries_are_packages_of_the_base(self):
        packages = re.search(r"--no-install-recommends\s+(.*?)&&", " ".join(a for _, a in runtime_stage())).group(1).split()
        libraries = [package for package in packages if package.startswith("lib")]
        self.assertGreater(len(libraries), 10)
        with open("/etc/os-release", encoding="utf-8") as file:
            same_system = "VERSION_CODENAME=bookworm" in file.read()
        if same_system:  # the -dev packages of launch/bootstrap installed them all; other systems use other names
            subprocess.run(["dpkg", "-s", *libraries], check=True, stdout=subprocess.DEVNULL)


class WaitForWorkers(unittest.TestCase):
    """docker/wait_for_workers on the host `own`, with a fake ssh that w1 answers."""

    @contextlib.contextmanager
    def prepared(self, hostfile, ssh="[ ${5##*@} = w1 ]"):
        """Yields a folder with a host file and an empty folder for temporary files, and the environment with the fakes."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "hosts").write_bytes(hostfile)
            (folder / "tmp").mkdir()
            add_programs(folder / "bin", hostname="echo own", getent='case $2 in *@*) exit 2 ;; *) echo "10.0.0.1 $2" ;; esac',
                         ssh=f'echo "$5" >>{folder}/asked; {ssh}')
            yield folder, dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}", TMPDIR=str(folder / "tmp"))

    def wait_for(self, hostfile, limit=60, **fake):
        with self.prepared(hostfile, **fake) as (folder, environment):
            done = subprocess.run([tree.ROOT / "docker/wait_for_workers", folder / "hosts", str(limit), "ls", folder / "tmp"], env=environment,
                                  capture_output=True, text=True, timeout=60)
            asked = folder / "asked"
            return done, asked.read_text().split() if asked.exists() else []

    def test_its_own_host_needs_no_ssh(self):
        done, asked = self.wait_for(b"own.cluster slots=1\nlocalhost slots=1\n127.0.0.1\nme@localhost\nw1 slots=2\n")
        self.assertEqual((done.returncode, done.stderr, asked), (0, "", ["w1"]))
        self.assertTrue(done.stdout.endswith("hosts answer\n"), f"not the end, or files are left: {done.stdout}")

    def test_a_user_is_for_ssh_and_not_for_names(self):
        done, asked = self.wait_for(b"me@w1 slots=1\n")
        self.assertEqual((done.returncode, asked), (0, ["me@w1"]), done.stderr)

    def test_line_ends_of_windows_are_no_part_of_a_name(self):
        done, asked = self.wait_for(b"w1\r\n\r\n")
        self.assertEqual((done.returncode, asked), (0, ["w1"]), done.stderr)
        self.assertIn("which mpirun refuses", done.stderr)

    def test_many_hosts_are_asked_at_the_same_time(self):
        done, asked = self.wait_for("".join(f"w{i}\n" for i in range(20)).encode(), limit=10, ssh="sleep 1")
        self.assertEqual((done.returncode, done.stderr, len(asked)), (0, "", 20))

    def test_each_host_is_asked_and_named(self):
        """Also those of a second group, which the limit leaves no time for."""
        done, asked = self.wait_for("".join(f"w{i}\n" for i in range(40)).encode(), limit=1,
                                    ssh='sleep 1; [ "$5" = w1 ] || { echo "no $5" >&2; exit 1; }')
        self.assertEqual((done.returncode, done.stdout, set(asked)), (76, "", {f"w{i}" for i in range(40)}))
        for host in [f"w{i}" for i in range(40) if i != 1]:
            self.assertIn(f"wait_for_workers: {host}: 10.0.0.1 does not answer to ssh: no {host}\n", done.stderr)
        self.assertRegex(done.stderr, r": 39 of the hosts of \S+ and this one \(own\) are not ready after 1 s\n$")

    def test_a_signal_ends_it_and_all_that_it_started(self):
        """While it asks, and while it waits to ask again."""
        for number, ssh in ((signal.SIGUSR1, "sleep 50"), (signal.SIGTERM, "sleep 50"), (signal.SIGINT, "sleep 50"), (signal.SIGUSR1, "exit 1")):
            with self.prepared(b"w1\nw2\n", ssh=ssh) as (folder, environment):
                job = subprocess.Popen([tree.ROOT / "docker/wait_for_workers", folder / "hosts", "60"], env=environment, start_new_session=True)
                while not (folder / "asked").exists() or len((folder / "asked").read_text().split()) < 2:
                    time.sleep(0.01)
                time.sleep(0.3)
                begin = time.monotonic()
                job.send_signal(number)
                self.assertEqual(job.wait(timeout=30), -number)
                left = ["ps", "-o", "args=", "-s", str(job.pid)]
                while subprocess.run(left, stdout=subprocess.DEVNULL).returncode == 0 and time.monotonic() < begin + 5:
                    time.sleep(0.05)
                self.assertEqual(subprocess.run(left, capture_output=True, text=True).stdout, "")
                self.assertLess(time.monotonic() - begin, 5)
                self.assertEqual(list((folder / "tmp").iterdir()), [])


class HealthCheck(unittest.TestCase):
    """docker/healthcheck on the host `own`, among the processes of one session: scripts with the names of the real programs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        add_programs(self.folder / "bin", hostname="echo own", dtrain="exec 3>>runs/r/.lock; sleep 100", mpirun="sleep 100", tini="sleep 100",
                     getent="sleep 100")
        for name in ("r", "targets"):
            (self.folder / "runs" / name).mkdir(parents=True)
        self.targets = self.folder / "runs/targets/r.json"
        self.lock = self.folder / "runs/r/.lock"
        self.lock.touch()

    @contextlib.contextmanager
    def running(self, *command):
        """Yields a function that runs the health check while this command runs: (exit code, what it prints)."""
        environment = dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}")
        process = subprocess.Popen(command, cwd=self.folder, env=environment, start_new_session=True)
        seen = self.folder / "bin/pgrep"
        seen.write_text(f'#!/bin/sh\nexec {shutil.which("pgrep")} -s {process.pid} "$@"\n')
        seen.chmod(0o755)

        def check(**more):
            done = subprocess.run([tree.ROOT / "docker/healthcheck"], env={**environment, **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=60)
            return done.returncode, done.stdout

        try:
            while subprocess.run([seen, "-x", "sleep"], stdout=subprocess.DEVNULL).returncode != 0:  # all of them come to that
                time.sleep(0.01)
            yield check
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()

    def write_targets(self, port, seconds):
        """The address of a rank, this number of seconds after the lock."""
        self.targets.write_text(json.dumps([{"targets": [f"127.0.0.1:{port}"], "labels": {"job_id": "r", "node": "own", "rank": "0"}}], indent=2))
        os.utime(self.targets, ns=(0, self.lock.stat().st_mtime_ns + int(seconds * 1e9)))

    def test_targets_of_an_earlier_job_are_not_asked(self):
        with self.running("dtrain") as check:
            self.write_targets(1, -0.5)
            self.assertEqual(check(), (0, "dtrain runs; 0 metrics endpoints answer\n"))
            for seconds in (0, 0.5):  # both files may be written within one tick of the clock of the file system
                self.write_targets(1, seconds)
                code, output = check()
                self.assertEqual(code, 1)
                self.assertIn("run r, rank at 127.0.0.1:1: ", output)

    def test_no_proxy_is_asked(self):
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server, self.running("dtrain") as check:
            server.RequestHandlerClass.log_message = lambda *_: None
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                self.write_targets(server.server_port, 1)
                self.assertEqual(check(http_proxy="http://127.0.0.1:1"), (0, "dtrain runs; 1 metrics endpoints answer\n"))
            finally:
                server.shutdown()
                thread.join()

    def test_a_launcher_has_no_rank(self):
        (self.folder / "hosts").write_text("w1\n")
        wait_for = str(tree.ROOT / "docker/wait_for_workers")
        for command, words in ((["mpirun"], "no dtrain here; mpirun runs\n"), ([wait_for, "hosts", "60"], "no dtrain yet; wait_for_workers runs\n")):
            with self.running(*command) as check:
                self.assertEqual(check(), (0, words))
        with self.running("tini", "--", "wait_for_workers", "hosts", "60") as check:  # the first process of the image, whatever runs
            self.assertEqual(check(), (1, "dtrain does not run, and neither does sshd, mpirun or wait_for_workers\n"))


class Compose(unittest.TestCase):
    def setUp(self):
        self.compose = yaml.safe_load(tree.read("docker/compose.yaml"))
        self.services = self.compose["services"]

    def test_images_are_pinned_or_built_from_this_tree(self):
        for name, service in self.services.items():
            if "build" in service:
                build = service["build"]
                self.assertTrue((tree.ROOT / "docker" / build["context"] / build["dockerfile"]).is_file())
            else:
                self.assertRegex(service["image"], PINNED, name)

    def test_mounts_exist(self):
        for name, service in self.services.items():
            for mount in service["volumes"]:
                source = mount.split(":")[0]
                if source.startswith("."):
                    folder = tree.ROOT / "docker" / source
                    self.assertTrue(folder.is_dir() and any(folder.iterdir()), f"{name} mounts {source}: not in the tree")
                else:
                    self.assertIn(source, self.compose["volumes"], name)

    def test_ports_are_open_only_to_this_machine(self):
        for service in self.services.values():
            for port in service.get("ports", []):
                self.assertRegex(port, r"^127\.0\.0\.1:\d+:\d+$")

    def test_the_trainer_can_save_and_be_scraped(self):
        trainer = self.services["trainer"]
        self.assertEqual(trainer["shm_size"], "8gb")
        self.assertIn("stop_grace_period", trainer)
        command = trainer["command"]
        self.assertEqual(command[command.index("--metrics.bind") + 1], "0.0.0.0")
        self.assertIn("hostname", trainer)
        self.assertTrue(NAMES_WHAT_TO_TRAIN & set(command), "--resume auto with a name alone starts nothing")

    def test_dependencies_are_services(self):
        for service in self.services.values():
            self.assertLessEqual(set(service.get("depends_on", [])), set(self.services))

    def test_prometheus_reads_its_files_where_they_are_mounted(self):
        config = yaml.safe_load(tree.read("monitoring/prometheus/prometheus.yml"))
        service = self.services["prometheus"]
        mounts = dict(mount.split(":")[:2] for mount in service["volumes"])
        folder = mounts["../monitoring/prometheus"]
        self.assertIn(f"--config.file={folder}/prometheus.yml", service["command"])
        patterns = [f for job in config["scrape_configs"] for sd in job.get("file_sd_configs", []) for f in sd["files"]]
        # the trainer writes them to runs/ in its working folder
        self.assertIn(mounts["runs"] + "/targets/*.json", [os.path.normpath(os.path.join(folder, p)) for p in patterns])
        self.assertIn("runs:" + one("WORKDIR", runtime_stage()) + "/runs", self.services["trainer"]["volumes"])
        for pattern in config.get("rule_files", []):
            self.assertTrue(list((tree.ROOT / "monitoring/prometheus").glob(pattern)), f"no rule file matches {pattern}")

    def test_gpus_are_an_overlay(self):
        overlay = yaml.safe_load(tree.read("docker/compose.gpu.yaml"))["services"]
        self.assertLessEqual(set(overlay), set(self.services))
        device = overlay["trainer"]["deploy"]["resources"]["reservations"]["devices"][0]
        self.assertEqual((device["driver"], device["capabilities"]), ("nvidia", ["gpu"]))
        self.assertNotIn("deploy", self.services["trainer"])


class Grafana(unittest.TestCase):
    """Neither Debian nor PyPI has Grafana: names of fields are compared with those of its documentation (11.2, provisioning), because
    it ignores all others."""
    DATA_SOURCE = {"name", "type", "access", "orgId", "uid", "url", "user", "database", "basicAuth", "basicAuthUser", "withCredentials",
                   "isDefault", "jsonData", "secureJsonData", "version", "editable"}
    OF_PROMETHEUS = {"timeInterval", "httpMethod", "queryTimeout", "manageAlerts", "prometheusType", "prometheusVersion", "cacheLevel",
                     "disableMetricsLookup", "incrementalQuerying", "incrementalQueryOverlapWindow", "customQueryParameters", "exemplarTraceIdDestinations"}
    PROVIDER = {"name", "orgId", "folder", "folderUid", "type", "disableDeletion", "updateIntervalSeconds", "allowUiUpdates", "options"}
    SETTINGS = {"GF_AUTH_ANONYMOUS_ENABLED", "GF_AUTH_ANONYMOUS_ORG_ROLE", "GF_USERS_DEFAULT_THEME"}  # [auth.anonymous], [users]

    def setUp(self):
        self.services = yaml.safe_load(tree.read("docker/compose.yaml"))["services"]
        self.mounts = dict(mount.split(":")[:2] for mount in self.services["grafana"]["volumes"])

    def test_data_source(self):
        file = yaml.safe_load(tree.read("monitoring/grafana/provisioning/datasources/prometheus.yaml"))
        self.assertEqual((set(file), file["apiVersion"]), ({"apiVersion", "datasources"}, 1))
        (source,) = file["datasources"]
        self.assertLessEqual(set(source), self.DATA_SOURCE)
        self.assertLessEqual(set(source["jsonData"]), self.OF_PROMETHEUS)
        self.assertEqual((source["type"], source["access"], source["isDefault"]), ("prometheus", "proxy", True))
        self.assertIn(source["jsonData"]["httpMethod"], ("GET", "POST"))
        host, port = re.fullmatch(r"http://(\w+):(\d+)", source["url"]).groups()
        self.assertIn(f"127.0.0.1:{port}:{port}", self.services[host]["ports"])
        scrape = yaml.safe_load(tree.read("monitoring/prometheus/prometheus.yml"))["global"]["scrape_interval"]
        self.assertEqual(source["jsonData"]["timeInterval"], scrape)

    def test_dashboards(self):
        file = yaml.safe_load(tree.read("monitoring/grafana/provisioning/dashboards/dtrain.yaml"))
        self.assertEqual((set(file), file["apiVersion"]), ({"apiVersion", "providers"}, 1))
        (provider,) = file["providers"]
        self.assertLessEqual(set(provider), self.PROVIDER)
        self.assertEqual((provider["type"], set(provider["options"])), ("file", {"path", "foldersFromFilesStructure"}))
        self.assertFalse({"folder", "folderUid"} & set(provider), "Grafana takes either a folder or the structure of files")
        self.assertEqual(self.mounts["../monitoring/grafana/dashboards"], provider["options"]["path"])
        self.assertEqual(self.mounts["../monitoring/grafana/provisioning"], "/etc/grafana/provisioning")

    def test_settings(self):
        self.assertEqual(set(self.services["grafana"]["environment"]), self.SETTINGS)


class Kubernetes(unittest.TestCase):
    def test_every_overlay_is_checked(self):
        folders = {path.name for path in (tree.ROOT / "launch/kubernetes/overlays").iterdir()}
        self.assertEqual({kind.name for kind in Overlay.__subclasses__()}, folders)


class Overlay:
    """The checks of each overlay of launch/kubernetes as it is applied. tests/kubernetes checks that they are valid."""

    name = ""

    def setUp(self):
        self.job, = kustomize.build(tree.ROOT / "launch/kubernetes/overlays" / self.name)
        self.monitor = yaml.safe_load(tree.read("launch/kubernetes/podmonitor.yaml"))["spec"]
        self.slots = self.job["spec"]["slotsPerWorker"]
        self.replicas = self.job["spec"]["mpiReplicaSpecs"]
        self.pods = {role: replica["template"]["spec"] for role, replica in self.replicas.items()}
        self.launcher, self.worker = (self.pods[role]["containers"][0] for role in ("Launcher", "Worker"))
        self.command = self.launcher["args"]

    def test_is_an_mpijob_of_v2beta1(self):
        self.assertEqual((self.job["apiVersion"], self.job["kind"]), ("kubeflow.org/v2beta1", "MPIJob"))
        self.assertEqual(set(self.replicas), {"Launcher", "Worker"})
        self.assertEqual(self.replicas["Launcher"]["replicas"], 1)

    def test_pods_are_complete_and_not_root(self):
        claim = yaml.safe_load(tree.read("launch/kubernetes/volumeclaim.yaml"))["metadata"]["name"]
        for role, spec in self.pods.items():
            self.assertTrue(spec["securityContext"]["runAsNonRoot"], role)
            self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertEqual(str(spec["securityContext"]["runAsUser"]), one("USER", runtime_stage()).split(":")[0])
            self.assertFalse(spec["automountServiceAccountToken"])
            self.assertGreaterEqual(spec["terminationGracePeriodSeconds"], 120)
            volumes = {volume["name"]: volume for volume in spec["volumes"]}
            self.assertEqual(volumes["work"]["persistentVolumeClaim"]["claimName"], claim)
            for container in spec["containers"]:
                self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]}, set(volumes), role)
                self.assertEqual(container["workingDir"], one("WORKDIR", runtime_stage()))
                self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
                self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})

    def test_ranks_fit_gpus_and_metrics_ports(self):
        self.assertEqual(int(option(self.command, "-np")), self.slots * self.replicas["Worker"]["replicas"])
        gpus = self.worker["resources"]["limits"].get("nvidia.com/gpu")
        self.assertEqual(gpus, None if self.name == "cpu" else self.slots)
        ports = {p["name"]: p["containerPort"] for p in self.worker["ports"]}
        self.assertEqual([ports[f"metrics-{i}"] for i in range(self.slots)], [9500 + i for i in range(self.slots)])
        self.assertEqual(len(ports), self.slots + 1, "ssh and a port per rank")

    def test_the_monitor_finds_the_metrics_and_nothing_else(self):
        for replica in self.replicas.values():
            labels = replica["template"]["metadata"]["labels"]
            self.assertLessEqual(self.monitor["selector"]["matchLabels"].items(), labels.items())
        endpoint, = self.monitor["podMetricsEndpoints"]
        keep = next(rule for rule in endpoint["relabelings"] if rule.get("action") == "keep")
        self.assertEqual(keep["sourceLabels"], ["__meta_kubernetes_pod_container_port_name"])
        ports = [p["name"] for p in self.worker["ports"] + self.launcher.get("ports", [])]
        wanted = [f"metrics-{i}" for i in range(self.slots)] + ["metrics-launch"] * (self.name == "supervised")
        self.assertEqual([name for name in ports if re.fullmatch(keep["regex"], name)], wanted)
        self.assertTrue(all(len(name) <= 15 for name in ports), "the longest name of a port that Kubernetes takes")

    def test_the_command_trains_with_flags_that_exist(self):
        help_text = "".join(subprocess.check_output([os.environ["DTRAIN"], *page], text=True) for page in (["--help"], ["--help", "all"]))
        train = self.command[self.command.index("train"):]
        self.assertTrue(NAMES_WHAT_TO_TRAIN & set(train), "--resume auto with a name alone starts nothing")
        self.assertEqual((option(train, "--resume"), option(train, "--metrics.bind")), ("auto", "0.0.0.0"))
        self.assertEqual(option(train, "--name"), self.job["metadata"]["name"], "the alerts name the run by the job")
        self.assertEqual("cpu" in train, self.name == "cpu")
        for flag in [word for word in train if word.startswith("--")]:
            self.assertRegex(help_text, rf"{re.escape(flag)}(?![\w.-])")
        self.assertIn(one("ENV", runtime_stage()).split("PATH=")[1].split(":")[0] + "/dtrain", self.command)
        if self.name != "supervised":  # it waits by itself, and goes on without a worker that does not come
            self.assertEqual(self.command[:4], ["wait_for_workers", "/etc/mpi/hostfile", "300", "mpirun"])
            copied = " ".join(a for name, a in runtime_stage() if name == "COPY").split()
            self.assertIn("docker/wait_for_workers", copied)
        self.assertIn("PATH", [self.command[i + 1] for i, word in enumerate(self.command) if word == "-x"])

    def test_sshd_is_where_the_worker_and_mpirun_look(self):
        config = option(self.worker["args"], "-f")
        copied = [a.split()[-1] for name, a in runtime_stage() if name == "COPY"]
        self.assertIn(config, copied)
        port = re.search(r"^Port (\d+)$", tree.read("docker/sshd_config"), re.MULTILINE).group(1)
        self.assertIn(f"Port {port}", tree.read("docker/ssh_config"))
        self.assertIn({"name": self.worker["startupProbe"]["tcpSocket"]["port"], "containerPort": int(port)}, self.worker["ports"])
        self.assertEqual(self.job["spec"]["launcherCreationPolicy"], "WaitForWorkersReady")
        keys = self.job["spec"]["sshAuthMountPath"]
        self.assertIn(f"HostKey {keys}/", tree.read("docker/sshd_config"))
        self.assertIn("openssh-server", " ".join(a for _, a in runtime_stage()))

    def test_shared_memory_is_large_enough_for_nccl(self):
        volumes = {v["name"]: v for v in self.pods["Worker"]["volumes"]}
        self.assertEqual(volumes["shm"]["emptyDir"]["medium"], "Memory")
        self.assertIn({"name": "shm", "mountPath": "/dev/shm"}, self.worker["volumeMounts"])


class KubernetesCpu(Overlay, unittest.TestCase):
    name = "cpu"


class KubernetesGpu(Overlay, unittest.TestCase):
    name = "gpu"


class KubernetesSupervised(Overlay, unittest.TestCase):
    name = "supervised"

    def test_the_supervisor_is_done_before_its_pod_is_killed(self):
        words = self.command
        own = words[:words.index("--")]
        self.assertEqual(words[1], "launch")
        self.assertEqual(words[words.index("--") + 1], "train")
        self.assertEqual(option(own, "--hosts"), "/etc/mpi/hostfile")  # where the operator mounts it
        self.assertLess(int(option(own, "--grace")), self.pods["Launcher"]["terminationGracePeriodSeconds"])
        self.assertLessEqual(int(option(own, "--min-ranks")), int(option(own, "-np")))
        self.assertEqual(self.launcher["ports"], [{"name": "metrics-launch", "containerPort": int(option(own, "--metrics-port"))}])
        page = subprocess.check_output([os.environ["DTRAIN"], "launch", "--help"], text=True)
        for flag in ("--hosts", "--min-ranks", "--max-restarts", "--host-timeout", "--grace", "--metrics-port"):
            self.assertIn(flag, own)
            self.assertRegex(page, rf"{flag}(?![\w.-])")


def add_programs(folder, **programs):
    """Makes a folder with these shell scripts, to be put on PATH."""
    folder.mkdir()
    for program, body in programs.items():
        (folder / program).write_text("#!/bin/sh\n" + body + "\n")
        (folder / program).chmod(0o755)


def install_scripts(prefix, env=""):
    """Fills a prefix as far as a batch script needs it."""
    (prefix / "env.sh").write_text(env)
    (prefix / "share/dtrain").mkdir(parents=True)
    (prefix / "share/dtrain/launch").symlink_to(tree.ROOT / "launch")


class Slurm(unittest.TestCase):
    def setUp(self):
        self.script = tree.read("launch/slurm/dtrain.sbatch")
        self.options = self.options_of(self.script)

    def options_of(self, script):
        return dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(\S+))?", script, re.MULTILINE))

    def test_it_is_signaled_before_its_end_and_continues_later(self):
        for name in ("dtrain", "dtrain_mpirun", "sweep"):
            script = tree.read(f"launch/slurm/{name}.sbatch")
            options = self.options_of(script)
            self.assertEqual(options["signal"], "B:USR1@120", "srun and mpirun lose a signal that comes early: the shell repeats it")
            self.assertIn("requeue", options)
            self.assertEqual(options["open-mode"], "append")
            self.assertRegex(script, r"run_ranks .*mpirun" if "mpirun" in name else r"run_ranks .*srun --mpi=pmix ")

    def test_one_rank_per_gpu(self):
        self.assertEqual(self.options["ntasks-per-node"], self.options["gpus-per-node"])

    def run_with(self, code, seconds=0, signaled=False):
        """Runs the script with a fake srun and scontrol; returns (exit code, arguments of scontrol, arguments of srun)."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            install_scripts(folder)
            add_programs(folder / "bin", scontrol=f'echo "$@" >"{folder}/scontrol"',
                         srun=f'trap "" USR1; echo "$@" >"{folder}/part" && mv "{folder}/part" "{folder}/srun"; sleep {seconds}; exit {code}')
            environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}", DTRAIN_PREFIX=name,
                               SLURM_JOB_NAME="dtrain", SLURM_JOB_ID="7")
            job = subprocess.Popen(["bash", tree.ROOT / "launch/slurm/dtrain.sbatch", "c.yaml"], env=environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while signaled and not (folder / "srun").exists():
                time.sleep(0.01)
            if signaled:
                job.send_signal(signal.SIGUSR1)
            rc = job.wait(timeout=60)
            asked = folder / "scontrol"
            return rc, asked.read_text().strip() if asked.exists() else None, (folder / "srun").read_text()

    def test_requeues_only_what_can_end_better(self):
        again = "requeue 7"
        for code, wanted in [(0, None), (75, again), (78, None), (64, None), (76, again), (1, again), (137, again), (138, again), (205, again), (79, None)]:
            rc, requeued, arguments = self.run_with(code)
            self.assertEqual((rc, requeued), (code, wanted))
            self.assertIn("dtrain train c.yaml --name dtrain-7 --resume auto", arguments)

    @contextlib.contextmanager
    def ending_with(self, code, **variables):
        """Yields a folder, and a function that runs the batch script there. Its ranks end with the code; scontrol keeps the comment of the job."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            install_scripts(folder, env=f"""
                srun() {{ return {code}; }}
                scontrol() {{ case $1 in
                  show) cat {folder}/comment ;;
                  update) echo "   $3" >{folder}/comment ;;
                  requeue) echo "requeued $2" ;;
                esac; }}""")
            (folder / "comment").touch()
            environment = dict(os.environ, DTRAIN_PREFIX=name, SLURM_JOB_NAME="dtrain", DTRAIN_NAME="r", **variables)

            def run():
                job = subprocess.run(["bash", tree.ROOT / "launch/slurm/dtrain.sbatch", "c.yaml"], cwd=folder, env=environment, text=True,
                                     capture_output=True)
                self.assertEqual(job.returncode, code, job.stderr)
                return job

            yield folder, run

    def test_crashes_without_a_new_checkpoint_end_the_job(self):
        with self.ending_with(76, SLURM_JOB_ID="9", SLURM_ARRAY_JOB_ID="7", SLURM_ARRAY_TASK_ID="2") as (folder, run):
            def requeued():
                job = run()
                self.assertEqual("requeued 7_2" in job.stdout, "not requeued" not in job.stderr)  # never the whole array
                return "requeued" in job.stdout

            self.assertEqual([requeued() for _ in range(4)], [True, True, True, False])
            (folder / "runs/r/checkpoints/step_00000020").mkdir(parents=True)
            self.assertEqual([requeued() for _ in range(2)], [True, True])
            self.assertEqual((folder / "comment").read_text().strip(), "Comment=dtrain: 5 crashes, 2 since step_00000020")
            for step in range(40, 140, 20):
                (folder / f"runs/r/checkpoints/step_{step:08}").mkdir()
                self.assertTrue(requeued())
            (folder / "runs/r/checkpoints/step_00000200").mkdir()
            self.assertFalse(requeued(), "an eleventh crash")

    def test_stops_are_not_counted_where_the_run_folder_is_not_found(self):
        """run.folder is not `runs`, and DTRAIN_RUNS is not set."""
        with self.ending_with(75, SLURM_JOB_ID="7") as (folder, run):
            def stopped():
                job = run()
                return "requeued 7" in job.stdout, job.stderr

            for _ in range(5):
                requeued, problem = stopped()
                self.assertTrue(requeued, problem)
                self.assertEqual(problem.count("\n"), 1, problem)
                self.assertIn("there is no run folder runs/r", problem)
                self.assertIn("set DTRAIN_RUNS", problem)
            self.assertEqual((folder / "comment").read_text(), "")
            (folder / "runs/r").mkdir(parents=True)
            self.assertEqual([stopped()[0] for _ in range(4)], [True, True, True, False])

    def test_a_failing_scontrol_leaves_the_exit_code_of_the_ranks(self):
        """slurmctld does not answer, or a plugin of the cluster refuses the change of the comment."""
        for code, failing, asked in ((76, "show", ["show"]), (76, "update", ["show", "update"]), (76, "requeue", ["show", "update", "requeue"]),
                                     (138, "requeue", ["requeue"])):
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                install_scripts(folder)
                add_programs(folder / "bin", srun=f"exit {code}", scontrol=f'echo "$1" >>{folder}/asked; [ "$1" != {failing} ] || exit 3')
                environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}", DTRAIN_PREFIX=name, SLURM_JOB_NAME="dtrain", SLURM_JOB_ID="7")
                job = subprocess.run(["bash", tree.ROOT / "launch/slurm/dtrain.sbatch", "c.yaml"], cwd=folder, env=environment, text=True,
                                     capture_output=True)
                self.assertEqual((job.returncode, (folder / "asked").read_text().split()), (code, asked), job.stderr)
                self.assertRegex(job.stderr, f"not requeued: .*scontrol {failing}")
                self.assertNotIn("requeued", job.stdout)

    @contextlib.contextmanager
    def batch(self, script="dtrain"):
        """Yields a folder, and a function that runs the script there with these words: its ranks print their command."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            install_scripts(folder, env="srun() { echo \"srun $*\"; }\nmpirun() { echo \"mpirun $*\"; }\n")

            def run(*words, **environment):
                of_job = {"DTRAIN_PREFIX": name, "SLURM_JOB_NAME": "dtrain", "SLURM_JOB_ID": "7", **environment}
                return subprocess.run(["bash", str(tree.ROOT / f"launch/slurm/{script}.sbatch"), *words], cwd=folder, capture_output=True,
                                      env={**os.environ, **{key: value for key, value in of_job.items() if value}}, text=True)

            yield folder, run

    def test_it_names_what_to_train(self):
        """--resume auto with a name alone starts nothing: the script asks for a config."""
        with self.batch() as (folder, batch):
            refused = batch()
            self.assertEqual(refused.returncode, 64)
            self.assertIn("CONFIG.yaml, --task NAME or --dataset NAME", refused.stderr)
            self.assertIn("dtrain train --task headpose --name", batch("--task", "headpose").stdout)
            (folder / "dtrain.yaml").write_text("task: headpose\n")
            self.assertIn("dtrain train --name", batch().stdout)

    def test_metrics_are_served_where_the_user_says(self):
        everywhere = " --metrics.bind 0.0.0.0"
        self.assertEqual(re.findall(r"^\| `([\w.]+\.bind)`", tree.read("docs/configuration.md"), re.MULTILINE), ["metrics.bind"],
                         "sets_bind of job.sh takes any bind in a config for this one")
        with self.batch() as (folder, batch):
            (folder / "plain.yaml").write_text("# bind: here\nmetrics:\n  port: 9600  # bind: no\n  unbind: 1\n")
            (folder / "own.yaml").write_text("metrics:\n  bind: 10.0.0.7\n")
            (folder / "flow").write_text('{"metrics": {"port": 9600, "bind": "10.0.0.7"}}\n')
            (folder / "dotted.yml").write_text("metrics.bind: 10.0.0.7\n")
            for words in (["plain.yaml"], ["--task", "headpose"], ["none.yaml"]):
                self.assertTrue(batch(*words).stdout.endswith(f"--resume auto{everywhere}\n"), words)
            for words in (["plain.yaml", "--metrics.bind", "10.0.0.7"], ["plain.yaml", "--metrics.bind=10.0.0.7"], ["own.yaml"], ["flow"],
                          ["--epochs", "2", "dotted.yml"]):
                self.assertTrue(batch(*words).stdout.endswith("--resume auto\n"), words)
            (folder / "own.yaml").rename(folder / "dtrain.yaml")
            self.assertNotIn(everywhere, batch("--task", "headpose").stdout)
            self.assertIn(everywhere, batch("plain.yaml").stdout)

    def test_a_name_of_the_run_is_refused(self):
        with self.batch() as (_, batch):
            for flag in ("--name", "--run.name"):
                for words in ([flag, "x"], [f"{flag}=x"]):
                    refused = batch("c.yaml", *words)
                    self.assertEqual((refused.returncode, refused.stdout), (64, ""), words)
                    self.assertIn(f"{flag}: the job names its run, here dtrain-7; DTRAIN_NAME=NAME", refused.stderr)
            self.assertIn("--name x --resume auto", batch("c.yaml", DTRAIN_NAME="x").stdout)

    def test_what_is_no_job_is_refused(self):
        for script in ("dtrain", "dtrain_mpirun", "sweep"):
            with self.batch(script) as (_, batch):
                for words, missing in (("submit it with sbatch", "SLURM_JOB_ID"), ("set DTRAIN_PREFIX", "DTRAIN_PREFIX")):
                    refused = batch("c.yaml", **{missing: ""})
                    self.assertEqual((refused.returncode, refused.stdout, refused.stderr.count("\n")), (64, "", 1), refused.stderr)
                    self.assertIn(words, refused.stderr)
        with self.batch("sweep") as (_, batch):
            refused = batch("c.yaml")
            self.assertEqual(refused.returncode, 64)
            self.assertIn("submit it with launch/slurm/sweep", refused.stderr)

    def test_waits_for_the_save_when_the_shell_is_signaled_too(self):
        self.assertEqual(self.run_with(75, seconds=1, signaled=True)[:2], (75, "requeue 7"))


class Sweep(unittest.TestCase):
    """launch/slurm/sweep with a fake sbatch and squeue, and sweep_table with few runs. tests/slurm runs both."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        add_programs(self.folder / "bin", sbatch=f'echo "$@" >>{self.folder}/submitted; echo 7', squeue="echo sweep")

    def run_script(self, script, *words, **environment):
        environment = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", **environment}
        return subprocess.run([tree.ROOT / "launch/slurm" / script, *words], cwd=self.folder, capture_output=True, text=True, env=environment)

    def sweep(self, *words, **environment):
        return self.run_script("sweep", *words, **{"DTRAIN_PREFIX": str(self.folder), **environment})

    def expect_refused(self, result, text, code=64):
        self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (code, "", 1), result.stderr)
        self.assertIn(text, result.stderr)
        self.assertFalse((self.folder / "submitted").exists(), "refused after it was submitted")

    def test_rates_are_checked(self):
        for rates, bad in (("abc", "'abc'"), ("1e-4,abc", "'abc'"), ("1e-4,,1e-3", "''"), ("1e-4,", "''"), (",1e-4", "''"), ("1e-4,-1e-3", "'-1e-3'"),
                           ("0", "'0'"), ("0e5", "'0e5'"), ("1e-4, 1e-3", "' 1e-3'"), ("1e", "'1e'"), ("5.", "'5.'"),
                           ("1e-4,1e-3,1e-4", "1e-4 is listed twice")):
            self.expect_refused(self.sweep(rates, "--", "c.yaml"), bad)

    def test_a_word_that_sbatch_would_run_is_refused(self):
        for words in (["1e-4", "my.yaml"], ["1e-4", "1e-3", "--", "my.yaml"], ["1e-4", "--time=60", "my.yaml"], ["1e-4", "-p", "gpu", "my.yaml"]):
            bad = "1e-3" if "1e-3" in words else "my.yaml"
            self.expect_refused(self.sweep(*words), f"'{bad}' is no option of sbatch: put -- before it")

    def test_it_asks_for_what_it_needs(self):
        self.expect_refused(self.sweep("1e-4"), "CONFIG.yaml, --task NAME or --dataset NAME")
        self.expect_refused(self.sweep("1e-4", "--"), "CONFIG.yaml, --task NAME or --dataset NAME")
        self.expect_refused(self.sweep("1e-4", "--", "c.yaml", DTRAIN_PREFIX=""), "set DTRAIN_PREFIX")
        self.expect_refused(self.sweep("1e-4", "--", "c.yaml", "--lr", "1"), "--lr")
        self.expect_refused(self.sweep("1e-4", "--", "c.yaml", "--name=x"), "--job-name")

    def test_options_and_their_values_reach_sbatch(self):
        done = self.sweep("1e-4,.5,2,1.5E+2", "-p", "gpu", "--time", "60", "--mem=0", "--", "c.yaml", "--epochs", "2")
        self.assertEqual((done.returncode, done.stdout), (0, "job 7 trains; its table will be in sweep-7.txt\n"), done.stderr)
        script = tree.ROOT / "launch/slurm/sweep.sbatch"
        self.assertEqual((self.folder / "submitted").read_text().splitlines()[0],
                         f"--parsable --array=0-3 -p gpu --time 60 --mem=0 {script} c.yaml --epochs 2")
        (self.folder / "dtrain.yaml").touch()
        self.assertEqual(self.sweep("1e-4").returncode, 0)

    def submitted(self):
        """The options of the two calls of sbatch: for the array, and for the table."""
        array, table = (self.folder / "submitted").read_text().splitlines()
        return array.split(" /")[0].split(), table.split(" /")[0].split()

    def test_the_table_goes_where_the_array_goes(self):
        """A cluster may refuse a job without an account or a partition."""
        for words in (["--account=A", "--partition=P", "--qos=Q"], ["--account", "A", "--partition", "P", "--qos", "Q"],
                      ["-A", "A", "-p", "P", "-q", "Q"], ["-AA", "-pP", "-qQ"], ["-M", "C"], ["-MC"], ["--clusters=C"], ["--clusters", "C"]):
            (self.folder / "submitted").unlink(missing_ok=True)
            done = self.sweep("1e-4", "--mem=0", *words, "-t", "60", "--", "c.yaml", "-A", "other")
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
            array, table = self.submitted()
            self.assertEqual(array, ["--parsable", "--array=0-0", "--mem=0", *words, "-t", "60"])
            self.assertEqual([word for word in table if word in words], words)
            self.assertFalse({"--mem=0", "-t", "60", "other"} & set(table), table)

    def test_the_table_is_made_on_the_cluster_that_took_the_array(self):
        """With -M, sbatch names it."""
        add_programs(self.folder / "there", sbatch=f'echo "$@" >>{self.folder}/submitted; echo "7;east"',
                     squeue=f'echo "$@" >>{self.folder}/asked; echo "CLUSTER: east"; echo sweep')
        done = self.sweep("1e-4", "-M", "west,east", "--", "c.yaml", PATH=f"{self.folder}/there:/usr/bin:/bin")
        self.assertEqual((done.returncode, done.stdout), (0, "job 7 trains; its table will be in sweep-7.txt\n"), done.stderr)
        self.assertIn("--clusters=east", (self.folder / "asked").read_text().split())
        table = self.submitted()[1]
        self.assertGreater(table.index("--clusters=east"), table.index("west,east"), "the last one counts")

    def test_a_table_that_cannot_be_submitted(self):
        """The array trains all the same, and must not be submitted again."""
        accepts = f'echo "$@" >>{self.folder}/submitted; echo 7'
        refuses = 'case "$*" in *--dependency*) echo "sbatch: error: Invalid account" >&2; exit 1 ;; esac; ' + accepts
        for sbatch, squeue, name, words in ((refuses, "echo my sweep", "my\\ sweep", "sbatch refuses the job for its table"),
                                            (accepts, "exit 1", "NAME", "squeue does not tell the name of the job")):
            with tempfile.TemporaryDirectory() as folder:
                add_programs(pathlib.Path(folder) / "bin", sbatch=sbatch, squeue=squeue)
                done = self.sweep("1e-4", "--", "c.yaml", PATH=f"{folder}/bin:/usr/bin:/bin", DTRAIN_RUNS="my runs")
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn(f"job 7 trains, but {words}", done.stderr)
            command = f"DTRAIN_PREFIX={self.folder} {tree.ROOT}/launch/slurm/sweep_table my\\ runs {name}-7"
            self.assertEqual(done.stderr.splitlines()[-1].strip(), command)

    def test_the_table_says_what_it_lacks(self):
        """In one line each."""
        os.symlink(os.environ["DTRAIN"], self.folder / "bin/dtrain")
        self.expect_refused(self.run_script("sweep_table", "none", "s-1", DTRAIN_PREFIX=str(self.folder)), "none does not exist", 65)
        self.expect_refused(self.run_script("sweep_table", "none", "s-1"), "none does not exist", 65)
        (self.folder / "bin/dtrain").unlink()
        self.expect_refused(self.run_script("sweep_table", "none", "s-1"), "cannot start dtrain", 127)
        self.expect_refused(self.run_script("sweep_table", "none", "s-1", DTRAIN_PREFIX="/none"), "cannot start /none/bin/dtrain", 127)


if __name__ == "__main__":
    unittest.main()
