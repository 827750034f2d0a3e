"""What commands write: tables, summaries, figures, pages."""
