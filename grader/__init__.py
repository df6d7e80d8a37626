"""Grades the exercises of a hands-on Transformer course. Start reading at `grader.grading`."""

__version__ = "0.1.0"
