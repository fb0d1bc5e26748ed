"""What happens to jobs in a cluster happens to ours, for real: each goes on by itself, and ends as if nothing had happened.

usage: scenarios_test.py srun|mpirun [NAME]...
"""

import sys

import cluster
import jobs
import runner
import sandbox

SCRIPTS = {"srun": "dtrain.sbatch", "mpirun": "dtrain_mpirun.sbatch"}
_launcher = "srun"


def _start(folder, slurm, **options):
    jobs.prepare(folder)
    jobs.write_config(folder, jobs.WITHOUT_END)
    return jobs.Job(slurm, folder, SCRIPTS[_launcher], **options)


def _finish(job, most_lost=0, most_restarts=1):
    """Shortens the job that waits in the queue, waits for its end, and compares it with an undisturbed one."""
    end = job.step() + 10
    jobs.write_config(job.folder, end)
    job.wait_for_end()
    assert 1 <= job.restarts() <= most_restarts, job.restarts()
    lost = jobs.steps_trained_twice(job)
    assert lost <= most_lost, f"{lost} steps were trained twice\n{job.output()}"
    jobs.same_as_undisturbed(job.folder, job.name, job.output(), end)
    seconds = job.seconds_to_next_step()
    print(f"        {job.restarts()} restarts, {lost} steps lost, {seconds:.1f} s to the next step", flush=True)


def before_its_time_limit_it_saves(folder):
    """Slurm knows limits in minutes, and looks at them every 30 s: the signal comes 20 to 50 s after the start."""
    with cluster.Cluster(folder) as slurm:
        job = _start(folder, slurm, time=1)
        job.wait_for_step(1)
        job.wait_for_requeue(180)
        slurm.call("scontrol", "update", f"JobId={job.id}", "TimeLimit=60")  # once is enough on a slow machine
        _finish(job)


def _preempt(folder, slurm):
    job = _start(folder, slurm)
    job.wait_for_step(5)
    slurm.call("sbatch", "--partition=high", "--nodes=2", "--ntasks-per-node=4", "--output=other", "--wrap=echo done",
               cwd=folder)
    job.wait_for_requeue()
    slurm.wait((folder / "other").exists, 120, "the other job runs")
    _finish(job)


def a_job_of_a_higher_partition_takes_its_nodes(folder):
    with cluster.Cluster(folder) as slurm:
        _preempt(folder, slurm)


def preemption_sends_only_sigterm(folder):
    """Without preempt_send_user_signal. Only steps receive it, not the batch script, and not an mpirun that it started."""
    with cluster.Cluster(folder, grace=10, user_signal=False) as slurm:
        _preempt(folder, slurm)


def preemption_has_no_time_of_grace(folder):
    """Slurm sends SIGTERM to all processes, and SIGKILL after KillWait."""
    with cluster.Cluster(folder, grace=0, user_signal=False) as slurm:
        _preempt(folder, slurm)


def an_operator_requeues_it(folder):
    with cluster.Cluster(folder) as slurm:
        job = _start(folder, slurm)
        job.wait_for_step(5)
        slurm.call("scontrol", "requeue", job.id)
        job.wait_for_requeue()
        _finish(job)


def a_canceled_job_saves_and_is_not_started_again(folder):
    with cluster.Cluster(folder) as slurm:
        job = _start(folder, slurm)
        job.wait_for_step(5)
        slurm.call("scancel", job.id)
        job.wait(lambda: job.state() == "CANCELLED", 120, "the job is canceled")
        # squeue shows jobs that have not ended on all nodes
        job.wait(lambda: not slurm.call("squeue", "--noheader", "--jobs", job.id).strip(), 120, "all nodes are free")
        assert job.state() == "CANCELLED" and job.restarts() == 0, job.state()
        saved = sorted((folder / "runs/job/checkpoints").glob("step_*/MANIFEST.json"))
        assert saved[-1].parent.name == f"step_{len(runner.metrics(folder / 'runs/job')):08}", saved


def one_of_its_ranks_dies(folder):
    """No node is lost, and Slurm sees a step that failed: the script has to start the job again."""
    with cluster.Cluster(folder) as slurm:
        job = _start(folder, slurm)
        job.wait_for_step(25)
        slurm.kill_process("n2", "dtrain", "train")
        job.wait_for_requeue(120)  # long before dist.timeout
        assert "Comment=dtrain: 1 crashes, 1 since step_" in slurm.call("scontrol", "show", "job", job.id)
        _finish(job, most_lost=20)


def _strike(folder, fault, most_restarts=1):
    """A job on two of three nodes, and what happens to one of them."""
    with cluster.Cluster(folder, nodes=3) as slurm:
        job = _start(folder, slurm)
        job.wait_for_step(25)
        fault(slurm)
        job.wait_for_requeue()
        _finish(job, most_lost=20, most_restarts=most_restarts)


def a_slurmd_is_killed(folder):
    """Slurm ends a job when it has not heard from one of its nodes for SlurmdTimeout; the ranks on the node still run."""
    _strike(folder, lambda slurm: slurm.kill_process("n2", "slurmd", "-N", "n2"))


def a_node_dies(folder):
    """Ranks or mpirun may notice before Slurm does, which then starts the job once more on the node that is gone."""
    _strike(folder, lambda slurm: slurm.kill_node("n2"), most_restarts=4)


def the_node_of_its_batch_script_dies(folder):
    _strike(folder, lambda slurm: slurm.kill_node("n1"), most_restarts=4)


ALL = [before_its_time_limit_it_saves, a_job_of_a_higher_partition_takes_its_nodes, preemption_sends_only_sigterm,
       preemption_has_no_time_of_grace, an_operator_requeues_it, a_canceled_job_saves_and_is_not_started_again,
       one_of_its_ranks_dies, a_slurmd_is_killed, a_node_dies, the_node_of_its_batch_script_dies]

if __name__ == "__main__":
    if cluster.missing():
        runner.skip("not installed: " + ", ".join(cluster.missing()))
    sandbox.enter()
    _launcher = sys.argv[1]
    runner.main(runner.chosen(ALL, words=sys.argv[2:]))
