from nqf_pipeline.cli import readable_errors, show_warnings
from nqf_pipeline.stages.run import begin
from nqf_pipeline.stages.status import hints


onstart:
    with readable_errors():
        begin(PLAN)
    show_warnings(PLAN.warnings)


onerror:
    show_warnings(hints(STUDY))
