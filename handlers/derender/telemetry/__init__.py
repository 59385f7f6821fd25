"""Log lines and metrics: what an operator learns about each request, and never what was generated."""
