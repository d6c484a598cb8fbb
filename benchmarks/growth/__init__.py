"""How the cost of a study grows: sweeps, growth exponents, and what they say about far larger studies (docs/scaling.md)."""
