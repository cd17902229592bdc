"""Reports: tables, figures, pages, imports and exports."""
