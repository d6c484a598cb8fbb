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
    conda:
        "../../environment.yml"
    threads: min(PLAN.study.engine.dask.cores, 2)
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=STUDY,
        identity=digest(PLAN.study.report.model_dump(mode="json")),
    message:
        "Drawing the figures"
    shell:
        "nqf figures {params.study} > {log} 2>&1"


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
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        study=STUDY,
        identity=digest(PLAN.study.report.model_dump(mode="json")),
    message:
        "Writing {PATHS.report}"
    shell:
        "nqf report {params.study} > {log} 2>&1"
