"""Results on paper: tables, figures, pages, files in and out."""
