"""launch/slurm/sweep: an array of runs with different learning rates, which are interrupted, ends in a table."""

import cluster
import jobs
import runner
import sandbox

RATES = ["1e-4", "1e-3", "3e-2"]


def a_sweep_ends_in_a_table(folder):
    jobs.prepare(folder)
    jobs.write_config(folder, jobs.WITHOUT_END)
    with cluster.Cluster(folder) as slurm:
        env = {**runner.environment(), "DTRAIN_PREFIX": str(folder / "prefix")}
        program = runner.SOURCE.resolve() / "launch/slurm/sweep"
        output = slurm.call(program, ",".join(RATES), "--cpus-per-task=1", "--time=60", cwd=folder, env=env)
        array = output.split("job ")[1].split()[0]
        runs = [folder / f"runs/sweep-{array}-lr{rate}" for rate in RATES]
        training = lambda run: (run / "metrics.jsonl").exists() and runner.metrics(run)
        slurm.wait(lambda: all(map(training, runs)), 240, "all three train")
        # The last task of an array has the number of the whole array, and must not take the others with it.
        slurm.call("scancel", "--batch", "--signal=USR1", f"{array}_{len(RATES) - 1}")
        slurm.wait(lambda: _queued(slurm, array) == [f"{array}_{len(RATES) - 1}"], 120, "one task is queued, and only one")
        slurm.call("scontrol", "hold", f"{array}_{len(RATES) - 1}")
        for task in range(len(RATES) - 1):
            slurm.call("scancel", "--batch", "--signal=USR1", f"{array}_{task}")
            slurm.wait(lambda: f"{array}_{task}" in _queued(slurm, array), 240, "this one is queued again too")
            slurm.call("scontrol", "hold", f"{array}_{task}")
        end = max(record["step"] for run in runs for record in runner.metrics(run)) + 10
        jobs.write_config(folder, end)
        for task in range(len(RATES)):
            slurm.call("scontrol", "release", f"{array}_{task}")
        table = folder / f"sweep-{array}.txt"
        slurm.wait(lambda: table.exists() and table.read_text().count("\n") > len(RATES), 600, "the table")
        text = table.read_text()
        lines = [line.split() for line in text.splitlines()]
        assert [line[0] for line in lines[1:]] == RATES, text
        assert all(line[1:4] == ["finished", f"{end}/{end}", "mae"] for line in lines[1:]), text
        best = min(lines[1:], key=lambda line: float(line[4]))
        assert [line for line in lines if line[-1] == "best"] == [best], text
        rates = {runner.metrics(run)[-1]["learning_rate"] for run in runs}
        assert rates == {float(rate) for rate in RATES}, rates
        for task, (run, rate) in enumerate(zip(runs, RATES)):
            log = (folder / f"sweep-{array}_{task}.log").read_text()
            jobs.same_as_undisturbed(folder, run.name, log, end, "--lr", rate, np=1)


def the_table_goes_where_the_array_goes(folder):
    """A cluster may refuse jobs in its default partition."""
    with cluster.Cluster(folder, nodes=1) as slurm:
        env = {**runner.environment(), "DTRAIN_PREFIX": str(folder / "prefix")}
        program = runner.SOURCE.resolve() / "launch/slurm/sweep"
        sweep = lambda *words, **more: slurm.call(program, "1e-4,1e-3", "--hold", *words, "--", "c.yaml", cwd=folder, env=env, **more)
        for words in (["-phigh"], ["-p", "high"], ["--partition=high"]):
            sweep(*words)
            jobs_there = slurm.call("squeue", "--noheader", "--format=%j %P").splitlines()
            assert sorted(jobs_there) == ["sweep high", "sweep-table high"], jobs_there
            slurm.call("scancel", "--user=root")
            slurm.wait(lambda: not slurm.call("squeue", "--noheader"), 60, "the jobs are canceled")
        # The table asks for more time than this cluster gives.
        with open(slurm.env["SLURM_CONF"], "a") as file:
            file.write("EnforcePartLimits=ALL\n")
        slurm.call("scontrol", "reconfigure")
        slurm.call("scontrol", "update", "PartitionName=low", "MaxTime=5")
        output = sweep("--time=5", "--cpus-per-task=1", check=False)
        (array,) = slurm.call("squeue", "--noheader", "--format=%F").split()
        assert f"job {array} trains, but" in output and output.splitlines()[-1].endswith(f"/sweep_table runs sweep-{array}"), output


def _queued(slurm, array):
    return slurm.call("squeue", "--noheader", "--states=PENDING", "--format=%i", "--array", "--jobs", array).split()


if __name__ == "__main__":
    if cluster.missing():
        runner.skip("not installed: " + ", ".join(cluster.missing()))
    sandbox.enter()
    runner.main([the_table_goes_where_the_array_goes, a_sweep_ends_in_a_table], [])
