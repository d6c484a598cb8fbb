"""The steps of a study, one function each; every rule of the workflow calls one of them through the command line."""
