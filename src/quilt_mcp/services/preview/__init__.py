"""What is in a file: a page of text, the first rows of a table, cells, pages or a picture, read by ranges."""
