"""The requirements domain: epics, user stories, requirements and acceptance criteria in a relational database."""
