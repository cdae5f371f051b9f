"""Words: splitting, stems, stop words and dates. One of each in the whole house."""
