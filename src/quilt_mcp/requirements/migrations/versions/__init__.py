"""One module for each revision; `schema_state.REVISIONS` lists them in order."""
