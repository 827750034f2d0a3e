"""The files that commands write: tables, summaries, figures, pages."""
