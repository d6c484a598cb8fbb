"""Claims by subject: one module each, with a tuple `CLAIMS`."""
