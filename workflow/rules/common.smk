from nqf_pipeline.cli import readable_errors, show_warnings
from nqf_pipeline.stages.queue import adopt_names, require_cluster, short_jobs
from nqf_pipeline.stages.run import begin
from nqf_pipeline.stages.status import hints, unfinished


onstart:
    with readable_errors():
        queued = adopt_names(workflow, PLAN.study.name)
        if queued:
            require_cluster()
        begin(PLAN)
    show_warnings(PLAN.warnings)
    if queued:
        show_warnings(short_jobs(PLAN))


onsuccess:
    show_warnings(unfinished(PLAN))


onerror:
    show_warnings(hints(STUDY))
