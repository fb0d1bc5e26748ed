"""A small Slurm comes up, and a job on two ranks is stopped, requeued, and ends as if nothing had happened."""

import cluster
import jobs
import runner
import sandbox


def a_signaled_job_continues(folder):
    jobs.prepare(folder)
    jobs.write_config(folder, jobs.WITHOUT_END)
    with cluster.Cluster(folder, nodes=1) as slurm:
        job = jobs.Job(slurm, folder, "dtrain.sbatch", nodes=1, per_node=2)
        job.wait_for_step(5)
        slurm.call("scancel", "--batch", "--signal=USR1", job.id)
        job.wait_for_requeue()
        end = job.step() + 10
        jobs.write_config(folder, end)
        job.wait_for_end()
        assert job.restarts() == 1, job.restarts()
        assert jobs.steps_trained_twice(job) == 0, job.output()
        jobs.same_as_undisturbed(job.folder, job.name, job.output(), end)


if __name__ == "__main__":
    if cluster.missing():
        runner.skip("not installed: " + ", ".join(cluster.missing()))
    sandbox.enter()
    runner.main([a_signaled_job_continues])
