"""Phases: problems that follow one another, each with dynamics and a duration of its own."""
