from nqf_pipeline.cli import readable_errors, show_warnings
from nqf_pipeline.stages.queue import adopt_names
from nqf_pipeline.stages.run import begin
from nqf_pipeline.stages.status import hints, unfinished


onstart:
    with readable_errors():
        adopt_names(workflow, PLAN.study.name)
        begin(PLAN)
    show_warnings(PLAN.warnings)


onsuccess:
    show_warnings(unfinished(STUDY))


onerror:
    show_warnings(hints(STUDY))
