"""Sudden drops of a study's loss curves, and the predicted ignitions they belong to (the table `drops`).

`seen`: drops and plateaus of curves. `expected`: which drops predicted ignitions make, modes that no curve can tell apart taken together.
`match`: which of one is which of the other. `table`: the rows.
"""
