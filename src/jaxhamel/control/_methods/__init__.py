"""Methods of optimal control: one transcription or search in each file."""
