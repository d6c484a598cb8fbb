rule figures:
    input:
        PATHS.merged,
        PATHS.tables,
    output:
        PATHS.figure_list,
    log:
        STUDY / "logs" / "figures.log",
    benchmark:
        STUDY / "benchmarks" / "figures.tsv"
    message:
        "Drawing the figures"
    params:
        identity=digest(PLAN.study.report.model_dump(mode="json")),
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    shell:
        "nqf figures {STUDY} > {log} 2>&1"


rule report:
    input:
        PATHS.figure_list,
        PATHS.tables,
    output:
        report(PATHS.report, caption="../report/study.rst", category="Study"),
    log:
        STUDY / "logs" / "report.log",
    benchmark:
        STUDY / "benchmarks" / "report.tsv"
    message:
        "Writing {PATHS.report}"
    params:
        identity=digest(PLAN.study.report.model_dump(mode="json")),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    shell:
        "nqf report {STUDY} > {log} 2>&1"
